//! Entity tags: an edit that names one fails if somebody else was faster (RFC 9110, section 13).

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{header, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::Json as Answer;
use serde::Serialize;
use turnwheel_engine::schedule::Expected;

use super::code::Code;
use super::problem::Problem;

/// An answer with its entity tag.
pub(super) fn tagged(tag: &str, body: impl Serialize) -> Response {
    ([(header::ETAG, format!("\"{tag}\""))], Answer(body)).into_response()
}

/// That the tag of an answer is one of all that is in it.
#[derive(Clone, Copy, Debug)]
struct Whole;

/// As [`tagged`], of what changes with its tag alone.
pub(super) fn tagged_whole(tag: &str, body: impl Serialize) -> Response {
    let mut answer = tagged(tag, body);
    answer.extensions_mut().insert(Whole);
    answer
}

/// Condition of a request on the state that it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Precondition {
    /// The tags of `If-Match`.
    matches: Option<Vec<String>>,
    /// `If-None-Match: *`: nothing may be there yet.
    is_new: bool,
}

impl<S: Send + Sync> FromRequestParts<S> for Precondition {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let text = |name: &HeaderName| match parts.headers.get(name) {
            Some(value) => value.to_str().map(Some).map_err(|_| wrong(name, "has to be ASCII")),
            None => Ok(None),
        };
        let matches = text(&header::IF_MATCH)?.map(tags).transpose()?;
        let is_new = match text(&header::IF_NONE_MATCH)?.map(str::trim) {
            Some("*") => true,
            Some(_) => return Err(wrong(&header::IF_NONE_MATCH, "only * is understood")),
            None => false,
        };
        Ok(Self { matches, is_new })
    }
}

impl Precondition {
    /// Whether the request is for any state, but for one that is there: `If-Match: *`.
    fn is_any(&self) -> bool {
        self.matches.iter().flatten().any(|tag| tag == "*")
    }

    /// The only state that is wanted, of something with revisions: 0 for one that is not there. Nothing
    /// if any state will do, or if the current one decides: [`check`](Self::check) it.
    pub(super) fn revision(&self) -> Option<u64> {
        match &self.matches {
            _ if self.is_new => Some(0),
            Some(tags) => match &tags[..] {
                [tag] => tag.parse().ok(),
                _ => None,
            },
            None => None,
        }
    }

    /// Whether the request has a condition at all.
    pub(super) fn is_set(&self) -> bool {
        self.is_new || self.has_tags()
    }

    /// Whether the request is for certain states, or for one that is there.
    pub(super) fn has_tags(&self) -> bool {
        self.matches.is_some()
    }

    /// Refuses the request if it is for another state than the current one; `None` if nothing is
    /// there.
    pub(super) fn check(&self, what: &str, current: Option<&str>) -> Result<(), Problem> {
        let refused = |detail: String| Err(Problem::new(Code::PreconditionFailed, detail));
        match (current, &self.matches) {
            (Some(_), _) if self.is_new => {
                refused(format!("{what} exists, and the request is for a new one"))
            }
            (None, Some(_)) => {
                refused(format!("{what} does not exist, and the request names a state of it"))
            }
            (Some(current), Some(tags)) if !tags.iter().any(|tag| tag == "*" || tag == current) => {
                refused(format!(
                    "{what} was changed since it was read: read it again, its ETag is \"{current}\" \
                     now"
                ))
            }
            _ => Ok(()),
        }
    }

    /// The same for a schedule. A tag that is no revision is that of no state.
    pub(super) fn of_schedule(&self) -> Expected {
        match &self.matches {
            _ if self.is_new => Expected::Absent,
            None => Expected::Any,
            Some(_) if self.is_any() => Expected::Present,
            Some(tags) => {
                let revision = |tag: &String| u64::from_str_radix(tag, 16).ok();
                Expected::Revisions(tags.iter().filter_map(revision).collect())
            }
        }
    }
}

/// The answer to a GET whose reader has the current state already: 304 without a body, if the tag
/// is that of all of it. Tags are compared weakly, as RFC 9110 says for `If-None-Match`.
pub(super) fn unless_known(known: Option<&str>, answer: Response) -> Response {
    let tag = answer.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok());
    let is_whole =
        answer.status() == StatusCode::OK && answer.extensions().get::<Whole>().is_some();
    let Some((known, tag)) = known.zip(tag).filter(|_| is_whole) else {
        return answer;
    };
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let is_known =
        known.split(',').any(|known| known.trim() == "*" || opaque(known) == opaque(tag));
    if !is_known {
        return answer;
    }
    let (mut parts, _) = answer.into_parts();
    parts.status = StatusCode::NOT_MODIFIED;
    parts.headers.remove(header::CONTENT_TYPE);
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::empty())
}

/// The tags of a list. A weak tag, `W/"3"`, is that of no state: an edit needs a strong one.
fn tags(text: &str) -> Result<Vec<String>, Problem> {
    let tag = |text: &str| {
        let text = text.trim();
        let (weak, strong) = match text.strip_prefix("W/") {
            Some(strong) => ("W/", strong),
            None => ("", text),
        };
        let quoted = strong.strip_prefix('"');
        match quoted.and_then(|text| text.strip_suffix('"')) {
            Some(tag) => Ok(format!("{weak}{tag}")),
            None if text == "*" => Ok(text.to_owned()),
            None => Err(wrong(&header::IF_MATCH, "a tag stands in quotes, as in the ETag of GET")),
        }
    };
    text.split(',').map(tag).collect()
}

fn wrong(name: &HeaderName, what: &str) -> Problem {
    Problem::new(Code::QueryInvalid, format!("the header {name}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_tags_is_read() {
        assert_eq!(tags("\"a\", W/\"b\"").ok(), Some(vec!["a".to_owned(), "W/b".to_owned()]));
        assert_eq!(tags("*").ok(), Some(vec!["*".to_owned()]));
        for bad in ["", "a", "\"a", "\"a\",", "\""] {
            assert!(tags(bad).is_err(), "{bad}");
        }
    }
}
