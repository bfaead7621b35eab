//! Entities of many types: each type has one directory, however many there are.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Barrier;

use turnwheel_actors::{Actor, Context, Entities, Entity, Handler, System};
use turnwheel_runtime::Group;

type Outcome = Result<(), Box<dyn Error>>;

/// One of many types.
struct Kind<const N: usize>(u64);

impl<const N: usize> Actor for Kind<N> {
    type Error = Infallible;
}

impl<const N: usize> Entity for Kind<N> {
    type Key = u64;

    fn create(_: &u64) -> Self {
        Self(0)
    }
}

struct Add(u64);

impl<const N: usize> Handler<Add> for Kind<N> {
    type Reply = (usize, u64);

    fn handle(&mut self, Add(number): Add, _: &mut Context<'_, Self>) -> (usize, u64) {
        self.0 += number;
        (N, self.0)
    }
}

fn add<const N: usize>(entities: &Entities) -> (usize, u64) {
    entities.get::<Kind<N>>(7_u64).ask(Add(1)).wait().expect("it answers")
}

/// Adds one to an entity of some type.
type AddOne = fn(&Entities) -> (usize, u64);

macro_rules! hundred {
    ($($tens:literal)*) => {
        [$(
            add::<{ $tens }>, add::<{ $tens + 1 }>, add::<{ $tens + 2 }>, add::<{ $tens + 3 }>,
            add::<{ $tens + 4 }>, add::<{ $tens + 5 }>, add::<{ $tens + 6 }>, add::<{ $tens + 7 }>,
            add::<{ $tens + 8 }>, add::<{ $tens + 9 }>,
        )*]
    };
}

#[test]
fn many_types_at_once_have_one_directory_each() -> Outcome {
    const THREADS: usize = 4;
    let kinds: [AddOne; 100] = hundred!(0 10 20 30 40 50 60 70 80 90);
    let group = Group::builder("types").workers(2).build()?;
    let entities = Entities::new(&System::new(&group));
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (entities, barrier, kinds) = (&entities, &barrier, &kinds);
            scope.spawn(move || {
                barrier.wait();
                for at in 0..kinds.len() {
                    let at = (at + thread * 25) % kinds.len();
                    assert_eq!(kinds[at](entities).0, at, "a message came to another type");
                }
            });
        }
    });
    for (at, add) in kinds.iter().enumerate() {
        assert_eq!(add(&entities), (at, THREADS as u64 + 1), "two directories of one type");
    }
    assert_eq!(format!("{entities:?}"), "Entities { types: 100, .. }");
    assert!(group.shutdown()?.is_clean());
    Ok(())
}
