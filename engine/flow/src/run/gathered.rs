//! List of values that grows by one at each turn of a task, in few bytes for each state that is
//! stored.
//!
//! The state of a task is written at each turn, and its values from 4 KiB on are stored once for
//! each plan. So values are packed into texts that do not change any more: what a turn writes anew
//! is the last few values and references to the texts. Small packs become part of a large one in
//! time, because a state with many references to values keeps the smaller ones inside.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Bytes of values from which on they are packed: above the least that is stored once.
const SMALL_BYTES: usize = 8 * 1_024;

/// Bytes of small packs from which on they become a large one: 16 small ones at most, and 32 large
/// ones in the largest state.
const LARGE_BYTES: usize = 128 * 1_024;

/// Values in their order, the first ones packed. Values can be taken from its front.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub(crate) struct Gathered {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    large: Vec<Pack>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    small: Vec<Pack>,
    last: Vec<Value>,
    /// Values, without those that were taken.
    count: usize,
    /// Values that were taken from the first pack.
    #[serde(skip_serializing_if = "is_zero")]
    taken: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// JSON of values, without the brackets around them. Its quotes and apostrophes are exchanged, so
/// that the quotes are not escaped inside of the text of a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
struct Pack(String);

/// Values as they are stored.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    /// A list, as it was stored before it was packed.
    Plain(Vec<Value>),
    Packed(Packed),
}

#[derive(Deserialize)]
struct Packed {
    #[serde(default)]
    large: Vec<Pack>,
    #[serde(default)]
    small: Vec<Pack>,
    last: Vec<Value>,
    count: usize,
    #[serde(default)]
    taken: usize,
}

impl From<Stored> for Gathered {
    fn from(stored: Stored) -> Self {
        match stored {
            Stored::Plain(last) => Self { count: last.len(), last, ..Self::default() },
            Stored::Packed(Packed { large, small, last, count, taken }) => {
                Self { large, small, last, count, taken }
            }
        }
    }
}

impl Pack {
    fn of(values: &[Value]) -> Self {
        let texts: Vec<String> = values.iter().map(Value::to_string).collect();
        Self(exchanged(&texts.join(",")))
    }

    fn joined(packs: &[Self]) -> Self {
        let texts: Vec<&str> = packs.iter().map(|pack| &*pack.0).collect();
        Self(texts.join(","))
    }

    /// Its values; a pack that was damaged has none, which the checksum of its entry excludes.
    fn values(&self) -> Vec<Value> {
        serde_json::from_str(&format!("[{}]", exchanged(&self.0))).unwrap_or_default()
    }
}

/// A text whose quotes are apostrophes, and the other way round.
fn exchanged(text: &str) -> String {
    let exchange = |sign| match sign {
        '"' => '\'',
        '\'' => '"',
        sign => sign,
    };
    text.chars().map(exchange).collect()
}

impl Gathered {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn push(&mut self, value: Value) {
        self.last.push(value);
        self.count += 1;
        let pack = Pack::of(&self.last);
        if pack.0.len() < SMALL_BYTES {
            return;
        }
        self.small.push(pack);
        self.last.clear();
        if self.small.iter().map(|pack| pack.0.len()).sum::<usize>() >= LARGE_BYTES {
            self.large.push(Pack::joined(&self.small));
            self.small.clear();
        }
    }

    /// All values in their order.
    pub(crate) fn all(&self) -> Vec<Value> {
        let packed = self.large.iter().chain(&self.small).flat_map(Pack::values);
        packed.chain(self.last.iter().cloned()).skip(self.taken).collect()
    }

    /// The first value.
    pub(crate) fn first(&self) -> Option<Value> {
        match self.large.first().or(self.small.first()) {
            Some(pack) => pack.values().into_iter().nth(self.taken),
            None => self.last.first().cloned(),
        }
    }

    /// Takes the first value away.
    pub(crate) fn remove_first(&mut self) {
        if self.is_empty() {
            return;
        }
        self.count -= 1;
        let packs = if self.large.is_empty() { &mut self.small } else { &mut self.large };
        let Some(first) = packs.first() else {
            self.last.remove(0);
            return;
        };
        self.taken += 1;
        if self.taken == first.values().len() {
            packs.remove(0);
            self.taken = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_keep_their_order_however_they_are_packed_stored_and_taken() {
        let value = |number: usize| json!({ "n": number, "text": "it's \"é\" \\".repeat(number % 40 * 40) });
        let (mut gathered, mut from) = (Gathered::default(), 0);
        for number in 0..60 {
            gathered.push(value(number));
            let stored = serde_json::to_string(&gathered).expect("it is data");
            gathered = serde_json::from_str(&stored).expect("it is read again");
            if number % 3 == 2 {
                assert_eq!(gathered.first(), Some(value(from)));
                gathered.remove_first();
                from += 1;
            }
            assert_eq!(gathered.len(), number + 1 - from);
        }
        assert!(!gathered.large.is_empty());
        assert_eq!(gathered.all(), (from..60).map(value).collect::<Vec<_>>());
        while !gathered.is_empty() {
            assert_eq!(gathered.first(), Some(value(from)));
            gathered.remove_first();
            from += 1;
        }
        assert_eq!((from, gathered), (60, Gathered::default()));
    }

    #[test]
    fn list_of_an_older_version_is_read() {
        let gathered: Gathered = serde_json::from_value(json!([1, "b"])).expect("it is a list");
        assert_eq!((gathered.len(), gathered.all()), (2, vec![json!(1), json!("b")]));
    }

    #[test]
    fn state_of_the_largest_list_has_few_texts_that_change() {
        let mut gathered = Gathered::default();
        for number in 0..2_000 {
            gathered.push(json!({ "number": number, "text": "x".repeat(number % 2_000) }));
            let packs = gathered.large.len() + gathered.small.len();
            assert!(packs <= 48, "{packs}");
            let changes: usize = gathered.last.iter().map(|value| value.to_string().len()).sum();
            assert!(changes < SMALL_BYTES, "{changes}");
        }
    }
}
