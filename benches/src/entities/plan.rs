//! What is measured: cases, and which keys the messages of a case go to.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::compare::trial::{skewed, Random};
use crate::error::BenchError;

/// Messages of a run of `tell_…`, and look-ups of a run of `lookup`.
const MESSAGES: usize = 1_000_000;
/// Questions of a run of `ask_…`.
const QUESTIONS: usize = 400_000;
/// How often each key is activated in a run of `churn`.
pub(super) const ROUNDS: u32 = 5;

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Case {
    TellGet,
    TellRef,
    AskGet,
    AskRef,
    TellGetZipf,
    TellRefZipf,
    AskGetZipf,
    AskRefZipf,
    Activate,
    ActivateText,
    Churn,
    Lookup,
    LookupZipf,
    Idle,
    IdleText,
    Hot,
    HotPair,
}

impl Case {
    pub(crate) const ALL: [(Self, &'static str); 17] = [
        (Self::TellGet, "tell_get"),
        (Self::TellRef, "tell_ref"),
        (Self::AskGet, "ask_get"),
        (Self::AskRef, "ask_ref"),
        (Self::TellGetZipf, "tell_get_zipf"),
        (Self::TellRefZipf, "tell_ref_zipf"),
        (Self::AskGetZipf, "ask_get_zipf"),
        (Self::AskRefZipf, "ask_ref_zipf"),
        (Self::Activate, "activate"),
        (Self::ActivateText, "activate_text"),
        (Self::Churn, "churn"),
        (Self::Lookup, "lookup"),
        (Self::LookupZipf, "lookup_zipf"),
        (Self::Idle, "idle"),
        (Self::IdleText, "idle_text"),
        (Self::Hot, "hot"),
        (Self::HotPair, "hot_pair"),
    ];

    /// The cases asked for, all if none is named.
    pub(crate) fn select(names: &[String]) -> Result<Vec<Self>, BenchError> {
        let known = || Self::ALL.map(|(_, name)| name).join(", ");
        if let Some(name) = names.iter().find(|name| !Self::ALL.iter().any(|one| one.1 == *name)) {
            let (name, known) = (name.clone(), known());
            return Err(BenchError::UnknownName { what: "case", name, known });
        }
        let is_wanted = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
        let chosen = Self::ALL.iter().filter(|(_, name)| is_wanted(name));
        Ok(chosen.map(|(case, _)| *case).collect())
    }

    /// Whether it has one entity, whatever the number of keys.
    pub(crate) fn is_lone(self) -> bool {
        matches!(self, Self::Hot | Self::HotPair)
    }

    /// Whether it takes bytes, not time.
    pub(crate) fn is_weight(self) -> bool {
        matches!(self, Self::Idle | Self::IdleText)
    }

    /// The keys of a run, in the order of its messages.
    pub(crate) fn targets(self, keys: u32) -> Vec<u32> {
        let in_order = 0..keys;
        match self {
            Self::TellGet | Self::TellRef | Self::Lookup => even(keys, MESSAGES),
            Self::TellGetZipf | Self::TellRefZipf | Self::LookupZipf => skewed(keys, MESSAGES),
            Self::AskGet | Self::AskRef => even(keys, QUESTIONS),
            Self::AskGetZipf | Self::AskRefZipf => skewed(keys, QUESTIONS),
            Self::Churn => (0..ROUNDS).flat_map(|_| in_order.clone()).collect(),
            Self::Activate | Self::ActivateText | Self::Idle | Self::IdleText => in_order.collect(),
            Self::Hot | Self::HotPair => vec![0; MESSAGES],
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(one, _)| one == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

fn even(keys: u32, count: usize) -> Vec<u32> {
    let mut random = Random::new(u64::from(keys));
    (0..count).map(|_| random.below(u64::from(keys)) as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_zipf_the_most_popular_of_a_thousand_keys_gets_about_an_eighth() {
        let mut counts = vec![0_u32; 1_000];
        for key in skewed(1_000, 100_000) {
            counts[key as usize] += 1;
        }
        counts.sort_unstable();
        let most = counts[999];
        assert!((11_000..15_000).contains(&most), "{most}");
        assert!(counts[998] * 10 > most * 4 && counts[998] * 10 < most * 6);
    }
}
