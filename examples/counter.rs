//! An actor and its `main`: the smallest whole program.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]
use turnwheel_actors::{messages, Actor, System};
use turnwheel_runtime::Group;

#[derive(Actor, Default)]
struct Counter(u64);

#[messages]
impl Counter {
    #[message]
    fn add(&mut self, by: u64) -> u64 {
        self.0 += by;
        self.0
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let group = Group::builder("cpu").build()?;
    let counter = System::new(&group).spawn(Counter::default())?;
    counter.tell(Add { by: 2 })?;
    println!("2 + 3 = {}", counter.add(3).wait()?);
    group.shutdown()?;
    Ok(())
}
