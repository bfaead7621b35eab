//! Answer against timer: exactly one branch, on one node and on two; and the ancestor's marks.

use std::collections::{BTreeSet, HashMap};

use serde_json::json;

use super::common::{ancestor, last_path, Stage, DAY, HOUR, KEYWORD, SECOND};

/// The ancestor's state: a mark for each user, and a sorted set of timers. Each step is what its
/// code does, in that order.
#[derive(Default)]
struct Marks {
    mark: HashMap<&'static str, bool>,
    timers: BTreeSet<(u64, &'static str)>,
    taken: Vec<&'static str>,
}

impl Marks {
    fn wait(&mut self, user: &'static str, due: u64) {
        self.mark.insert(user, true);
        self.timers.insert((due, user));
    }

    fn answer(&mut self, user: &'static str) {
        if self.mark.insert(user, false) == Some(true) {
            self.taken.push("answer");
        }
    }

    fn time(&mut self, now: u64) {
        let due: Vec<_> = self.timers.iter().copied().filter(|(due, _)| *due <= now).collect();
        for timer in due {
            self.timers.remove(&timer);
            if self.mark.insert(timer.1, false) == Some(true) {
                self.taken.push("default");
            }
        }
    }
}

/// The same in numbers of waits: a timer names the wait that it belongs to.
#[test]
fn early_default_of_the_ancestors_marks_does_not_happen_here() {
    // Waits at 0 until 24, answers at 1, waits again at 2 until 26.
    let mut marks = Marks::default();
    marks.wait("u", 24);
    marks.answer("u");
    marks.wait("u", 26);
    marks.time(25);
    assert_eq!(marks.taken, ["answer", "default"], "the model shows the mistake");
    let stage = Stage::walk_through();
    stage.say("u", "开始");
    stage.sim.advance(HOUR);
    stage.say("u", "2");
    stage.sim.advance(HOUR);
    stage.say("u", "开始");
    stage.sim.advance(23 * HOUR);
    stage.sim.run_until_idle();
    assert_eq!(stage.waits("u").len(), 1, "25 hours after the first wait began");
    stage.sim.advance(HOUR);
    stage.sim.run_until_idle();
    assert_eq!(last_path(&stage.user("u")), "4 5 6");
}

/// Races in one run; more with `TURNWHEEL_RACES`.
fn races() -> u64 {
    let races = std::env::var("TURNWHEEL_RACES").ok().and_then(|text| text.parse().ok());
    races.unwrap_or(1_000)
}

#[test]
fn one_of_answer_and_timer_at_one_instant_wins() {
    const USERS: u64 = 100;
    let (mut answers, mut defaults) = (0_u64, 0_u64);
    for seed in 0..races().div_ceil(USERS) {
        let stage = Stage::over(turnwheel_engine::MemoryStore::new(), seed);
        stage.put(&ancestor().to_string());
        let other = stage.second(true);
        let users: Vec<String> = (0..USERS).map(|user| format!("u{user}")).collect();
        for user in &users {
            stage.say(user, "开始");
        }
        stage.sim.advance(DAY - SECOND);
        // The answer is on its way when the time comes: what is first depends on the seed.
        let asked: Vec<_> = users
            .iter()
            .enumerate()
            .map(|(number, user)| {
                let node = if number % 2 == 0 { &stage.journeys } else { &other };
                let event = stage.event(user, KEYWORD, json!({ "text": "2" }));
                stage.sim.advance(SECOND / 50);
                node.event(event)
            })
            .collect();
        stage.sim.advance(SECOND);
        stage.sim.run_until_idle();
        for (user, asked) in users.iter().zip(asked) {
            let taken = stage.wait(asked).expect("it is taken");
            let view = stage.user(user);
            assert_eq!(view.ended.len(), 1, "seed {seed}, {user}: one branch");
            let moves = &view.ended[0].moves;
            assert_eq!(moves.len(), 2, "seed {seed}, {user}: {moves:?}");
            let is_answered = !taken.moved.is_empty();
            let expected = if is_answered { "4 19 20 21 22" } else { "4 5 6" };
            assert_eq!(last_path(&view), expected, "seed {seed}, {user}");
            answers += u64::from(is_answered);
            defaults += u64::from(!is_answered);
        }
        assert_eq!(stage.messages().len() as u64, USERS, "seed {seed}: one message each");
    }
    assert!(answers > 0 && defaults > 0, "both win: {answers} answers, {defaults} defaults");
}
