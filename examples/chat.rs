//! Two chat rooms, one of them with members who cannot keep up; nobody else notices.
//!
//! ```sh
//! cargo run --release --example chat -- --lines 20000 --slow 50 --pause-us 100
//! ```
//!
//! What it shows: a room is an *entity* that numbers what is said and publishes it on a topic; a
//! member is an actor with a mailbox of its own. What becomes of a line that a member has no room
//! for is declared, once, when it joins:
//!
//! * `fast` reads at once and has room for the whole evening: it gets every line;
//! * `slow` needs a while for each line and misses what comes meanwhile (reject);
//! * `ticker` is as slow, but would rather miss old lines than new ones (drop the oldest);
//! * `glance` looks up now and then, and sees the latest line (coalesce);
//! * `guest` is removed from the room at the first line that it has no room for (unsubscribe);
//! * `stuck` begins with its first line and does not come back before the evening is over.
//!
//! The room waits for none of them, which `stuck` proves: it lets go when all else is done. In the
//! end what each member got is compared with what the room says that it missed.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use turnwheel_actors::{
    messages, Actor, AsyncContext, AsyncHandler, Context, Entities, Entity, EntityRef, Exit,
    Handler, Recipient, SubscriptionInfo, System, Topic, TopicOverflow,
};
use turnwheel_runtime::completion::{block_on_timeout, completion};
use turnwheel_runtime::{Completion, Group, Mailbox};

/// The room with members of every kind, and the one with fast ones alone.
const ROOMS: [&str; 2] = ["hall", "library"];
/// Who speaks in a room, each a thread that waits for the room's answer.
const SPEAKERS: usize = 3;
/// Lines that a member has room for who is not fast and misses new ones.
const ROOM_FOR: u64 = 16;
/// Lines that the topic keeps for a ticker.
const KEPT: usize = 15;
/// All takes seconds; beyond this something is broken.
const PATIENCE: Duration = Duration::from_secs(240);
/// The exit code after an interrupt, as shells have it.
const INTERRUPTED: u8 = 130;

/// Two chat rooms, one of them with members who cannot keep up.
#[derive(Parser, Debug)]
#[command(name = "chat")]
struct Options {
    /// Lines said in each room
    #[arg(long, value_name = "N", default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    lines: u64,
    /// Fast members of each room
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    fast: u64,
    /// Members of each slower kind in the hall
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    slow: u64,
    /// How long a slow member needs for a line, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    slow_ms: u64,
    /// How long a speaker pauses after a line, in microseconds
    #[arg(long, value_name = "US", default_value_t = 500, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pause_us: u64,
}

/// What was said: the `count`-th line of its speaker, the `number`-th of the room.
#[derive(Clone, Debug)]
struct Line {
    number: u64,
    speaker: usize,
    count: u64,
}

/// A room. Who is in it is kept in memory alone, so it is never passivated as idle.
#[derive(Default)]
struct Room {
    members: Topic<Line>,
    ledger: Ledger,
}

/// What a room knows about its lines.
#[derive(Clone, Debug, Default)]
struct Ledger {
    said: u64,
    /// Copies that a mailbox took, or the topic kept for one that was full.
    taken: u64,
    /// Copies that were missed by members who stayed.
    rejected: u64,
    /// Members who were removed.
    removed: u64,
    /// Copies that were missed, in all.
    missed: u64,
    members: Vec<SubscriptionInfo>,
}

impl Actor for Room {
    type Error = std::convert::Infallible;
}

impl Entity for Room {
    type Key = String;
    const NAME: &'static str = "room";
    const IDLE: Duration = Duration::MAX;

    fn create(_: &String) -> Self {
        Self::default()
    }
}

#[messages(entity)]
impl Room {
    #[message]
    fn join(&mut self, member: Recipient<Line>, overflow: TopicOverflow) {
        // Only the room removes members.
        let _ = self.members.subscribe(member, overflow);
    }

    #[message]
    fn say(&mut self, speaker: usize, count: u64) -> u64 {
        self.ledger.said += 1;
        let number = self.ledger.said;
        let published = self.members.publish(&Line { number, speaker, count });
        self.ledger.taken += (published.delivered + published.deferred) as u64;
        self.ledger.rejected += published.rejected as u64;
        self.ledger.removed += published.removed as u64;
        number
    }

    #[message]
    fn report(&self) -> Ledger {
        let (members, missed) = (self.members.subscriptions(), self.members.missed());
        Ledger { members, missed, ..self.ledger.clone() }
    }
}

/// What a member has seen of its room.
#[derive(Clone, Debug, Default)]
struct Seen {
    got: u64,
    /// Lines missed before one that came.
    missed: u64,
    last: u64,
    /// The last line of each speaker.
    speakers: HashMap<usize, u64>,
    out_of_order: u64,
}

impl Seen {
    fn see(&mut self, line: &Line) {
        let said = self.speakers.insert(line.speaker, line.count).unwrap_or(0);
        if line.number <= self.last || line.count <= said {
            self.out_of_order += 1;
            return;
        }
        self.got += 1;
        self.missed += line.number - self.last - 1;
        self.last = line.number;
    }
}

/// Where members leave what they have seen when they end, each under its name.
type Diary = SyncSender<(String, Seen)>;

/// Reads a line as it comes.
struct Fast {
    name: String,
    seen: Seen,
    diary: Diary,
}

impl Actor for Fast {
    type Error = std::convert::Infallible;

    fn ended(&mut self, _: &Exit) {
        let _ = self.diary.send((self.name.clone(), self.seen.clone()));
    }
}

impl Handler<Line> for Fast {
    type Reply = ();

    fn handle(&mut self, line: Line, _: &mut Context<'_, Self>) {
        self.seen.see(&line);
    }
}

/// Needs a while for each line, and takes no other meanwhile.
struct Slow {
    name: String,
    pace: Pace,
    seen: Seen,
    diary: Diary,
}

enum Pace {
    Each(Duration),
    /// Comes back from its first line when this is done.
    Stuck(Option<Completion<()>>),
}

impl Actor for Slow {
    type Error = std::convert::Infallible;

    fn ended(&mut self, _: &Exit) {
        let _ = self.diary.send((self.name.clone(), self.seen.clone()));
    }
}

impl AsyncHandler<Line> for Slow {
    type Reply = ();

    async fn handle(&mut self, line: Line, cx: AsyncContext<Self>) {
        self.seen.see(&line);
        let pause = match &mut self.pace {
            Pace::Each(pause) => Some(cx.sleep(*pause)),
            Pace::Stuck(over) => over.take(),
        };
        if let Some(pause) = pause {
            let _ = pause.await;
        }
    }
}

/// How a member takes what it has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Fast,
    Slow,
    Ticker,
    Glance,
    Guest,
    Stuck,
}

/// A member as the example keeps it.
struct Member {
    room: &'static str,
    kind: Kind,
    name: String,
    /// Lets it handle what it has, then ends it.
    close: Box<dyn Fn() -> Completion<()>>,
}

/// Lets members in.
struct Evening<'a> {
    options: &'a Options,
    system: System,
    entities: Entities,
    diary: Diary,
    members: Vec<Member>,
}

impl Evening<'_> {
    fn join(&mut self, room: &'static str, kind: Kind, pace: Pace) -> Result<(), Box<dyn Error>> {
        let number = self.members.len() + 1;
        let name = format!("{} {number}", format!("{kind:?}").to_lowercase());
        let (diary, seen) = (self.diary.clone(), Seen::default());
        let mailbox = Mailbox::bounded(match kind {
            Kind::Fast => self.options.lines,
            Kind::Ticker | Kind::Glance => 1,
            Kind::Slow | Kind::Guest | Kind::Stuck => ROOM_FOR,
        });
        let overflow = match kind {
            Kind::Fast | Kind::Slow | Kind::Stuck => TopicOverflow::Reject,
            Kind::Ticker => TopicOverflow::DropOldest { keep: KEPT },
            Kind::Glance => TopicOverflow::Coalesce,
            Kind::Guest => TopicOverflow::Unsubscribe,
        };
        let (recipient, close): (_, Box<dyn Fn() -> _>) = if kind == Kind::Fast {
            let actor = Fast { name: name.clone(), seen, diary };
            let actor = self.system.actor(actor).name(&name).mailbox(mailbox).spawn()?;
            (actor.recipient(), Box::new(move || actor.close()))
        } else {
            let actor = Slow { name: name.clone(), pace, seen, diary };
            let actor = self.system.actor(actor).name(&name).mailbox(mailbox).spawn()?;
            let recipient = actor.recipient();
            // Behind a line that the topic is about to move into the mailbox, which is full till then.
            let close = move || {
                let _ = block_on_timeout(actor.reserve(), PATIENCE);
                actor.close()
            };
            (recipient, Box::new(close))
        };
        self.entities.get::<Room>(room).join(recipient, overflow).wait()?;
        self.members.push(Member { room, kind, name, close });
        Ok(())
    }

    fn begin(&mut self, over: Completion<()>) -> Result<(), Box<dyn Error>> {
        let slowness = Duration::from_millis(self.options.slow_ms);
        for room in ROOMS {
            for _ in 0..self.options.fast {
                self.join(room, Kind::Fast, Pace::Each(Duration::ZERO))?;
            }
        }
        for kind in [Kind::Slow, Kind::Ticker, Kind::Glance, Kind::Guest] {
            for _ in 0..self.options.slow {
                self.join(ROOMS[0], kind, Pace::Each(slowness))?;
            }
        }
        self.join(ROOMS[0], Kind::Stuck, Pace::Stuck(Some(over)))
    }
}

/// Speaks in a room until all is said; answers how long each line took to be answered.
fn speak(
    room: &EntityRef<Room>,
    speaker: usize,
    options: &Options,
    is_interrupted: &AtomicBool,
    progress: &ProgressBar,
) -> Result<Vec<Duration>, String> {
    let share = options.lines / SPEAKERS as u64
        + u64::from((speaker as u64) < options.lines % SPEAKERS as u64);
    let mut took = Vec::new();
    for count in 1..=share {
        if is_interrupted.load(Ordering::Relaxed) {
            break;
        }
        let begun = Instant::now();
        let said = room.say(speaker, count).wait();
        took.push(begun.elapsed());
        said.map_err(|error| format!("speaker {speaker} in «{}»: {error}", room.key()))?;
        progress.inc(1);
        std::thread::sleep(Duration::from_micros(options.pause_us));
    }
    Ok(took)
}

/// All speakers of all rooms at once; how long the rooms took, sorted.
fn talk(
    evening: &Evening<'_>,
    is_interrupted: &AtomicBool,
    progress: &ProgressBar,
) -> Result<BTreeMap<&'static str, Vec<Duration>>, String> {
    std::thread::scope(|scope| {
        let mut speakers = Vec::new();
        for room in ROOMS {
            for speaker in 0..SPEAKERS {
                let entity = evening.entities.get::<Room>(room);
                let options = evening.options;
                let run = move || speak(&entity, speaker, options, is_interrupted, progress);
                speakers.push((room, scope.spawn(run)));
            }
        }
        let mut took: BTreeMap<_, Vec<Duration>> = BTreeMap::new();
        for (room, speaker) in speakers {
            let one = speaker.join().map_err(|_| "a speaker has panicked".to_owned())??;
            took.entry(room).or_default().extend(one);
        }
        took.values_mut().for_each(|took| took.sort_unstable());
        Ok(took)
    })
}

/// One row of the table, and what is wrong with it.
fn check_member(member: &Member, seen: &Seen, room: &Ledger) -> Result<String, String> {
    let name = &member.name;
    if seen.out_of_order > 0 {
        return Err(format!("{name} got {} lines out of order", seen.out_of_order));
    }
    // Who was removed is not there any more; it missed all from that line on.
    let info = room.members.iter().find(|info| info.name == *name);
    let missed = info.map_or(room.said - seen.last, |info| info.missed);
    let (fate, is_right) = match member.kind {
        Kind::Fast => ("has them all", missed == 0),
        Kind::Slow | Kind::Stuck => ("missed some, stayed", info.is_some()),
        Kind::Ticker | Kind::Glance => ("is up to date", seen.last == room.said),
        Kind::Guest if info.is_some() => ("kept up, stayed", missed == 0),
        Kind::Guest => ("removed", seen.missed == 0 && missed > 0),
    };
    if !is_right || seen.got + missed != room.said {
        let found = format!("got {}, missed {missed} of {}", seen.got, room.said);
        return Err(format!("{name}: {found}: that does not fit a {:?}", member.kind));
    }
    Ok(format!("  {name:<12} {:>9} {missed:>9}   {fate}", seen.got))
}

/// Counts on both sides of a room and compares.
fn check_room(name: &str, room: &Ledger, members: &[(&Member, Seen)]) -> Result<(), String> {
    println!("  {:<12} {:>9} {:>9}", "member", "got", "missed");
    for (member, seen) in members {
        println!("{}", check_member(member, seen, room)?);
    }
    let missed: u64 = room.members.iter().map(|info| info.missed).sum();
    let got: u64 = members.iter().map(|(_, seen)| seen.got).sum();
    // Who was removed had missed one line.
    if room.missed != missed + room.removed {
        return Err(format!("«{name}»: {missed} missed by those who stayed: {room:?}"));
    }
    // What was taken and displaced by later lines was not got.
    if room.taken != got + missed - room.rejected {
        return Err(format!("«{name}»: {got} read: {room:?}"));
    }
    if room.members.len() as u64 + room.removed != members.len() as u64 {
        return Err(format!("«{name}»: {} members came: {room:?}", members.len()));
    }
    Ok(())
}

/// What a room says when nothing is on its way to a member any more.
fn settled(room: &EntityRef<Room>) -> Result<Ledger, Box<dyn Error>> {
    let begun = Instant::now();
    loop {
        let ledger = room.report().wait()?;
        if ledger.members.iter().all(|info| info.kept == 0) {
            return Ok(ledger);
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("«{}» still keeps lines after {PATIENCE:?}", room.key()).into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What members have left in the diary, each with its member.
fn read_diary<'a>(
    members: &'a [Member],
    diary: &Receiver<(String, Seen)>,
) -> Result<Vec<(&'a Member, Seen)>, Box<dyn Error>> {
    let mut seen: HashMap<String, Seen> = diary.try_iter().collect();
    let one = |member: &'a Member| {
        let seen = seen.remove(&member.name);
        Ok((member, seen.ok_or_else(|| format!("{} has left no word", member.name))?))
    };
    members.iter().map(one).collect()
}

/// Answers whether all was said: no if the run was interrupted.
fn run(options: &Options) -> Result<bool, Box<dyn Error>> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    let group = Group::builder("chat").build()?;
    let system = System::new(&group);
    let members = options.fast * 2 + options.slow * 4 + 1;
    let (diary, seen) = sync_channel(usize::try_from(members)?);
    let entities = Entities::new(&system);
    let mut evening = Evening { options, system, entities, diary, members: Vec::new() };
    let (let_go, over) = completion();
    evening.begin(over)?;
    let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} lines, {eta}")?;
    let progress = ProgressBar::new(options.lines * ROOMS.len() as u64).with_style(style);
    let took = talk(&evening, &is_interrupted, &progress)?;
    progress.finish_and_clear();
    // Every line is said and answered; the one who is stuck has let nobody wait.
    let rooms = ROOMS.map(|name| (name, settled(&evening.entities.get::<Room>(name))));
    let_go.complete(()).map_err(|_| "nobody waited for the end of the evening")?;
    let ended: Vec<_> = evening.members.iter().map(|member| (member.close)()).collect();
    for (member, ended) in evening.members.iter().zip(ended) {
        ended.wait_timeout(PATIENCE).map_err(|error| format!("{}: {error}", member.name))?;
    }
    let seen = read_diary(&evening.members, &seen)?;
    let mut missed = 0;
    for (name, room) in rooms {
        let room = room?;
        let here: Vec<_> = seen.iter().filter(|(member, _)| member.room == name).cloned().collect();
        let took = &took[name];
        let at = |percent: usize| took.get(took.len() * percent / 100).copied().unwrap_or_default();
        let (half, most) = (at(50), at(99));
        println!(
            "«{name}»: {} lines, answered in {half:.0?} (median), {most:.0?} (p99)",
            room.said
        );
        check_room(name, &room, &here)?;
        missed += room.missed;
    }
    let dead_letters = evening.system.dead_letters();
    if dead_letters != missed {
        return Err(format!("{missed} lines were missed, {dead_letters} are dead letters").into());
    }
    drop(evening);
    if !group.shutdown()?.is_clean() {
        return Err("the group did not end in order".into());
    }
    println!("ok: every line got there or is counted as missed, all in order, nobody waited");
    Ok(!is_interrupted.load(Ordering::Relaxed))
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("chat: interrupted; what had been said was checked");
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            eprintln!("chat: {error}");
            ExitCode::FAILURE
        }
    }
}
