//! The journeys of a world, for programs.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value};
use turnwheel_engine::internal::WeakWorld;
use turnwheel_engine::store::StateScan;
use turnwheel_engine::{Time, TimedStates, World};
use turnwheel_runtime::completion::{completion, Completer};
use turnwheel_runtime::{Completion, Group, Mailbox, SpawnError, Task};

use crate::catalogue::{Catalogue, Kept};
use crate::channel::Channels;
use crate::definition::Definition;
use crate::desk::{Desk, Request, Shared, USER};
use crate::error::JourneyError;
use crate::event::{size, user_key, Event};
use crate::limits::{ATTRIBUTES_BYTES_MAX, CONFLICTS_MAX, VERSIONS_MAX};
use crate::row::{Row, Why};
use crate::store::{read_all, JOURNEY};
use crate::view::{self, Taken, UserView};
use crate::walk::Turn;
use crate::watch::{Armed, Watch};

/// Requests and news that are on their way at once, at most, for each desk.
const MAILBOX: u64 = 1 << 18;

/// Answer to a request: comes when its consequences are durable.
pub type Asking<T> = Completion<Result<T, JourneyError>>;

/// Options with which the journeys of a world are opened.
#[derive(Clone, Debug)]
pub struct JourneysOptions {
    channels: Channels,
    desks: usize,
    is_at_rest: bool,
}

impl JourneysOptions {
    /// The channels through which messages leave.
    pub fn new(channels: Channels) -> Self {
        Self { channels, desks: 1, is_at_rest: false }
    }

    /// Number of tasks that users are spread over: that of the workers of the group.
    #[must_use]
    pub fn desks(mut self, desks: usize) -> Self {
        self.desks = desks.max(1);
        self
    }

    /// Default lines are not taken and messages do not leave, as by a command beside no server.
    #[must_use]
    pub fn at_rest(mut self) -> Self {
        self.is_at_rest = true;
        self
    }
}

/// The journeys of a world. Clones share them.
///
/// ```
/// use turnwheel_engine::{MemoryStore, World};
/// use turnwheel_journeys::{Channels, Event, Journeys, JourneysOptions, Message};
/// use turnwheel_runtime::{completion::block_on, Group};
///
/// let mail = |message: &Message| {
///     assert_eq!(message.body["hello"], "Ann");
///     Ok(())
/// };
/// let world = World::builder().build(MemoryStore::new())?;
/// let group = Group::builder("journeys").workers(1).build()?;
/// let options = JourneysOptions::new(Channels::new().with("mail", mail));
/// let journeys = block_on(Journeys::open(&world, &group, options))??;
/// let text = r#"
/// journey: welcome
/// platform: shop
/// elements:
///   hello: { start: { on: customer.created }, then: greet }
///   greet: { send: { channel: mail, with: { hello: "${ .event.data.name }" } }, then: answer }
///   answer: { wait: { on: order.paid, for: P3D }, then: end, otherwise: end }
/// "#;
/// block_on(journeys.put(text, "ann"))??;
/// let event = Event::new("shop", "42", "e1", "customer.created")
///     .data(serde_json::json!({ "name": "Ann" }));
/// let taken = journeys.event(event).wait()??;
/// assert_eq!(taken.moved[0].path, ["hello", "hello.1", "greet", "greet.1", "answer"]);
/// let user = journeys.user("shop", "42").wait()??;
/// assert_eq!(user.passes[0].waits[0].otherwise.as_deref(), Some("end"));
/// journeys.end();
/// world.shutdown()?;
/// group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Journeys {
    desks: Vec<Task<Desk>>,
    watch: Option<Task<Watch>>,
    states: TimedStates,
    catalogue: Shared,
    group: Group,
}

impl fmt::Debug for Journeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journeys").field("desks", &self.desks.len()).finish_non_exhaustive()
    }
}

/// A journey as it is stored.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct JourneyView {
    /// Its name.
    pub name: String,
    /// Its platform.
    pub platform: String,
    /// Its newest version.
    pub version: u32,
    /// When that was added.
    pub at: Time,
    /// The person or program that added it.
    pub by: String,
    /// The text of that version.
    pub text: String,
}

/// The desk of a user.
pub(crate) fn desk_of(key: &str, desks: usize) -> usize {
    let mut hasher = std::hash::DefaultHasher::new();
    key.hash(&mut hasher);
    usize::try_from(hasher.finish() % desks as u64).unwrap_or(0)
}

impl Journeys {
    /// Reads the definitions of a world's store, and goes on with its users on tasks of the group.
    ///
    /// Cost: that of the definitions, whatever the number of users.
    ///
    /// # Errors
    ///
    /// The store failed or cannot list states, or the group takes no tasks.
    pub async fn open(
        world: &World,
        group: &Group,
        options: JourneysOptions,
    ) -> Result<Self, JourneyError> {
        let states = world.timed_states();
        let catalogue: Shared = Arc::new(RwLock::new(Arc::new(read_all(&states).await?)));
        let armed: Armed = Arc::new(Mutex::new(Time(0)));
        let watch_of: Arc<RwLock<Option<Task<Watch>>>> = Arc::default();
        let (watching, known) = (Arc::clone(&watch_of), Arc::clone(&armed));
        let alarm = Arc::new(move |due: Option<Time>| {
            let Some(due) = due.filter(|due| *due < *known.lock()) else { return };
            let watch = watching.read().clone();
            let told = watch.map(|watch| watch.submit(move |watch, cx| watch.arm(due, cx)));
            if told.is_some_and(|told| told.is_err()) {
                tracing::debug!("the journeys have ended");
            }
        });
        let mut desks = Vec::new();
        for _ in 0..options.desks {
            let desk = Desk {
                world: WeakWorld::new(world),
                group: group.clone(),
                states: states.clone(),
                catalogue: Arc::clone(&catalogue),
                channels: options.channels.clone(),
                alarm: alarm.clone(),
                is_at_rest: options.is_at_rest,
                lines: Default::default(),
            };
            let task = group.task(desk).name("journeys").mailbox(Mailbox::bounded(MAILBOX - 1));
            let task = task.spawn();
            desks.push(task.map_err(|error: SpawnError<_>| JourneyError::failed(&error))?);
        }
        let mut journeys =
            Self { desks, watch: None, states: states.clone(), catalogue, group: group.clone() };
        if !options.is_at_rest {
            let watch = Watch {
                group: group.clone(),
                states,
                desks: journeys.desks.clone(),
                armed,
                timer: None,
                looked: Default::default(),
                open: 0,
                is_looking: false,
            };
            let task = group.task(watch).name("journeys due");
            let task = task.mailbox(Mailbox::bounded(MAILBOX - 1)).spawn();
            let task = task.map_err(|error: SpawnError<_>| JourneyError::failed(&error))?;
            *watch_of.write() = Some(task.clone());
            let begun = task.call(|watch, cx| watch.look(cx)).await;
            begun.map_err(JourneyError::failed)?;
            journeys.watch = Some(task);
        }
        Ok(journeys)
    }

    /// Ends the tasks. Passes under way are found when the journeys are opened next.
    pub fn end(&self) {
        if let Some(watch) = &self.watch {
            watch.stop().detach();
        }
        self.desks.iter().for_each(|desk| desk.stop().detach());
    }

    /// Takes an event: finds the waits of its user and the starts of its kind, and moves the user.
    /// It completes when that is durable; then a second event with the same id changes nothing.
    pub fn event(&self, event: Event) -> Asking<Taken> {
        let key = event.check().and_then(|()| user_key(&event.platform, &event.user));
        self.ask(key, Arc::new(event), |event, turn| {
            let is_repeated = turn.event(event);
            Ok(Taken { is_repeated, moved: std::mem::take(&mut turn.moved) })
        })
    }

    /// A user: where, why, since when, and what comes next.
    pub fn user(&self, platform: &str, user: &str) -> Asking<UserView> {
        let catalogue = Arc::clone(&self.catalogue);
        self.ask(user_key(platform, user), (), move |(), turn| {
            Ok(view::user(&catalogue.read(), turn.key, turn.row))
        })
    }

    /// Replaces the attributes of a user; those with the value `null` are left out. With a revision
    /// it is refused if they were changed since.
    pub fn set_user(
        &self,
        platform: &str,
        user: &str,
        attributes: Map<String, Value>,
        revision: Option<u64>,
    ) -> Asking<UserView> {
        let mut key = user_key(platform, user);
        let mut attributes = Value::Object(attributes);
        if size(&attributes, ATTRIBUTES_BYTES_MAX) > ATTRIBUTES_BYTES_MAX {
            let problem = format!("they have at most {ATTRIBUTES_BYTES_MAX} bytes");
            key = Err(JourneyError::Invalid { what: "attributes", problem });
        }
        if let Value::Object(fields) = &mut attributes {
            fields.retain(|_, value| !value.is_null());
        }
        let (text, catalogue) = (attributes.to_string(), Arc::clone(&self.catalogue));
        self.ask(key, text, move |text, turn| {
            let found = turn.row.revision;
            if let Some(expected) = revision.filter(|expected| *expected != found) {
                let user = turn.key.to_owned();
                return Err(JourneyError::Changed { user, expected, found });
            }
            if turn.row.attributes.as_ref() != Some(text) {
                turn.row.attributes = Some(text.clone());
                turn.row.revision += 1;
                turn.is_changed = true;
            }
            Ok(view::user(&catalogue.read(), turn.key, turn.row))
        })
    }

    /// Notes that a user wants no messages, or wants them again. A user who opts out leaves all
    /// journeys that are not essential, and their messages are not sent.
    pub fn opt_out(&self, platform: &str, user: &str, is_out: bool) -> Asking<UserView> {
        let catalogue = Arc::clone(&self.catalogue);
        self.ask(user_key(platform, user), (), move |(), turn| {
            let known = Arc::clone(&catalogue.read());
            if turn.row.has_opted_out != is_out {
                turn.row.has_opted_out = is_out;
                turn.is_changed = true;
            }
            if is_out {
                let is_essential = |journey: u32| {
                    known.current(journey).is_some_and(|chart| chart.settings.essential)
                };
                turn.end_all(Why::OptedOut, |pass| !is_essential(pass.journey));
                turn.row.outbox.retain(|message| is_essential(message.journey));
            }
            Ok(view::user(&known, turn.key, turn.row))
        })
    }

    /// Forgets a user: attributes, passes, messages and history.
    pub fn forget(&self, platform: &str, user: &str) -> Asking<()> {
        self.ask(user_key(platform, user), (), |(), turn| {
            // Numbers go on: a later message must not have the key of an earlier one.
            let Row { last_wait, last_pass, .. } = *turn.row;
            let left = Row { last_wait, last_pass, ..Row::default() };
            turn.is_changed |= *turn.row != left;
            *turn.row = left;
            Ok(())
        })
    }

    /// Adds a journey, or a version of it. A text that is stored already adds none.
    ///
    /// # Errors
    ///
    /// All that is wrong with the definition; or the store failed.
    pub async fn put(&self, text: &str, by: &str) -> Result<JourneyView, JourneyError> {
        let definition = Definition::read(text, "definition");
        let definition =
            definition.map_err(|problems| JourneyError::Definition(Box::new(problems)))?;
        let name = definition.name;
        for _ in 0..CONFLICTS_MAX {
            let fresh = read_all(&self.states).await?;
            let number = fresh.next_number();
            let known = fresh.journeys.get(&name).cloned();
            let (mut kept, stored) = match known {
                Some(known) => (known.kept, known.stored),
                None => (Kept { number, versions: Vec::new(), is_removed: false }, 0),
            };
            if !kept.add(text, Time::from(self.group.wall()).0, by) {
                self.replace(fresh);
                return self.get(&name);
            }
            if kept.versions.len() > VERSIONS_MAX {
                let problem = format!("«{name}» has {VERSIONS_MAX} versions: give it a new name");
                return Err(JourneyError::Invalid { what: "journey", problem });
            }
            if self.save(&name, kept, stored, fresh).await? {
                return self.get(&name);
            }
        }
        Err(JourneyError::failed("others change journeys all the time"))
    }

    /// Removes a journey: nobody begins it any more, and users under way leave it when they are
    /// touched next. Its name keeps its versions.
    ///
    /// # Errors
    ///
    /// There is none of this name; or the store failed.
    pub async fn remove(&self, name: &str) -> Result<JourneyView, JourneyError> {
        for _ in 0..CONFLICTS_MAX {
            let view = self.get(name)?;
            let fresh = read_all(&self.states).await?;
            let known = fresh.journeys.get(name).cloned();
            let known = known.ok_or_else(|| JourneyError::Unknown(name.to_owned()))?;
            let kept = Kept { is_removed: true, ..known.kept };
            if self.save(name, kept, known.stored, fresh).await? {
                return Ok(view);
            }
        }
        Err(JourneyError::failed("others change journeys all the time"))
    }

    /// Writes a journey; false if another node has changed it meanwhile.
    async fn save(
        &self,
        name: &str,
        kept: Kept,
        stored: u64,
        mut fresh: Catalogue,
    ) -> Result<bool, JourneyError> {
        let bytes = serde_json::to_vec(&kept).map_err(JourneyError::failed)?;
        let saved = self.states.save(JOURNEY, name, (Some(bytes), None), stored).await;
        match saved {
            Ok(stored) => {
                fresh.set(name, kept, stored);
                self.replace(fresh);
                Ok(true)
            }
            Err(turnwheel_actors::entity::StoreError::Conflict { .. }) => Ok(false),
            Err(error) => Err(JourneyError::failed(error)),
        }
    }

    /// Journeys by name, without removed ones.
    pub fn list(&self) -> Vec<JourneyView> {
        let catalogue = Arc::clone(&self.catalogue.read());
        let names = catalogue.journeys.keys();
        names.filter_map(|name| shown(&catalogue, name).ok()).collect()
    }

    /// A journey.
    ///
    /// # Errors
    ///
    /// There is none of this name.
    pub fn get(&self, name: &str) -> Result<JourneyView, JourneyError> {
        shown(&self.catalogue.read(), name)
    }

    /// Reads the definitions again: another node has changed some.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn refresh(&self) -> Result<(), JourneyError> {
        self.replace(read_all(&self.states).await?);
        Ok(())
    }

    fn replace(&self, catalogue: Catalogue) {
        *self.catalogue.write() = Arc::new(catalogue);
    }

    fn ask<I: Send + 'static, T: Send + 'static>(
        &self,
        key: Result<String, JourneyError>,
        input: I,
        decide: impl FnMut(&I, &mut Turn<'_>) -> Result<T, JourneyError> + Send + 'static,
    ) -> Asking<T> {
        let (to, asked) = completion();
        let key = match key {
            Ok(key) => key,
            Err(error) => {
                reply(to, Err(error));
                return asked;
            }
        };
        let refusal = to.clone();
        let request = Box::new(Ask { input, decide, decided: None, to });
        let desk = &self.desks[desk_of(&key, self.desks.len())];
        if let Err(error) = desk.submit(move |desk, cx| desk.take(key, request, cx)) {
            let problem = format!("the journeys take no requests: {:?}", error.kind);
            reply(refusal, Err(JourneyError::Failed(problem)));
        }
        asked
    }
}

/// A request of a caller.
struct Ask<I, T, F> {
    input: I,
    decide: F,
    decided: Option<Result<T, JourneyError>>,
    to: Reply<T>,
}

type Reply<T> = Completer<Result<T, JourneyError>>;

fn reply<T>(to: Reply<T>, outcome: Result<T, JourneyError>) {
    // The caller may have given up.
    let _gone = to.complete(outcome);
}

impl<I, T, F> Request for Ask<I, T, F>
where
    I: Send,
    T: Send,
    F: FnMut(&I, &mut Turn<'_>) -> Result<T, JourneyError> + Send,
{
    fn decide(&mut self, turn: &mut Turn<'_>) {
        self.decided = Some((self.decide)(&self.input, turn));
    }

    fn answer(self: Box<Self>, outcome: Result<(), JourneyError>) {
        let Self { decided, to, .. } = *self;
        let unanswered = || Err(JourneyError::failed("it was not decided"));
        reply(to, outcome.and_then(|()| decided.unwrap_or_else(unanswered)));
    }
}

fn shown(catalogue: &Catalogue, name: &str) -> Result<JourneyView, JourneyError> {
    let known = catalogue.journeys.get(name).filter(|known| !known.kept.is_removed);
    let newest = known.and_then(|known| known.kept.versions.last().map(|newest| (known, newest)));
    let (known, newest) = newest.ok_or_else(|| JourneyError::Unknown(name.to_owned()))?;
    let platform = known.current.as_ref().map(|chart| chart.settings.platform.clone());
    Ok(JourneyView {
        name: name.to_owned(),
        platform: platform.unwrap_or_default(),
        version: newest.version,
        at: Time(newest.at),
        by: newest.by.clone(),
        text: newest.text.clone(),
    })
}

/// For tests and measurements: bytes of the rows of users, of the first of them in order of key.
#[doc(hidden)]
pub async fn row_bytes(world: &World, limit: usize) -> Result<Vec<(String, usize)>, JourneyError> {
    let rows = world.timed_states().list(USER, StateScan::After(String::new()), limit).await;
    let rows = rows.map_err(JourneyError::failed)?;
    let size = |row: turnwheel_engine::store::StateRow| {
        (row.key, row.record.bytes.map_or(0, |bytes| bytes.len()))
    };
    Ok(rows.into_iter().map(size).collect())
}
