//! The clients: threads that speak HTTP, and know what they must have got.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bucket::{Limit, IDLE};
use crate::server::{CLIENT, RETRY_AFTER_MS};

/// Clients that come once.
const PASSERS_BY: u64 = 2_000;
/// An answer takes microseconds; beyond this something is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How a client behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Greedy,
    Crowd,
    Polite,
    Sparse,
    Back,
}

/// What a client has got, by its own clock. A request counts at the bucket somewhere between the time
/// it was sent and the time it was answered; so all bounds hold whatever the machine does.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    admitted: u64,
    /// Requests that were refused although their client had waited as told, or was below the rate.
    wrongly_refused: u64,
    first_sent: Instant,
    first_answered: Instant,
    last_sent: Instant,
    last_answered: Instant,
    was_admitted: bool,
    /// Time that may not have been saved, because the bucket may have been full.
    overflow: Duration,
    /// What the bucket must have admitted at the last request that was refused; all before the first.
    due: u64,
}

impl Tally {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            requests: 0,
            admitted: 0,
            wrongly_refused: 0,
            first_sent: now,
            first_answered: now,
            last_sent: now,
            last_answered: now,
            was_admitted: false,
            overflow: Duration::ZERO,
            due: 0,
        }
    }

    fn add(&mut self, limit: Limit, sent: Instant, answered: Instant, is_admitted: bool) {
        if self.requests == 0 {
            (self.first_sent, self.first_answered) = (sent, answered);
        } else {
            // After a refusal it holds less than a request, after an admission all but one at most.
            let room = limit.full() - limit.period;
            let room = if self.was_admitted { limit.period } else { room };
            self.overflow += answered.duration_since(self.last_sent).saturating_sub(room);
        }
        self.requests += 1;
        self.admitted += u64::from(is_admitted);
        (self.last_sent, self.last_answered, self.was_admitted) = (sent, answered, is_admitted);
        if self.admitted == self.requests {
            self.due = self.admitted;
        } else if !is_admitted {
            // What came in, without what may have been lost, less than one request of it left.
            let filled = limit.full() + sent.saturating_duration_since(self.first_answered);
            let used = filled.saturating_sub(self.overflow);
            self.due = (used.as_nanos() / limit.period.as_nanos()) as u64;
        }
    }

    /// The same client on another connection. What was due by the requests of one connection was due
    /// to all of them together.
    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.admitted += other.admitted;
        self.first_sent = self.first_sent.min(other.first_sent);
        self.last_answered = self.last_answered.max(other.last_answered);
        self.due = self.due.max(other.due);
    }

    /// What the bucket may have admitted.
    fn allowed(&self, limit: Limit) -> u64 {
        let filled = limit.full() + self.last_answered.duration_since(self.first_sent);
        (filled.as_nanos() / limit.period.as_nanos()) as u64
    }
}

/// What all clients know.
pub(crate) struct Drive {
    pub(crate) address: SocketAddr,
    pub(crate) limit: Limit,
    pub(crate) until: Instant,
    pub(crate) is_interrupted: Arc<AtomicBool>,
}

impl Drive {
    fn is_over(&self) -> bool {
        Instant::now() >= self.until || self.is_interrupted.load(Ordering::Relaxed)
    }

    fn agent(&self) -> ureq::Agent {
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE));
        // A proxy from the environment has nothing to do with loopback.
        config.http_status_as_error(false).proxy(None).build().new_agent()
    }

    /// One request: none if it was admitted, else how long to wait.
    fn request(&self, agent: &ureq::Agent, name: &str) -> Result<Option<Duration>, String> {
        let request = agent.get(format!("http://{}/", self.address)).header(CLIENT, name);
        let mut response = request.call().map_err(|error| format!("{name}: {error}"))?;
        let text = response.body_mut().read_to_string();
        let text = text.map_err(|error| format!("{name}: {error}"))?;
        match response.status().as_u16() {
            200 => Ok(None),
            429 => {
                let header = response.headers().get(RETRY_AFTER_MS);
                let millis = header.and_then(|value| value.to_str().ok()?.parse().ok());
                let millis = millis.ok_or_else(|| format!("{name}: no time in a refusal"))?;
                Ok(Some(Duration::from_millis(millis)))
            }
            status => Err(format!("{name}: status {status}: {}", text.trim_end())),
        }
    }

    /// Makes requests until the time is over.
    fn client(&self, kind: Kind, name: &str) -> Result<Tally, String> {
        let agent = self.agent();
        let mut tally = Tally::new();
        let mut has_waited = false;
        while !self.is_over() {
            let sent = Instant::now();
            let refused = self.request(&agent, name)?;
            tally.add(self.limit, sent, Instant::now(), refused.is_none());
            tally.wrongly_refused += u64::from(refused.is_some() && has_waited);
            let pause = match (kind, refused) {
                (Kind::Greedy | Kind::Crowd, _) => None,
                (Kind::Polite, refused) => refused,
                (Kind::Sparse, _) => Some(self.limit.period),
                // Long enough to be forgotten.
                (Kind::Back, refused) => refused.map(|_| self.limit.full() + IDLE * 2),
            };
            has_waited = pause.is_some();
            self.pause(pause.unwrap_or_default());
        }
        Ok(tally)
    }

    /// Sleeps so long, or until all is over.
    fn pause(&self, time: Duration) {
        let begun = Instant::now();
        while let Some(rest) = time.checked_sub(begun.elapsed()) {
            if rest.is_zero() || self.is_over() {
                return;
            }
            std::thread::sleep(rest.min(Duration::from_millis(50)));
        }
    }

    /// Comes with a new name each time; answers how many names there were.
    fn pass_by(&self) -> Result<u64, String> {
        let agent = self.agent();
        for number in 0..PASSERS_BY {
            if self.is_over() {
                return Ok(number);
            }
            let name = format!("passer-by {number}");
            if self.request(&agent, &name)?.is_some() {
                return Err(format!("{name}: refused at its first request"));
            }
        }
        Ok(PASSERS_BY)
    }

    /// Runs all clients; what each got, and how many passed by.
    pub(crate) fn run(
        &self,
        clients: u64,
        look: impl Fn(),
    ) -> Result<(Vec<(String, Tally)>, u64), String> {
        std::thread::scope(|scope| {
            let mut running = Vec::new();
            for kind in [Kind::Greedy, Kind::Polite, Kind::Sparse, Kind::Back, Kind::Crowd] {
                for number in 1..=clients {
                    let name = match kind {
                        Kind::Crowd => "crowd".to_owned(),
                        _ => format!("{} {number}", format!("{kind:?}").to_lowercase()),
                    };
                    let client = name.clone();
                    running.push((name, scope.spawn(move || self.client(kind, &client))));
                }
            }
            let passers_by = scope.spawn(|| self.pass_by());
            while running.iter().any(|(_, thread)| !thread.is_finished()) {
                look();
                std::thread::sleep(Duration::from_millis(10));
            }
            let panicked = |_| "a client has panicked".to_owned();
            let mut tallies: Vec<(String, Tally)> = Vec::new();
            for (name, thread) in running {
                let tally = thread.join().map_err(panicked)??;
                match tallies.last_mut() {
                    Some((last, sum)) if *last == name => sum.merge(&tally),
                    _ => tallies.push((name, tally)),
                }
            }
            Ok((tallies, passers_by.join().map_err(panicked)??))
        })
    }
}

/// Prints what each got, and checks it.
pub(crate) fn check(tallies: &[(String, Tally)], limit: Limit) -> Result<(), String> {
    println!(
        "  {:<12} {:>9} {:>9} {:>9} {:>9}",
        "client", "requests", "admitted", "due", "allowed"
    );
    for (name, tally) in tallies {
        let Tally { requests, admitted, due, wrongly_refused, .. } = tally;
        let allowed = tally.allowed(limit);
        println!("  {name:<12} {requests:>9} {admitted:>9} {due:>9} {allowed:>9}");
        if *admitted > allowed {
            return Err(format!("{name} got {admitted}, and at most {allowed} were allowed"));
        }
        if admitted < due {
            return Err(format!("{name} got {admitted}, and at least {due} were due"));
        }
        if *wrongly_refused > 0 {
            return Err(format!("{name} was refused {wrongly_refused} times after it had waited"));
        }
    }
    Ok(())
}
