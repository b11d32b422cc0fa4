//! Durations as people write them: `250ms`, `5s`, `1h30m`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];

/// Reads a duration, or says what to write instead.
///
/// # Errors
/// What is wrong and what to write, when it is none.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration: write a number and a unit, like 250ms, 5s, 1h30m");
    let mut rest = text.trim();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let after = &rest[digits..];
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (_, scale) = UNITS.iter().find(|(unit, _)| *unit == &after[..end]).ok_or_else(wrong)?;
        total = number.checked_mul(*scale).and_then(|ms| total.checked_add(ms)).ok_or_else(wrong)?;
        rest = &after[end..];
    }
    Ok(Duration::from_millis(total))
}

/// Writes a duration in the largest units that keep it exact to the millisecond.
pub fn format(duration: Duration) -> String {
    let mut left = duration.as_millis() as u64;
    if left == 0 {
        return "0s".to_owned();
    }
    let mut parts = Vec::new();
    for (unit, scale) in UNITS.iter().rev() {
        if left >= *scale {
            parts.push(format!("{}{unit}", left / scale));
            left %= scale;
        }
    }
    parts.concat()
}

/// For `#[serde(with)]`.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*duration))
}

/// For `#[serde(with)]`.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(serde::de::Error::custom)
}

/// A duration that is longer than nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(Duration);

impl Period {
    /// `None` for no time at all.
    pub const fn new(duration: Duration) -> Option<Self> {
        if duration.is_zero() { None } else { Some(Self(duration)) }
    }

    /// So many seconds.
    ///
    /// # Panics
    /// For 0; meant for constants, where that does not compile.
    #[expect(clippy::panic, reason = "in a constant it is an error of compilation")]
    pub const fn from_secs(seconds: u64) -> Self {
        match Self::new(Duration::from_secs(seconds)) {
            Some(period) => period,
            None => panic!("a period is longer than 0s"),
        }
    }

    /// The duration.
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format(self.0))
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let duration = deserialize(deserializer)?;
        Self::new(duration).ok_or_else(|| serde::de::Error::custom("must be longer than 0s"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_the_same_duration() {
        for (text, millis) in [("250ms", 250), ("5s", 5000), ("1h30m", 5_400_000), ("1m1s5ms", 61_005)] {
            assert_eq!(parse(text).unwrap(), Duration::from_millis(millis), "{text}");
            assert_eq!(format(Duration::from_millis(millis)), text);
        }
        assert_eq!(parse("0s").unwrap(), Duration::ZERO);
        assert_eq!(format(Duration::ZERO), "0s");
    }

    #[test]
    fn says_what_to_write_instead() {
        for text in ["", "5", "s", "5 s", "-5s", "5d", "99999999999999999999s", "18446744073709551615h"] {
            let message = parse(text).unwrap_err();
            assert!(message.contains("like 250ms"), "{text}: {message}");
        }
    }
}
