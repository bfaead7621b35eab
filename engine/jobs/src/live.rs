//! Outputs of runs that are under way, in memory: their last bytes, for those that follow them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion};

use crate::limits::{FOLLOWERS_MAX, LIVE_BYTES_MAX};

/// Output of a run that is under way. Clones share it.
#[derive(Clone)]
pub struct LiveOutput(Arc<Mutex<Tail>>);

#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// The last bytes.
    bytes: Vec<u8>,
    /// Bytes that were written.
    total: u64,
    is_over: bool,
    waiting: Vec<Completer<()>>,
    /// Whether it is copied from another node.
    is_copied: bool,
}

/// A part of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chunk {
    /// Its text.
    pub text: String,
    /// Number of its first byte in the output; higher than asked if bytes before it are gone.
    pub from: u64,
    /// Number of the byte behind it: the next part begins there.
    pub next: u64,
    /// Whether nothing more is written.
    pub is_over: bool,
}

impl fmt::Debug for LiveOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveOutput").field("total", &self.0.lock().total).finish_non_exhaustive()
    }
}

impl LiveOutput {
    fn wake(waiting: Vec<Completer<()>>) {
        for waiting in waiting {
            // A follower may have gone.
            let _gone = waiting.complete(());
        }
    }

    /// Adds what a run has written; only the last bytes are kept.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let mut tail = self.0.lock();
        tail.total += bytes.len() as u64;
        tail.bytes.extend_from_slice(bytes);
        if tail.bytes.len() > 2 * LIVE_BYTES_MAX {
            let excess = tail.bytes.len() - LIVE_BYTES_MAX;
            tail.bytes.drain(..excess);
        }
        let waiting = std::mem::take(&mut tail.waiting);
        drop(tail);
        Self::wake(waiting);
    }

    /// Nothing more is written.
    pub(crate) fn end(&self) {
        let mut tail = self.0.lock();
        tail.is_over = true;
        let waiting = std::mem::take(&mut tail.waiting);
        drop(tail);
        Self::wake(waiting);
    }

    /// The output from a byte on, as far as it is there. An incomplete character waits for
    /// its rest.
    pub fn read(&self, from: u64) -> Chunk {
        let tail = self.0.lock();
        let first = tail.total - tail.bytes.len() as u64;
        let from = from.clamp(first, tail.total);
        let place = usize::try_from(from - first).unwrap_or(usize::MAX);
        let rest = &tail.bytes[place..];
        let whole = match std::str::from_utf8(rest) {
            Err(error) if !tail.is_over && error.error_len().is_none() => {
                &rest[..error.valid_up_to()]
            }
            _ => rest,
        };
        let text = String::from_utf8_lossy(whole).into_owned();
        Chunk { text, from, next: from + whole.len() as u64, is_over: tail.is_over }
    }

    /// Completes when more was written than so many bytes, or nothing more is.
    pub fn changed(&self, known: u64) -> Completion<()> {
        let (to, changed) = completion();
        let mut tail = self.0.lock();
        if tail.total > known || tail.is_over {
            drop(tail);
            Self::wake(vec![to]);
            return changed;
        }
        // Followers that have gone are forgotten; of too many all look again.
        let crowd = match tail.waiting.len() >= FOLLOWERS_MAX {
            true => std::mem::take(&mut tail.waiting),
            false => Vec::new(),
        };
        tail.waiting.push(to);
        drop(tail);
        Self::wake(crowd);
        changed
    }
}

/// The copy of an output of another node; it does not keep the output alive.
#[derive(Debug)]
pub(crate) struct Mirror(Weak<Mutex<Tail>>);

impl Mirror {
    fn output(&self) -> Option<LiveOutput> {
        self.0.upgrade().map(LiveOutput)
    }

    /// Whether somebody follows it.
    pub(crate) fn is_followed(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Number of the next byte that it lacks.
    pub(crate) fn next(&self) -> u64 {
        self.output().map_or(0, |output| output.0.lock().total)
    }

    /// Adds bytes from a place on. Whether nothing more comes.
    pub(crate) fn add(&self, from: u64, bytes: &[u8], is_over: bool) -> bool {
        let Some(output) = self.output() else { return true };
        let mut tail = output.0.lock();
        if from > tail.total {
            // The bytes between are gone.
            tail.bytes.clear();
            tail.total = from;
        }
        let known = usize::try_from(tail.total - from).unwrap_or(usize::MAX);
        drop(tail);
        if let Some(new) = bytes.get(known..).filter(|new| !new.is_empty()) {
            output.write(new);
        }
        if is_over {
            output.end();
        }
        is_over
    }
}

/// The outputs of the runs under way, by the keys of their attempts. An entry lives as long as its
/// run or a follower.
#[derive(Clone, Default)]
pub(crate) struct Lives(Arc<Mutex<HashMap<String, Weak<Mutex<Tail>>>>>);

impl fmt::Debug for Lives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lives").field("runs", &self.0.lock().len()).finish()
    }
}

impl Lives {
    /// The output of an attempt, also of one that has not begun.
    pub(crate) fn of(&self, key: &str) -> LiveOutput {
        let mut runs = self.0.lock();
        if let Some(tail) = runs.get(key).and_then(Weak::upgrade) {
            return LiveOutput(tail);
        }
        runs.retain(|_, tail| tail.strong_count() > 0);
        let tail = Arc::new(Mutex::new(Tail::default()));
        runs.insert(key.to_owned(), Arc::downgrade(&tail));
        LiveOutput(tail)
    }

    /// The output of an attempt on another node, and the copy to keep up to date if nobody does.
    pub(crate) fn copy_of(&self, key: &str) -> (LiveOutput, Option<Mirror>) {
        let output = self.of(key);
        let was_copied = std::mem::replace(&mut output.0.lock().is_copied, true);
        let mirror = (!was_copied).then(|| Mirror(Arc::downgrade(&output.0)));
        (output, mirror)
    }
}
