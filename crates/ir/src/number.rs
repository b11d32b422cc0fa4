//! Counts that are at least one.

use std::fmt;
use std::num::NonZeroU32;

use serde::{Deserialize, Deserializer, Serialize};

/// At most so many; never 0, which would let nothing in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Limit(NonZeroU32);

impl Limit {
    /// One.
    pub const ONE: Self = Self(NonZeroU32::MIN);

    /// `None` for 0.
    pub const fn new(count: u32) -> Option<Self> {
        match NonZeroU32::new(count) {
            Some(count) => Some(Self(count)),
            None => None,
        }
    }

    /// The count.
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let count = u32::deserialize(deserializer)?;
        Self::new(count)
            .ok_or_else(|| serde::de::Error::custom("0 lets nothing in: leave the field out for no limit"))
    }
}
