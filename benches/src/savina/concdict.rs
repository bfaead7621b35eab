//! Workers read and write one dictionary, a request at a time. Known: every worker's answers come
//! in its order, and the dictionary's answers are those of a model that replays its log.

use std::collections::{BTreeMap, HashMap};

use turnwheel_runtime::{Group, Task};

use super::{done, Done, Outcome, Size};
use crate::compare::trial::Random;
use crate::error::{check, BenchError};
use crate::load::{fetch, sent, spawn, submit};

/// Keys in use; few enough that reads find something.
const KEYS: u64 = 512;
const WRITE_PERCENT: u64 = 10;

/// A request as it was served.
#[derive(Clone, Copy)]
struct Served {
    key: u64,
    /// What was written, if it was a write.
    written: Option<u64>,
    /// What was there before.
    found: Option<u64>,
}

#[derive(Default)]
struct Dictionary {
    entries: HashMap<u64, u64>,
    log: Vec<Served>,
}

impl Dictionary {
    fn serve(&mut self, key: u64, written: Option<u64>) -> Option<u64> {
        let found = match written {
            Some(value) => self.entries.insert(key, value),
            None => self.entries.get(&key).copied(),
        };
        self.log.push(Served { key, written, found });
        found
    }
}

struct Worker {
    dictionary: Task<Dictionary>,
    me: Option<Task<Worker>>,
    random: Random,
    sequence: u64,
    requests: u64,
    out_of_order: u64,
    done: Done<u64>,
}

impl Worker {
    fn ask(&mut self) {
        let Some(me) = self.me.clone() else { return };
        if self.sequence == self.requests {
            self.me = None;
            self.done.tell(self.out_of_order);
            return;
        }
        let sequence = self.sequence;
        let key = self.random.below(KEYS);
        let is_write = self.random.below(100) < WRITE_PERCENT;
        let written = is_write.then(|| self.random.next_u64());
        sent(self.dictionary.submit(move |dictionary, _| {
            let _found = dictionary.serve(key, written);
            sent(me.submit(move |worker, _| worker.answered(sequence)));
        }));
    }

    fn answered(&mut self, sequence: u64) {
        self.out_of_order += u64::from(sequence != self.sequence);
        self.sequence += 1;
        self.ask();
    }
}

pub(super) fn run(group: &Group, size: Size) -> Result<Outcome, BenchError> {
    let (workers, requests) = size.pick((4, 500), (20, 20_000));
    let (done, waiting) = done();
    let dictionary = spawn(group, Dictionary::default())?;
    for index in 0..workers {
        let worker = Worker {
            dictionary: dictionary.clone(),
            me: None,
            random: Random::new(index + 1),
            sequence: 0,
            requests,
            out_of_order: 0,
            done: done.clone(),
        };
        let worker = spawn(group, worker)?;
        let me = worker.clone();
        submit(&worker, move |worker, _| {
            worker.me = Some(me);
            worker.ask();
        })?;
    }
    let out_of_order: u64 = waiting.get_all("concdict", workers)?.iter().sum();
    check("concdict: answers out of order", out_of_order, 0)?;
    let log = fetch(&dictionary, |dictionary| std::mem::take(&mut dictionary.log))?;
    check("concdict: requests served", log.len() as u64, workers * requests)?;
    check("concdict: answers unlike the model's", unlike_model(&log), 0)?;
    Ok(Outcome::new(2 * workers * requests))
}

fn unlike_model(log: &[Served]) -> usize {
    let mut model = BTreeMap::new();
    log.iter()
        .filter(|served| {
            let expected = match served.written {
                Some(value) => model.insert(served.key, value),
                None => model.get(&served.key).copied(),
            };
            expected != served.found
        })
        .count()
}
