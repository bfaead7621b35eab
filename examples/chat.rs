//! Two chat rooms, one of them with members who cannot keep up; nobody else notices.
//!
//! ```sh
//! cargo run --release --example chat
//! cargo run --release --example chat -- --lines 20000 --slow 50 --pause-us 100
//! ```
//!
//! What it shows: a room is an *entity* that numbers what is said and publishes it on a topic; a
//! member is an actor with a mailbox of its own. What becomes of a line that a member has no room
//! for is declared, once, when it joins:
//!
//! * `fast` reads at once and has room for the whole evening: it gets every line;
//! * `slow` needs a while for each line and misses what comes meanwhile (reject);
//! * `ticker` is as slow, but would rather miss the old lines than the new (a mailbox that drops the
//!   oldest);
//! * `guest` is removed from the room at the first line that it has no room for (unsubscribe);
//! * `stuck` begins with its first line and does not come back before the evening is over.
//!
//! The room waits for none of them, which `stuck` proves: it lets go when all else is done. In the
//! end what each member got and missed is compared with what the room and the dead letters say.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use turnwheel_actors::{
    messages, Actor, AsyncContext, AsyncHandler, Context, DeadLetterReason, Entities, Entity,
    EntityRef, Exit, Handler, Recipient, System, Topic, TopicOverflow,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completion, Group, Mailbox, Overflow};

/// The room with members of every kind, and the one with fast ones alone.
const ROOMS: [&str; 2] = ["hall", "library"];
/// Who speaks in a room, each a thread that waits for the room's answer.
const SPEAKERS: usize = 3;
/// Lines that a member other than a fast one has room for.
const ROOM_FOR: u64 = 16;
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
#[derive(Clone, Copy, Debug, Default)]
struct Ledger {
    said: u64,
    /// Copies that a mailbox took.
    delivered: u64,
    /// Copies that were missed by members who stayed.
    rejected: u64,
    /// Members who were removed.
    removed: u64,
    members: usize,
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
        // Members leave when the room removes them, so nobody needs the name of the place.
        let _ = self.members.subscribe(member, overflow);
    }

    /// Answers the number of the line.
    #[message]
    fn say(&mut self, speaker: usize, count: u64) -> u64 {
        self.ledger.said += 1;
        let number = self.ledger.said;
        let published = self.members.publish(&Line { number, speaker, count });
        self.ledger.delivered += published.delivered as u64;
        self.ledger.rejected += published.rejected as u64;
        self.ledger.removed += published.removed as u64;
        number
    }

    #[message]
    fn report(&self) -> Ledger {
        Ledger { members: self.members.subscribers(), ..self.ledger }
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
        // It has a place for each member; nobody listens only if the evening was given up.
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
            // It ends early only if the group does.
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

/// What is needed to let members in.
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
        let mailbox = match kind {
            Kind::Fast => Mailbox::bounded(self.options.lines),
            Kind::Ticker => Mailbox::bounded(ROOM_FOR).overflow(Overflow::DropOldest),
            Kind::Slow | Kind::Guest | Kind::Stuck => Mailbox::bounded(ROOM_FOR),
        };
        let overflow = match kind {
            Kind::Guest => TopicOverflow::Unsubscribe,
            _ => TopicOverflow::Reject,
        };
        let (recipient, close): (_, Box<dyn Fn() -> _>) = if kind == Kind::Fast {
            let actor = Fast { name: name.clone(), seen, diary };
            let actor = self.system.actor(actor).name(&name).mailbox(mailbox).spawn()?;
            (actor.recipient(), Box::new(move || actor.close()))
        } else {
            let actor = Slow { name: name.clone(), pace, seen, diary };
            let actor = self.system.actor(actor).name(&name).mailbox(mailbox).spawn()?;
            (actor.recipient(), Box::new(move || actor.close()))
        };
        self.entities.get::<Room>(room).join(recipient, overflow).wait()?;
        self.members.push(Member { room, kind, name, close });
        Ok(())
    }

    /// Lets all members in; answers nothing before they are there.
    fn begin(&mut self, over: Completion<()>) -> Result<(), Box<dyn Error>> {
        let slowness = Duration::from_millis(self.options.slow_ms);
        for room in ROOMS {
            for _ in 0..self.options.fast {
                self.join(room, Kind::Fast, Pace::Each(Duration::ZERO))?;
            }
        }
        for kind in [Kind::Slow, Kind::Ticker, Kind::Guest] {
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
fn check_member(member: &Member, seen: &Seen, room: &Ledger, lost: u64) -> Result<String, String> {
    let Member { kind, name, .. } = member;
    if seen.out_of_order > 0 {
        return Err(format!("{name} got {} lines out of order", seen.out_of_order));
    }
    // What is missing since the last line that came, counted by the room's numbers.
    let missed = seen.missed + (room.said - seen.last);
    let (fate, is_right) = match kind {
        Kind::Fast => ("has them all", missed == 0 && lost == 0),
        Kind::Slow | Kind::Stuck => ("missed some, stayed", lost == missed),
        Kind::Ticker => ("missed old ones", seen.last == room.said),
        Kind::Guest if lost == 0 => ("kept up, stayed", missed == 0),
        // It had all until it was removed, and nothing after.
        Kind::Guest => ("removed", lost == 1 && seen.missed == 0),
    };
    if !is_right {
        let found = format!("got {}, missed {missed}, {lost} refused", seen.got);
        return Err(format!("{name}: {found}: that does not fit a {kind:?} of {}", room.said));
    }
    Ok(format!("  {name:<12} {:>9} {missed:>9}   {fate}", seen.got))
}

/// Counts on both sides of a room and compares.
fn check_room(
    name: &str,
    room: &Ledger,
    members: &[(&Member, Seen)],
    losses: &BTreeMap<String, u64>,
) -> Result<u64, Box<dyn Error>> {
    println!("  {:<12} {:>9} {:>9}", "member", "got", "missed");
    let lost = |name: &String| losses.get(name).copied().unwrap_or(0);
    for (member, seen) in members {
        println!("{}", check_member(member, seen, room, lost(&member.name))?);
    }
    let sum = |of: fn(&Seen) -> u64, kinds: fn(Kind) -> bool| -> u64 {
        let chosen = members.iter().filter(|(member, _)| kinds(member.kind));
        chosen.map(|(_, seen)| of(seen)).sum()
    };
    let got = sum(|seen| seen.got, |_| true);
    // What a ticker missed had been delivered before it was displaced.
    let displaced = sum(|seen| seen.missed, |kind| kind == Kind::Ticker);
    let refused: u64 = members.iter().map(|(member, _)| lost(&member.name)).sum();
    let is_removed = |member: &Member| member.kind == Kind::Guest && lost(&member.name) > 0;
    let removed = members.iter().filter(|(member, _)| is_removed(member)).count() as u64;
    if room.delivered != got + displaced {
        let found = format!("{} delivered, {got} read, {displaced} displaced", room.delivered);
        return Err(format!("«{name}»: {found}").into());
    }
    if (room.removed, room.rejected) != (removed, refused - removed) {
        return Err(format!("«{name}»: {room:?}, but {refused} refused by mailboxes").into());
    }
    if room.members as u64 != members.len() as u64 - removed {
        return Err(format!("«{name}»: {} members are left", room.members).into());
    }
    Ok(displaced)
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
    // How often a mailbox refused a line, by the member's name.
    let losses = Arc::new(Mutex::new(BTreeMap::<String, u64>::new()));
    let refused = Arc::clone(&losses);
    let system = System::builder(&group).on_dead_letter(move |letter| {
        if matches!(letter.reason, DeadLetterReason::Refused(_)) {
            let mut refused = refused.lock().expect("the lock is held for one addition");
            *refused.entry(letter.recipient.clone()).or_default() += 1;
        }
    });
    let system = system.build();
    let members = options.fast * 2 + options.slow * 3 + 1;
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
    let_go.complete(()).map_err(|_| "nobody waited for the end of the evening")?;
    let ended: Vec<_> = evening.members.iter().map(|member| (member.close)()).collect();
    for (member, ended) in evening.members.iter().zip(ended) {
        ended.wait_timeout(PATIENCE).map_err(|error| format!("{}: {error}", member.name))?;
    }
    let seen = read_diary(&evening.members, &seen)?;
    let losses = losses.lock().expect("the lock is held for one addition").clone();
    let mut displaced = 0;
    for name in ROOMS {
        let room = evening.entities.get::<Room>(name).report().wait()?;
        let here: Vec<_> = seen.iter().filter(|(member, _)| member.room == name).cloned().collect();
        let took = &took[name];
        let at = |percent: usize| took.get(took.len() * percent / 100).copied().unwrap_or_default();
        let (half, most) = (at(50), at(99));
        println!(
            "«{name}»: {} lines, answered in {half:.0?} (median), {most:.0?} (p99)",
            room.said
        );
        displaced += check_room(name, &room, &here, &losses)?;
    }
    let dead_letters = evening.system.dead_letters();
    let refused: u64 = losses.values().sum();
    if dead_letters != refused + displaced {
        let found =
            format!("{dead_letters} dead letters, {refused} refused, {displaced} displaced");
        return Err(found.into());
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
