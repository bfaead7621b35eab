//! The journeys of a world, for programs.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::AtomicU8;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value};
use turnwheel_engine::internal::{next_number, WeakWorld};
use turnwheel_engine::store::StateScan;
use turnwheel_engine::{Time, TimedStates, World};
use turnwheel_runtime::{Completion, Group, Mailbox, SpawnError, Task};

use crate::batch::Own;
use crate::catalogue::Catalogue;
use crate::channel::Channels;
use crate::counts::{self, JourneyCounts};
use crate::definitions::Definitions;
use crate::desk::{Desk, State, USER};
use crate::error::JourneyError;
use crate::event::{size, user_key};
use crate::limits::{ATTRIBUTES_BYTES_MAX, CALLS_MAX, LEVELS_MAX};
use crate::mover::Mover;
use crate::options::JourneysOptions;
use crate::places::Places;
use crate::row::{Outgoing, Row, Why};
use crate::sending::Batches;
use crate::view::{self, JourneyView, UserView};
use crate::walk::Turn;
use crate::watch::{Armed, Watch};

/// Requests and news that are on their way at once, at most, for each desk.
const MAILBOX: u64 = 1 << 18;

/// Answer to a request: comes when its consequences are durable.
pub type Asking<T> = Completion<Result<T, JourneyError>>;

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
    pub(crate) desks: Vec<Task<Desk>>,
    watch: Option<Task<Watch>>,
    mover: Option<Arc<Mover>>,
    definitions: Arc<Definitions>,
    channels: Channels,
    group: Group,
}

impl fmt::Debug for Journeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journeys").field("desks", &self.desks.len()).finish_non_exhaustive()
    }
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
        let definitions = Definitions::open(states.clone()).await?;
        let is_announced = options.is_at_rest || definitions.announce_at_start().await;
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
            let own = Own { world: world.id(), sender: next_number(world), ..Own::default() };
            let places = Places::new(options.sending_max, CALLS_MAX / options.desks);
            let desk = Desk {
                world: WeakWorld::new(world),
                group: group.clone(),
                states: states.clone(),
                background: states.in_spare_room(),
                definitions: Arc::clone(&definitions),
                channels: options.channels.clone(),
                alarm: alarm.clone(),
                is_at_rest: options.is_at_rest,
                requests_max: options.requests_max,
                state: State::new(Batches::new(own, places)),
            };
            let task = group.task(desk).name("journeys").mailbox(Mailbox::bounded(MAILBOX - 1));
            let task = task.spawn();
            desks.push(task.map_err(|error: SpawnError<_>| JourneyError::failed(&error))?);
        }
        let channels = options.channels.clone();
        let group = group.clone();
        let mover = None;
        let mut journeys = Self { desks, watch: None, mover, definitions, channels, group };
        if !options.is_at_rest {
            let watched = (states, is_announced);
            journeys.watch(WeakWorld::new(world), watched, (armed, watch_of)).await?;
        }
        Ok(journeys)
    }

    /// Begins what goes on without requests: default lines, and moves to newer versions.
    async fn watch(
        &mut self,
        world: WeakWorld,
        (states, is_announced): (TimedStates, bool),
        (armed, watch_of): (Armed, Arc<RwLock<Option<Task<Watch>>>>),
    ) -> Result<(), JourneyError> {
        let mover = Arc::new(Mover {
            world: world.clone(),
            states: states.clone(),
            definitions: Arc::clone(&self.definitions),
            desks: self.desks.clone(),
            state: AtomicU8::new(0),
        });
        self.mover = Some(Arc::clone(&mover));
        let watch = Watch {
            mover: Arc::clone(&mover),
            seen: 0,
            world,
            group: self.group.clone(),
            states,
            definitions: Arc::clone(&self.definitions),
            desks: self.desks.clone(),
            armed,
            timer: None,
            looked: Default::default(),
            stuck: 0,
            open: 0,
            has_more: false,
            is_looking: false,
            is_missed: false,
            has_others: false,
            is_resuming: false,
            kept: 0,
            last_batch: (None, String::new()),
            unreadable: Default::default(),
        };
        let task = self.group.task(watch).name("journeys due");
        let task = task.mailbox(Mailbox::bounded(MAILBOX - 1)).spawn();
        let task = task.map_err(|error: SpawnError<_>| JourneyError::failed(&error))?;
        *watch_of.write() = Some(task.clone());
        self.watch = Some(task.clone());
        let begun = task.call(move |watch, cx| {
            if !is_announced {
                watch.announce_later(cx);
            }
            watch.follow(cx);
            watch.look(cx);
        });
        begun.await.map_err(JourneyError::failed)?;
        // Now those who move are seen when they are due.
        mover.look();
        Ok(())
    }

    /// Ends the tasks. Passes under way are found when the journeys are opened next.
    pub fn end(&self) {
        if let Some(watch) = &self.watch {
            watch.stop().detach();
        }
        self.desks.iter().for_each(|desk| desk.stop().detach());
    }

    /// A user: where, why, since when, and what comes next.
    pub fn user(&self, platform: &str, user: &str) -> Asking<UserView> {
        let definitions = Arc::clone(&self.definitions);
        self.ask(user_key(platform, user), (), move |(), turn| {
            // As of now, without a write.
            let (known, mut row) = (definitions.current(), turn.row.clone());
            Turn::new(&known, turn.key, &mut row, turn.now).leave_removed();
            Ok(view::user(&known, turn.key, &row))
        })
    }

    /// Replaces the attributes of a user; those with the value `null` are left out. With a revision
    /// it is refused if they were changed since. A value that has another type than a journey of the
    /// platform declares is refused.
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
            let problem =
                format!("they have at most {ATTRIBUTES_BYTES_MAX} bytes and {LEVELS_MAX} levels");
            key = Err(JourneyError::Invalid { what: "attributes", problem });
            attributes = Value::Null;
        }
        if let Value::Object(fields) = &mut attributes {
            fields.retain(|_, value| !value.is_null());
        }
        let (text, definitions) = (attributes.to_string(), Arc::clone(&self.definitions));
        self.ask(key, (text, attributes), move |(text, attributes), turn| {
            let (platform, _) = turn.key.split_once('/').unwrap_or((turn.key, ""));
            if let Value::Object(fields) = attributes {
                turn.catalogue.attributes.check(platform, fields)?;
            }
            let found = turn.row.revision;
            if let Some(expected) = revision.filter(|expected| *expected != found) {
                let user = turn.key.to_owned();
                return Err(JourneyError::Changed { user, expected, found });
            }
            turn.bring_up();
            if turn.row.attributes.as_ref() != Some(text) {
                turn.row.attributes = Some(text.clone());
                turn.row.revision += 1;
                turn.is_changed = true;
            }
            Ok(view::user(&definitions.current(), turn.key, turn.row))
        })
    }

    /// Notes that a user wants no messages, or wants them again. A user who opts out leaves all
    /// journeys that are not essential, and their messages are not sent.
    pub fn opt_out(&self, platform: &str, user: &str, is_out: bool) -> Asking<UserView> {
        let definitions = Arc::clone(&self.definitions);
        self.ask(user_key(platform, user), (), move |(), turn| {
            let known = definitions.current();
            turn.bring_up();
            if turn.row.has_opted_out != is_out {
                turn.row.has_opted_out = is_out;
                turn.is_changed = true;
            }
            if is_out {
                // In the version that each of them is of, as when a message is made or sent again.
                let is_essential = |journey: u32, version: u32| {
                    let chart = known.chart(journey, version);
                    chart.is_some_and(|chart| chart.settings.essential)
                };
                turn.end_all(Why::OptedOut, |pass| !is_essential(pass.journey, pass.version));
                let is_kept = |message: &Outgoing| is_essential(message.journey, message.version);
                turn.row.outbox.retain(is_kept);
                turn.row.sending.retain(|it| it.message.as_ref().is_none_or(is_kept));
            }
            Ok(view::user(&known, turn.key, turn.row))
        })
    }

    /// Sends messages of a user again that were given up, with their keys and as often as new ones:
    /// the one with this key, or all that [`UserView::lost`] has. They leave once this is durable.
    /// To a user who has opted out only messages of essential journeys are sent.
    ///
    /// It is refused with [`JourneyError::NotLost`] if there is none, and with
    /// [`JourneyError::Invalid`] if the user has opted out of all of them, or has too many messages
    /// that wait.
    pub fn resend(&self, platform: &str, user: &str, key: Option<&str>) -> Asking<UserView> {
        let definitions = Arc::clone(&self.definitions);
        let key = key.map(str::to_owned);
        self.ask(user_key(platform, user), key, move |key, turn| {
            turn.resend(key.as_deref())?;
            Ok(view::user(&definitions.current(), turn.key, turn.row))
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
    /// All that is wrong with the definition; another journey of the platform declares an attribute
    /// with another type; or the store failed.
    pub async fn put(&self, text: &str, by: &str) -> Result<JourneyView, JourneyError> {
        let definition = self.channels.definition(text, "definition");
        let definition =
            definition.map_err(|problems| JourneyError::Definition(Box::new(problems)))?;
        let known = self.definitions.look().await?;
        known.attributes.admit(&definition.name, &definition.settings)?;
        let at = Time::from(self.group.wall()).0;
        let (catalogue, version) = self.definitions.put(&definition, text, (at, by)).await?;
        if let Some(mover) = &self.mover {
            mover.look();
        }
        // Others may have stored a newer one meanwhile, or removed it.
        let stored = JourneyView::version(&catalogue, &definition.name, version);
        stored.ok_or(JourneyError::Unknown(definition.name))
    }

    /// Removes a journey: nobody begins it any more, and users under way leave it when they are
    /// touched next. Its name keeps its versions.
    ///
    /// # Errors
    ///
    /// There is none of this name; or the store failed.
    pub async fn remove(&self, name: &str) -> Result<JourneyView, JourneyError> {
        let view = newest(&*self.definitions.look().await?, name)?;
        self.definitions.remove(name, Time::from(self.group.wall()).0).await?;
        Ok(view)
    }

    /// Journeys by name, without removed ones.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn list(&self) -> Result<Vec<JourneyView>, JourneyError> {
        let catalogue = self.definitions.look().await?;
        let names = catalogue.journeys.keys();
        Ok(names.filter_map(|name| newest(&catalogue, name).ok()).collect())
    }

    /// A journey.
    ///
    /// # Errors
    ///
    /// There is none of this name; or the store failed.
    pub async fn get(&self, name: &str) -> Result<JourneyView, JourneyError> {
        newest(&*self.definitions.look().await?, name)
    }

    /// Counts the users at each element of a journey, from the rows of all users of its platform.
    ///
    /// Cost: grows with the users of the platform, of whom at most
    /// [`COUNTED_MAX`](crate::limits::COUNTED_MAX) are looked at.
    ///
    /// # Errors
    ///
    /// There is no journey of this name; or the store failed.
    pub async fn counts(&self, name: &str) -> Result<JourneyCounts, JourneyError> {
        let catalogue = self.definitions.look().await?;
        let known = catalogue.journeys.get(name).and_then(|known| known.current());
        let chart = known.ok_or_else(|| JourneyError::Unknown(name.to_owned()))?;
        counts::count(self.definitions.states(), &catalogue, chart).await
    }
}

/// The newest version of a journey.
fn newest(catalogue: &Catalogue, name: &str) -> Result<JourneyView, JourneyError> {
    JourneyView::newest(catalogue, name).ok_or_else(|| JourneyError::Unknown(name.to_owned()))
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
