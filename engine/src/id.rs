//! Ids of plans, actions and steps.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A plan: a UUID, version 7 if the world made it, so that later plans have greater ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PlanId(Uuid);

impl PlanId {
    /// The plan with this UUID.
    pub const fn new(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// As a UUID.
    pub const fn uuid(self) -> Uuid {
        self.0
    }

    /// From the 16 bytes of [`PlanId::to_bytes`].
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Big-endian, so that bytes sort as ids do.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }
}

impl fmt::Display for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The text is not the id of a plan.
#[derive(Clone, Debug, thiserror::Error)]
#[error("«{text}» is not the id of a plan: it must be a UUID such as 0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f")]
pub struct PlanIdError {
    text: String,
}

impl FromStr for PlanId {
    type Err = PlanIdError;

    fn from_str(text: &str) -> Result<Self, PlanIdError> {
        let uuid = Uuid::parse_str(text).map_err(|_| PlanIdError { text: text.to_owned() })?;
        Ok(Self(uuid))
    }
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// Its place in a list of all of its plan.
            pub(crate) const fn index(self) -> usize {
                self.0 as usize - 1
            }

            /// The id at this index.
            pub(crate) const fn at(index: usize) -> Self {
                Self(index as u32 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )*};
}

numbers!(
    /// A step of a plan: counted from 1 inside the plan, in the order of planning.
    StepId,
    /// An action of a plan: counted from 1 inside the plan; 1 is the root action.
    ActionId
);
