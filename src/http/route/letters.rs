//! Events that could not be delivered.

use axum::extract::State;
use axum::http::StatusCode;
use axum::Json as Answer;
use serde::Deserialize;
use serde_json::Value;
use turnwheel_engine::limits::DEAD_LETTERS;
use turnwheel_engine::{DeadLetter, StepId};
use utoipa::IntoParams;

use super::plans::page;
use crate::api::{DeadLetterInfo, DeadLetterPage, Redeliver};
use crate::http::body::{Json, NameAt, Query, Who};
use crate::http::code::Code;
use crate::http::cursor::{self, List};
use crate::http::problem::Problem;
use crate::http::show;
use crate::http::state::Api;
use crate::http::trace;

/// The requested dead letters.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct LettersQuery {
    /// Maximum number of letters; all that are kept by default.
    #[param(minimum = 1, maximum = 1024, default = 1024)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// Events that could not be delivered, the oldest first
///
/// The newest 1,024 are kept in the store, as far as their contents have room in 16 MiB.
#[utoipa::path(
    get, path = "/dead-letters", tag = "world", operation_id = "listDeadLetters",
    params(LettersQuery),
    responses((status = 200, description = "A page of them", body = DeadLetterPage)),
)]
pub(in crate::http) async fn list(
    State(api): State<Api>,
    Query(query): Query<LettersQuery>,
) -> Result<Answer<DeadLetterPage>, Problem> {
    let limit = page(query.limit.or(Some(DEAD_LETTERS as u32)), DEAD_LETTERS)?;
    let after =
        query.cursor.as_deref().map(|text| cursor::read(List::Letters, text)).transpose()?;
    let after = after.map(|place| {
        <[u8; 8]>::try_from(place).map(u64::from_be_bytes).map_err(|_| {
            Problem::new(
                Code::CursorInvalid,
                "the cursor names no letter: begin with the first page",
            )
        })
    });
    let mut letters = api.world().dead_letters_after(after.transpose()?.unwrap_or(0), limit + 1);
    let has_more = letters.letters.len() > limit;
    letters.letters.truncate(limit);
    let last = letters.letters.last().filter(|_| has_more);
    let next = last.map(|letter| cursor::write(List::Letters, &letter.number.to_be_bytes()));
    let info = |letter: DeadLetter| DeadLetterInfo {
        number: letter.number,
        at: show::time(letter.at),
        plan: letter.plan.to_string(),
        step: letter.step.0,
        id: letter.id,
        event: letter.payload.read().unwrap_or(Value::Null),
        reason: letter.reason,
    };
    let (total, letters) = (letters.total, letters.letters.into_iter().map(info).collect());
    Ok(Answer(DeadLetterPage { total, letters, next }))
}

/// Tries to deliver a dead letter again, to the same step or to another one of the same plan
#[utoipa::path(
    post, path = "/dead-letters/{name}/redeliver", tag = "world", operation_id = "redeliverDeadLetter",
    request_body = Redeliver,
    params(("name" = String, Path, description = "The number of the dead letter")),
    responses((status = 204, description = "It was taken, and is durable")),
)]
pub(in crate::http) async fn redeliver(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
    Json(to): Json<Redeliver>,
) -> Result<StatusCode, Problem> {
    let unknown = || Problem::new(Code::LetterUnknown, format!("there is no dead letter «{name}»"));
    let number: u64 = name.parse().map_err(|_| unknown())?;
    let found = api.world().dead_letters_after(number.saturating_sub(1), 1);
    found.letters.first().filter(|letter| letter.number == number).ok_or_else(unknown)?;
    let done = api.world().redeliver(number, to.step.map(StepId)).await;
    let outcome = done.as_ref().map_or_else(ToString::to_string, |()| "done".to_owned());
    trace::audit(&who, "redeliver", &name, &outcome);
    done?;
    Ok(StatusCode::NO_CONTENT)
}
