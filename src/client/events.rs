//! Events of plans, as they become durable: a stream of a server that is reopened when it breaks.

use std::fmt;
use std::io::{BufRead as _, BufReader, Read};
use std::thread;
use std::time::{Duration, Instant};

use super::carry::lost;
use super::{query, Client, ClientError};
use crate::api;

/// Time for which a broken stream is reopened before an error is returned.
const PATIENCE: Duration = Duration::from_secs(60);

/// After how long it is tried again, if the server does not say.
const AGAIN: Duration = Duration::from_secs(1);

/// The longest line of a stream, in bytes: events are short.
const LINE_BYTES_MAX: u64 = 1_024 * 1_024;

/// Events of plans, one after the other, from any world: [`Plans::events`](super::Plans::events).
pub type Happenings = Box<dyn Iterator<Item = Result<api::HappeningInfo, ClientError>> + Send>;

/// Events of plans, as they become durable. Made by [`Client::events`].
///
/// An iterator that blocks until the next event. It does not end by itself: when the stream breaks
/// (the server restarts, the connection is lost, the reader was too slow) it is reopened after the
/// last place, so that no event is missed and none is repeated. If that fails for a minute it
/// returns one error, and the next call tries again; a refusal by the server ends it.
pub struct Events {
    client: Client,
    /// The query, without a place.
    asked: Vec<(String, String)>,
    /// The last known place, and that of the current event.
    after: Option<String>,
    place: Option<String>,
    patience: Duration,
    again: Duration,
    stream: Option<BufReader<Box<dyn Read + Send>>>,
    is_over: bool,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("client", &self.client)
            .field("asked", &self.asked)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Events of plans from now on, or after a place, as they become durable. Filters are given as
    /// in the query of `GET /events`: `plan`, `label`, `plans_only`, and `after` (`0` for
    /// everything in the store).
    ///
    /// Once this returns no event is missed: it covers every plan started later.
    ///
    /// ```
    /// use serde_json::json;
    /// use turnwheel::client::{Client, ClientError, Plans};
    /// # use turnwheel::engine::{Action, ActionError, MemoryStore, Next, Run, Runs, StepContext, World};
    /// # use turnwheel::http::{Access, Options};
    /// # struct Greet;
    /// # impl Action for Greet {
    /// #     const NAME: &'static str = "greet";
    /// #     type Input = serde_json::Value;
    /// #     type Output = ();
    /// #     type Phases = Runs;
    /// # }
    /// # impl Run for Greet {
    /// #     fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> { Ok(Next::Done) }
    /// # }
    ///
    /// /// Waits until a plan has stopped, and returns its id and result.
    /// fn next_end(plans: &dyn Plans, after: &str) -> Result<Option<(String, String)>, ClientError> {
    ///     for happening in plans.events(&[("plans_only", "true"), ("after", after)])? {
    ///         let happening = happening?;
    ///         if happening.to.as_deref() == Some("stopped") {
    ///             return Ok(happening.result.map(|result| (happening.plan, result)));
    ///         }
    ///     }
    ///     Ok(None)
    /// }
    ///
    /// # let world = World::builder().action(Greet).build(MemoryStore::new())?;
    /// // Over a server it is `Client::new("http://…")`; this one is of a world of the same process.
    /// let client = Client::here(&world, Options::new(Access::Host))?;
    /// let plan = client.start_once("g", "greet", &json!("ann"))?.id;
    /// assert_eq!(next_end(&client, "0")?, Some((plan, "success".to_owned())));
    /// # drop(client);
    /// # world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Cost: one connection while it lives, and a copy of the events of those plans in the server.
    ///
    /// # Errors
    ///
    /// The server refuses, or does not answer.
    pub fn events(&self, asked: &[(&str, &str)]) -> Result<Events, ClientError> {
        let after = asked.iter().find(|(name, _)| *name == "after");
        let rest = asked.iter().filter(|(name, _)| *name != "after");
        let mut events = Events {
            client: self.clone(),
            asked: rest.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            after: after.map(|(_, place)| (*place).to_owned()),
            place: None,
            patience: PATIENCE,
            again: AGAIN,
            stream: None,
            is_over: false,
        };
        events.open()?;
        // Until its place is known something might be missed.
        while events.after.is_none() {
            if events.line()?.is_none() {
                events.open()?;
            }
        }
        Ok(events)
    }
}

/// A line of a stream.
enum Line {
    Data(String),
    Name(String),
    /// The end of an event.
    Gap,
    Other,
}

impl Events {
    /// Sets the time for which a broken stream is reopened before an error is returned; a minute by
    /// default.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The place of the last returned event, or a later one with no matching event in between: a
    /// stream `after` it misses nothing.
    pub fn cursor(&self) -> &str {
        self.after.as_deref().unwrap_or("0")
    }

    fn open(&mut self) -> Result<(), ClientError> {
        (self.stream, self.place) = (None, None);
        let mut asked: Vec<(&str, &str)> =
            self.asked.iter().map(|(name, value)| (&**name, &**value)).collect();
        if let Some(after) = &self.after {
            asked.push(("after", after));
        }
        let stream = self.client.open(&format!("/events{}", query(&asked)))?;
        self.stream = Some(BufReader::new(stream));
        Ok(())
    }

    /// The next line; nothing when the stream has ended. Places and times to wait are kept.
    fn line(&mut self) -> Result<Option<Line>, ClientError> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = stream.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
        let read = read.map_err(|error| lost("the stream of events", &error))?;
        if read == 0 || bytes.last() != Some(&b'\n') {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            // An event that breaks off here was not returned.
            self.after = self.place.take().or_else(|| self.after.take());
            return Ok(Some(Line::Gap));
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        Ok(Some(match name {
            "data" => Line::Data(value.to_owned()),
            "event" => Line::Name(value.to_owned()),
            "id" => {
                self.place = Some(value.to_owned());
                Line::Other
            }
            "retry" => {
                let again = value.parse().map_or(AGAIN, Duration::from_millis);
                self.again = again.min(PATIENCE);
                Line::Other
            }
            _ => Line::Other,
        }))
    }

    /// The next event of this stream: its name and data. Nothing when the stream has ended.
    fn event(&mut self) -> Result<Option<(String, String)>, ClientError> {
        let (mut name, mut data) = (String::new(), String::new());
        loop {
            match self.line()? {
                None => return Ok(None),
                Some(Line::Name(of)) => name = of,
                Some(Line::Data(more)) if data.is_empty() => data = more,
                Some(Line::Data(more)) => data = format!("{data}\n{more}"),
                Some(Line::Gap) if !data.is_empty() => return Ok(Some((name, data))),
                Some(Line::Gap) => name.clear(),
                Some(Line::Other) => {}
            }
        }
    }

    /// Reopens the stream, until the patience ends.
    fn reopen(&mut self) -> Result<(), ClientError> {
        let until = Instant::now() + self.patience;
        loop {
            thread::sleep(self.again.min(until.saturating_duration_since(Instant::now())));
            let error = match self.open() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let is_passing = match &error {
                ClientError::Refused(problem) => problem.status == 429 || problem.status >= 500,
                ClientError::Foreign { status, .. } => *status >= 500,
                _ => true,
            };
            if !is_passing {
                self.is_over = true;
                return Err(error);
            }
            if Instant::now() >= until {
                return Err(error);
            }
        }
    }
}

impl Iterator for Events {
    type Item = Result<api::HappeningInfo, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over {
            match self.event() {
                // Events missed here come when the stream is reopened after the last place.
                Ok(Some((name, _))) if name == "cut_off" => self.stream = None,
                Ok(Some((_, data))) => {
                    return Some(serde_json::from_str(&data).map_err(ClientError::Unreadable));
                }
                Ok(None) | Err(_) => {
                    if let Err(error) = self.reopen() {
                        return Some(Err(error));
                    }
                }
            }
        }
        None
    }
}
