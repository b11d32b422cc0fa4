//! Amounts of memory as people write them: `16Mi`, `512Ki`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const UNITS: [(&str, u32); 3] = [("Ki", 10), ("Mi", 20), ("Gi", 30)];

/// So many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(u64);

impl Size {
    /// So many mebibytes.
    pub const fn from_mebibytes(count: u32) -> Self {
        Self((count as u64) << 20)
    }

    /// The bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Reads an amount.
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let shift = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, shift)| *shift);
        let shift = if unit.is_empty() { Some(0) } else { shift };
        let bytes = shift.and_then(|shift| number.parse::<u64>().ok()?.checked_mul(1 << shift));
        bytes.map(Self).ok_or_else(|| {
            format!("`{text}` is not an amount of memory: write a number and a unit, like 512Ki or 16Mi")
        })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |(_, shift): &&(&str, u32)| self.0 != 0 && self.0.is_multiple_of(1 << shift);
        match UNITS.iter().rev().find(whole) {
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_the_same_amount() {
        for (text, bytes) in
            [("16Mi", 16 << 20), ("512Ki", 512 << 10), ("3Gi", 3 << 30), ("1000", 1000), ("0", 0)]
        {
            let size = Size::parse(text).unwrap();
            assert_eq!((size.bytes(), size.to_string().as_str()), (bytes, text));
        }
        for text in ["", "Mi", "16M", "-1", "1.5Mi", "99999999999999Gi"] {
            assert!(Size::parse(text).unwrap_err().contains("like 512Ki"), "{text}");
        }
    }
}
