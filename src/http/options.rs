//! Options of the API.

use std::time::Duration;

use turnwheel_actors::Entities;
use turnwheel_jobs::Jobs;
use turnwheel_journeys::Journeys;
use turnwheel_runtime::Group;

use super::access::Access;
use super::limits::{BODY_BYTES_MAX, BODY_WITHIN, CONNECTIONS_MAX, HEALTH_FRESH, PROBE_WITHIN};
use crate::work::Workers;

/// Options of the API; every value has a default.
///
/// ```
/// use turnwheel::http::{Access, Options, Role, Token};
///
/// let tokens = vec![Token::new("ci", Role::Operate, "correct horse battery staple")];
/// let options = Options::new(Access::Tokens(tokens)).body_bytes_max(1 << 20);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    pub(super) access: Access,
    pub(super) body_bytes_max: usize,
    pub(super) body_within: Duration,
    pub(super) rate: Option<(u32, u32)>,
    pub(super) health_fresh: Duration,
    pub(super) probe_within: Duration,
    pub(super) workers: Option<Workers>,
    pub(super) jobs: Option<Jobs>,
    pub(super) journeys: Option<Journeys>,
    pub(super) groups: Vec<Group>,
    pub(super) entities: Vec<Entities>,
    /// Whether the server speaks TLS; it says so itself.
    pub(super) is_tls: bool,
    /// Requests that may wait at once; the server says so itself.
    pub(super) waits_max: usize,
}

impl Options {
    /// The defaults, with this access rule.
    pub fn new(access: Access) -> Self {
        Self {
            access,
            body_bytes_max: BODY_BYTES_MAX,
            body_within: BODY_WITHIN,
            rate: None,
            health_fresh: HEALTH_FRESH,
            probe_within: PROBE_WITHIN,
            workers: None,
            jobs: None,
            journeys: None,
            groups: Vec::new(),
            entities: Vec::new(),
            is_tls: false,
            waits_max: waits_of(CONNECTIONS_MAX),
        }
    }

    /// Bytes of a body, instead of [`BODY_BYTES_MAX`]. More is refused with `body-too-large`.
    pub fn body_bytes_max(mut self, bytes: usize) -> Self {
        self.body_bytes_max = bytes;
        self
    }

    /// Time limit of a body, instead of [`BODY_WITHIN`]. A slower one is refused with
    /// `body-too-slow`.
    pub fn body_within(mut self, limit: Duration) -> Self {
        self.body_within = limit;
        self
    }

    /// Requests a second of each principal in the long run, and at once after a pause. More are
    /// refused with `too-many-requests`; health and metrics do not count. No limit by default.
    pub fn rate(mut self, per_second: u32, at_once: u32) -> Self {
        self.rate = Some((per_second.max(1), at_once.max(1)));
        self
    }

    /// Hands out the tasks of these workers at `api/v1/work`.
    pub fn workers(mut self, workers: &Workers) -> Self {
        self.workers = Some(workers.clone());
        self
    }

    /// Serves these jobs at `api/v1/jobs`, and at `v1` for clients of Dkron.
    pub fn jobs(mut self, jobs: &Jobs) -> Self {
        self.jobs = Some(jobs.clone());
        self
    }

    /// Serves these journeys at `api/v1/journeys`, their users, and the intake of their events.
    pub fn journeys(mut self, journeys: &Journeys) -> Self {
        self.journeys = Some(journeys.clone());
        self
    }

    /// Shows this group of the host application at `api/v1/runtime` too; the world's own are there.
    pub fn group(mut self, group: &Group) -> Self {
        self.groups.push(group.clone());
        self
    }

    /// Shows these entities of the host application at `api/v1/entities` too, and allows look-ups
    /// of them; every reader may read their stored states.
    pub fn entities(mut self, entities: &Entities) -> Self {
        self.entities.push(entities.clone());
        self
    }

    /// Maximum age of the last commit of a healthy server without a probe, instead of
    /// [`HEALTH_FRESH`].
    pub fn health_fresh(mut self, age: Duration) -> Self {
        self.health_fresh = age;
        self
    }

    /// Time limit of the commit of a probe, instead of [`PROBE_WITHIN`].
    pub fn probe_within(mut self, limit: Duration) -> Self {
        self.probe_within = limit;
        self
    }
}

/// Requests that may wait at once, of so many connections: three quarters. The others answer
/// requests that do not wait.
pub(super) const fn waits_of(connections: usize) -> usize {
    connections - connections / 4
}
