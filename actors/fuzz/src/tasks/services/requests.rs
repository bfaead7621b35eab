//! The request context: what a message is sent in is what its handler and its futures see.

use turnwheel_actors::RequestContext;

use crate::program::Act;
use crate::run::Twin;
use crate::tasks::world::{violation, with};
use crate::tasks::{play, Here};

/// The value that programs set.
const KEY: &str = "within";

/// The value of the request of now.
pub(in crate::tasks) fn current() -> Option<String> {
    RequestContext::current().get(KEY).map(str::to_owned)
}

/// Performs acts in a request with another value.
pub(super) fn within(act: &Act) {
    let number = with(|world| world.next());
    let request = RequestContext::current().with(KEY, &number.to_string());
    request.scope(|| play(&act.body, &mut Here::Loose));
}

/// A message must be handled in the request that it was sent in.
pub(in crate::tasks) fn check(message: u32, sent_in: Option<&str>) {
    let handled_in = match with(|world| world.twin) {
        Some(Twin::MixesRequests) => None,
        _ => current(),
    };
    if handled_in.as_deref() != sent_in {
        violation(format!(
            "message {message} was sent in request {sent_in:?} and is handled in {handled_in:?}"
        ));
    }
}
