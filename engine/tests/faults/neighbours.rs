//! A workload of two worlds over one store: claims, plans of both, and a take-over.
//!
//! It finds a list of worlds that is stale after a lost answer, and plans that are left with a world
//! that was said to be dead.

use std::time::Duration;

use turnwheel_engine::{ClaimError, Delay, Plan, PlanResult, WorldBuilder};
use turnwheel_testkit::{Client, Workload};

use super::actions::{actions, Do, Leaf, Log, Made, Only};
use super::plans::{ends, makes};

pub(crate) struct Neighbours(Log);

impl Neighbours {
    pub(crate) fn new() -> Self {
        Self(Log::default())
    }
}

impl Workload for Neighbours {
    fn name(&self) -> &str {
        "two worlds"
    }

    fn worlds(&self) -> usize {
        2
    }

    fn world(&self, builder: WorldBuilder) -> WorldBuilder {
        actions(builder, &self.0)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(7_200)
    }

    fn verdict(&self, plans: &[&Plan]) -> Result<(), String> {
        self.0.verdict(plans)
    }

    async fn client(&self, first: Client) -> Result<(), String> {
        let second = first.of_world(1);
        claim(&first, "night").await?;
        claim(&second, "day").await?;
        let mut plans = Vec::new();
        for (number, client) in [&first, &second, &first, &second].into_iter().enumerate() {
            let key = format!("rest {number}");
            plans.push(client.trigger::<Leaf>(&key, Do::Rest(60)).await?);
            let locked = ("lock".to_owned(), 20);
            plans.push(client.trigger::<Only>(&format!("only {number}"), locked).await?);
        }
        let split = first.trigger::<Leaf>("split", Do::Split(3, Some(2))).await?;
        let hears = first.trigger::<Leaf>("hears", Do::Hear(2)).await?;
        let after = second.delay::<Leaf>("after", Delay::after([hears]), Do::Add(1)).await?;
        second.pause(Duration::from_secs(30)).await;
        // The second one goes on with everything.
        let dead = first.world().id();
        second.insist(|| second.world().invalidate(dead)).await?;
        claim(&second, "night").await?;
        second.event::<Leaf>(hears, "hello", &1_u64).await?;
        plans.push(after);
        for plan in plans {
            ends(&second, plan, PlanResult::Success).await?;
        }
        makes::<Leaf>(&second, split, |made: &Made| made.sum == 3).await
    }
}

/// The world has a name, whether it was told so or not.
async fn claim(client: &Client, id: &str) -> Result<(), String> {
    let me = client.world().id();
    let claimed = || async {
        match client.world().claim("dump", id, &()).await {
            Err(ClaimError::Taken { world, .. }) if world == me => Ok(()),
            claimed => claimed,
        }
    };
    client.insist(claimed).await
}
