//! Interceptors: each message that begins ends once, and a refused one is not handled.

use turnwheel_actors::intercept::{Call, Direction, Interceptor, MessageInfo, Outcome};
use turnwheel_actors::SystemBuilder;
use turnwheel_interceptors::{Metrics, Spans};
use turnwheel_runtime::Failure;

use super::retried;
use crate::run::Twin;
use crate::tasks::actors::Plain;
use crate::tasks::world::{violation, with, Role, Token, World};

/// One message in so many is refused.
const REFUSED_ONE_IN: u32 = 7;

/// Counts of the messages that the interceptors have seen.
#[derive(Debug, Default)]
pub(super) struct Model {
    incoming: Counts,
    outgoing: Counts,
    metrics: Option<Metrics>,
}

/// Installs the interceptors of `turnwheel-interceptors`.
pub(in crate::tasks) fn measured(builder: SystemBuilder) -> SystemBuilder {
    let metrics = Metrics::new();
    with(|world| world.services.intercepted.metrics = Some(metrics.clone()));
    let builder = builder.intercept(metrics.clone()).intercept(Spans::default());
    builder.intercept_outgoing(retried::policy()).intercept_outgoing(metrics)
}

impl Model {
    /// Whether calls are made again.
    pub(super) fn is_measured(&self) -> bool {
        self.metrics.is_some()
    }
}

/// Each message that was counted has ended.
pub(super) fn check_metrics() {
    let Some(metrics) = with(|world| world.services.intercepted.metrics.take()) else { return };
    for row in metrics.rows() {
        let is_incoming = row.direction == Direction::Incoming;
        if row.failures > row.messages || (is_incoming && row.under_way > 0) {
            violation(format!("the metrics of messages end with {row:?}"));
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    begun: u64,
    ended: u64,
}

impl Counts {
    fn check(self, what: &str, world: &mut World) {
        let Self { begun, ended } = self;
        if begun != ended {
            world.violation(format!("{begun} {what} messages began, and {ended} ended"));
        }
    }
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
        with(|world| world.services.intercepted.incoming.begun += 1);
        Ok(Begun::new())
    }

    fn within(&self, begun: &mut Begun, run: &mut dyn FnMut()) {
        if begun.is_over || std::mem::replace(&mut begun.is_running, true) {
            violation("an intercepted handler runs inside itself or after its end".to_owned());
        }
        run();
        begun.is_running = false;
    }

    fn end(&self, begun: &mut Begun, _: &MessageInfo, _: &mut Outcome<'_>) {
        begun.end();
        with(|world| {
            let is_lost = world.twin == Some(Twin::LosesEnds);
            world.services.intercepted.incoming.ended += u64::from(!is_lost);
        });
    }
}

impl Begun {
    fn new() -> Self {
        Self { is_running: false, is_over: false, _token: Token::new(Role::Other, &[]) }
    }

    fn end(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            violation("the end of an intercepted message is told twice".to_owned());
        }
    }
}

/// The interceptor around what is sent. It refuses nothing: the model says elsewhere what came back.
#[derive(Debug)]
pub(in crate::tasks) struct Outward;

impl Interceptor for Outward {
    type State = Begun;

    fn begin(&self, _: &mut Call<'_>) -> Result<Begun, Failure> {
        with(|world| world.services.intercepted.outgoing.begun += 1);
        Ok(Begun::new())
    }

    fn end(&self, begun: &mut Begun, _: &MessageInfo, _: &mut Outcome<'_>) {
        begun.end();
        with(|world| {
            let is_lost = world.twin == Some(Twin::LosesSent);
            world.services.intercepted.outgoing.ended += u64::from(!is_lost);
        });
    }
}

impl World {
    /// Every message that has begun has ended.
    pub(super) fn check_intercepted(&mut self) {
        self.services.intercepted.incoming.check("intercepted", self);
    }

    /// Every message whose sending has begun was sent, refused or given up.
    pub(super) fn check_sent(&mut self) {
        self.services.intercepted.outgoing.check("outgoing", self);
    }
}
