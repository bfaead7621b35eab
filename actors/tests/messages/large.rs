//! Messages and answers of hundreds of KiB, on stacks of 2 MiB.
//!
//! Each test sends from a thread with such a stack, and workers have it by default. A debug build
//! that copied a message in each function on its way would end with an abort.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use turnwheel_actors::intercept::{Call, Interceptor};
use turnwheel_actors::{
    Actor, AsyncContext, AsyncHandler, Context, Entities, Entity, Handler, InterleavedHandler,
    ReplyHandler, ReplyTo, System,
};
use turnwheel_runtime::{Failure, Group, SubmitErrorKind};

type Outcome = Result<(), Box<dyn Error>>;

const ASKED: usize = 128 * 1024;
const TOLD: usize = 256 * 1024;

/// A message that is answered with itself, by each kind of handler.
struct Plain([u8; ASKED]);
struct Exclusive([u8; ASKED]);
struct Shared([u8; ASKED]);
struct ByHand([u8; ASKED]);

/// A message without an answer.
struct Told([u8; TOLD]);

/// A message with a short answer.
struct Seen([u8; ASKED]);

/// Refused, a call is copied more often than taken.
struct Half([u8; ASKED / 2]);

/// A short message with a long answer.
struct Read(u8);

/// Keeps the last byte of its last message, and the number of messages.
#[derive(Default)]
struct Store(u8, u64);

impl Actor for Store {
    type Error = Infallible;
}

impl Entity for Store {
    type Key = u64;

    fn create(_: &u64) -> Self {
        Self::default()
    }
}

impl Handler<Told> for Store {
    type Reply = ();

    fn handle(&mut self, Told(bytes): Told, _: &mut Context<'_, Self>) {
        (self.0, self.1) = (bytes[TOLD - 1], self.1 + 1);
    }
}

impl Handler<Plain> for Store {
    type Reply = [u8; ASKED];

    fn handle(&mut self, Plain(bytes): Plain, _: &mut Context<'_, Self>) -> Self::Reply {
        bytes
    }
}

impl Handler<Seen> for Store {
    type Reply = u8;

    fn handle(&mut self, Seen(bytes): Seen, _: &mut Context<'_, Self>) -> u8 {
        bytes[0]
    }
}

impl Handler<Half> for Store {
    type Reply = ();

    fn handle(&mut self, _: Half, _: &mut Context<'_, Self>) {}
}

impl Handler<Read> for Store {
    type Reply = [u8; ASKED];

    fn handle(&mut self, Read(byte): Read, _: &mut Context<'_, Self>) -> Self::Reply {
        [byte; ASKED]
    }
}

impl AsyncHandler<Exclusive> for Store {
    type Reply = [u8; ASKED];

    async fn handle(&mut self, message: Exclusive, _: AsyncContext<Self>) -> Self::Reply {
        message.0
    }
}

impl InterleavedHandler<Shared> for Store {
    type Reply = [u8; ASKED];

    fn handle(
        &mut self,
        Shared(bytes): Shared,
        _: &mut Context<'_, Self>,
    ) -> impl std::future::Future<Output = Self::Reply> + Send + 'static {
        std::future::ready(bytes)
    }
}

impl ReplyHandler<ByHand> for Store {
    type Reply = [u8; ASKED];

    fn handle(
        &mut self,
        ByHand(bytes): ByHand,
        reply: ReplyTo<Self::Reply>,
        _: &mut Context<'_, Self>,
    ) {
        reply.send(bytes);
    }
}

/// Runs it on a thread with a stack of 2 MiB.
fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run);
    thread.expect("a thread").join().expect("it ends in order");
}

fn system() -> Result<(Group, System), Box<dyn Error>> {
    let group = Group::builder("large").workers(1).build()?;
    let system = System::new(&group);
    Ok((group, system))
}

/// Asks and tells, each on a stack of its own.
macro_rules! asks_and_tells {
    ($to:expr) => {{
        let (asks, tells) = ($to, $to);
        on_a_small_stack(move || {
            let answer = asks.ask(Plain([7; ASKED])).wait();
            assert_eq!(answer.expect("an answer")[ASKED - 1], 7);
        });
        on_a_small_stack(move || tells.tell(Told([9; TOLD])).expect("there is room"));
    }};
}

#[test]
fn an_address_sends_and_answers_large_messages() -> Outcome {
    let (group, system) = system()?;
    let store = system.spawn(Store::default())?;
    asks_and_tells!(store.clone());
    assert_eq!(store.with(|store, _| (store.0, store.1)).wait()?, (9, 1));
    group.shutdown()?;
    Ok(())
}

#[test]
fn each_kind_of_handler_answers_large_messages() -> Outcome {
    let (group, system) = system()?;
    let store = system.spawn(Store::default())?;
    let to = store.clone();
    on_a_small_stack(move || {
        assert_eq!(to.ask(Exclusive([1; ASKED])).wait().expect("an answer")[0], 1);
    });
    let to = store.clone();
    on_a_small_stack(move || {
        assert_eq!(to.ask(Read(4)).wait().expect("an answer")[0], 4);
    });
    let to = store.clone();
    on_a_small_stack(move || {
        assert_eq!(to.ask(Shared([2; ASKED])).wait().expect("an answer")[0], 2);
    });
    let to = store.clone();
    on_a_small_stack(move || {
        assert_eq!(to.ask(ByHand([3; ASKED])).wait().expect("an answer")[0], 3);
    });
    group.shutdown()?;
    Ok(())
}

#[test]
fn entities_pools_and_recipients_take_large_messages() -> Outcome {
    let (group, system) = system()?;
    let entities = Entities::new(&system);
    let entity = entities.get::<Store>(1_u64);
    asks_and_tells!(entity.clone());
    let pool = system.pool(Store::default).growing(1, 2).build()?;
    let recipient = pool.callee::<Plain, _>();
    asks_and_tells!(pool.clone());
    drop(pool);
    let store = system.spawn(Store::default())?;
    let callee = store.callee::<Plain, _>();
    on_a_small_stack(move || {
        assert_eq!(recipient.ask(Plain([4; ASKED])).wait().expect("an answer")[0], 4);
    });
    on_a_small_stack(move || {
        assert_eq!(callee.ask(Plain([5; ASKED])).wait().expect("an answer")[0], 5);
    });
    let recipient = store.recipient::<Seen, _>();
    on_a_small_stack(move || recipient.tell(Seen([6; ASKED])).expect("there is room"));
    let later = store.clone();
    on_a_small_stack(move || {
        drop(later.tell_after(Duration::ZERO, Seen([7; ASKED])).expect("a timer"));
    });
    let urgent = store.clone();
    on_a_small_stack(move || urgent.tell_urgent(Seen([8; ASKED])).expect("there is room"));
    let waits = store.clone();
    on_a_small_stack(move || {
        waits.tell_wait(Seen([8; ASKED]), Duration::from_secs(9)).expect("there is room");
    });
    drop(store);
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_large_message_that_is_refused_comes_back() -> Outcome {
    let (group, system) = system()?;
    let store = system.spawn(Store::default())?;
    store.close().wait()?;
    let to = store.clone();
    on_a_small_stack(move || {
        let error = to.tell(Plain([1; ASKED])).expect_err("it is closed");
        assert_eq!((error.kind, error.message.0[ASKED - 1]), (SubmitErrorKind::Closed, 1));
    });
    on_a_small_stack(move || {
        let error = store.ask(Half([2; ASKED / 2])).wait().expect_err("it is closed");
        assert_eq!(error.into_message().expect("it comes back").0[0], 2);
    });
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_dead_letter_names_a_large_message_and_not_its_box() -> Outcome {
    let (told, letters) = std::sync::mpsc::channel();
    let group = Group::builder("large").workers(1).build()?;
    let system = System::builder(&group)
        .on_dead_letter(move |letter| told.send(letter.message).expect("the test listens"))
        .build();
    let store = system.spawn(Store::default())?;
    store.close().wait()?;
    on_a_small_stack(move || drop(store.tell(Told([1; TOLD]))));
    assert_eq!(letters.recv()?, std::any::type_name::<Told>());
    group.shutdown()?;
    Ok(())
}

struct Adds;

impl Interceptor for Adds {
    type State = ();

    fn begin(&self, call: &mut Call<'_>) -> Result<(), Failure> {
        if let Some(Seen(bytes)) = call.message_mut() {
            bytes[0] += 1;
        }
        Ok(())
    }
}

#[test]
fn interceptors_see_a_large_message_and_not_its_box() -> Outcome {
    let (group, system) = system()?;
    let store = system.actor(Store::default()).intercept(Adds).spawn()?;
    on_a_small_stack(move || {
        assert_eq!(store.ask(Seen([1; ASKED])).wait().expect("an answer"), 2);
    });
    group.shutdown()?;
    Ok(())
}

/// An actor with many bytes in its fields.
struct Wide([u8; WIDE]);

impl Actor for Wide {
    type Error = Infallible;
}

impl Handler<Peek> for Wide {
    type Reply = u8;

    fn handle(&mut self, _: Peek, _: &mut Context<'_, Self>) -> u8 {
        self.0[WIDE - 1]
    }
}

impl AsyncHandler<Read> for Wide {
    type Reply = u8;

    async fn handle(&mut self, Read(byte): Read, _: AsyncContext<Self>) -> u8 {
        std::future::ready(()).await;
        self.0[WIDE - 1] + byte
    }
}

/// A message without bytes.
struct Peek;

/// The documented limit of an actor's own fields.
const WIDE: usize = 32 * 1024;

#[test]
fn an_actor_of_32_kib_starts_and_answers() -> Outcome {
    let (group, system) = system()?;
    on_a_small_stack(move || {
        let wide = system.spawn(Wide([1; WIDE])).expect("the group runs");
        assert_eq!(wide.ask(Peek).wait().expect("an answer"), 1);
        assert_eq!(wide.ask(Read(2)).wait().expect("an answer"), 3);
    });
    assert!(group.shutdown()?.is_clean());
    Ok(())
}
