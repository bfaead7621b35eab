//! Interceptors: each message that begins ends once, and a refused one is not handled.

use turnwheel_actors::intercept::{Call, Interceptor, MessageInfo, Outcome};
use turnwheel_runtime::Failure;

use crate::run::Twin;
use crate::tasks::actors::Plain;
use crate::tasks::world::{violation, with, Role, Token, World};

/// One message in so many is refused.
const REFUSED_ONE_IN: u32 = 7;

/// Counts of the messages that the interceptor has seen.
#[derive(Debug, Default)]
pub(super) struct Model {
    begun: u64,
    ended: u64,
}

/// The interceptor of a program's system.
#[derive(Debug)]
pub(in crate::tasks) struct Watchful;

/// From the begin of a message to its end.
#[derive(Debug)]
pub(in crate::tasks) struct Begun {
    is_running: bool,
    is_over: bool,
    _token: Token,
}

impl Interceptor for Watchful {
    type State = Begun;

    fn begin(&self, call: &mut Call<'_>) -> Result<Begun, Failure> {
        let plain = call.message::<Plain>().map(|Plain(letter)| letter.number);
        if let Some(number) = plain.filter(|number| number % REFUSED_ONE_IN == 3) {
            with(|world| world.actors.intercepted(number));
            return Err(Failure::Refused("refused on purpose"));
        }
        with(|world| world.services.intercepted.begun += 1);
        Ok(Begun { is_running: false, is_over: false, _token: Token::new(Role::Other, &[]) })
    }

    fn within(&self, begun: &mut Begun, run: &mut dyn FnMut()) {
        if begun.is_over || std::mem::replace(&mut begun.is_running, true) {
            violation("an intercepted handler runs inside itself or after its end".to_owned());
        }
        run();
        begun.is_running = false;
    }

    fn end(&self, begun: &mut Begun, _: &MessageInfo, _: &mut Outcome<'_>) {
        if std::mem::replace(&mut begun.is_over, true) {
            violation("the end of an intercepted message is told twice".to_owned());
        }
        with(|world| {
            let is_lost = world.twin == Some(Twin::LosesEnds);
            world.services.intercepted.ended += u64::from(!is_lost);
        });
    }
}

impl World {
    /// Every message that has begun has ended.
    pub(super) fn check_intercepted(&mut self) {
        let Model { begun, ended } = self.services.intercepted;
        if begun != ended {
            self.violation(format!("{begun} intercepted messages began, and {ended} ended"));
        }
    }
}
