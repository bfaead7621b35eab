//! Events that could not be delivered.

use axum::extract::State;
use axum::http::StatusCode;
use axum::Json as Answer;
use serde_json::Value;
use turnwheel_engine::{DeadLetter, StepId};

use crate::api::{DeadLetterInfo, DeadLetterPage, Redeliver};
use crate::http::body::{Json, NameAt, Who};
use crate::http::code::Code;
use crate::http::problem::Problem;
use crate::http::show;
use crate::http::state::Api;
use crate::http::trace;

/// Events that could not be delivered since the world began
#[utoipa::path(
    get, path = "/dead-letters", tag = "world", operation_id = "listDeadLetters",
    responses((status = 200, description = "The newest of them", body = DeadLetterPage)),
)]
pub(in crate::http) async fn list(State(api): State<Api>) -> Answer<DeadLetterPage> {
    let letters = api.world().dead_letters();
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
    Answer(DeadLetterPage { total, letters })
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
    let letters = api.world().dead_letters();
    letters.letters.iter().find(|letter| letter.number == number).ok_or_else(unknown)?;
    let done = api.world().redeliver(number, to.step.map(StepId)).await;
    let outcome = done.as_ref().map_or_else(ToString::to_string, |()| "done".to_owned());
    trace::audit(&who, "redeliver", &name, &outcome);
    done?;
    Ok(StatusCode::NO_CONTENT)
}
