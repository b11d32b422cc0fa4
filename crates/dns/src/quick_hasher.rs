//! A hash of names that costs next to nothing, with a secret: clients choose names that are kept, those that they ask for and
//! those that a DHCP server knows them by, and must not be able to choose ones that clash.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The secret.
#[derive(Clone)]
pub(crate) struct QuickState(u64);

impl Default for QuickState {
    fn default() -> Self {
        Self(RandomState::new().hash_one(()))
    }
}

impl BuildHasher for QuickState {
    type Hasher = QuickHasher;

    fn build_hasher(&self) -> QuickHasher {
        QuickHasher(self.0)
    }
}

pub(crate) struct QuickHasher(u64);

impl QuickHasher {
    /// Every bit of the word reaches every bit of the sum, by way of both halves of the product.
    fn mix(&mut self, word: u64) {
        const FACTOR: u128 = 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(self.0 ^ word) * FACTOR;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for QuickHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.mix(word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)));
        }
        let mut last = [0; 8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        self.mix(u64::from_le_bytes(last));
    }

    /// The length of what follows.
    fn write_usize(&mut self, number: usize) {
        self.0 = self.0.wrapping_add(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_spread_and_another_secret_spreads_them_otherwise() {
        let [one, other] = [QuickState(1), QuickState(2)];
        let names: Vec<String> = (0..4096).map(|i| format!("\x04vm{i:02}\x03lab\x04test\x00")).collect();
        let low =
            |state: &QuickState| names.iter().map(|name| state.hash_one(name.as_bytes()) & 0xfff).collect();
        let (one, other): (Vec<u64>, Vec<u64>) = (low(&one), low(&other));
        let used = one.iter().collect::<HashSet<_>>().len();
        // Of as many balls in as many boxes two thirds of the boxes get one.
        assert!((2300..2900).contains(&used), "{used}");
        assert!(one.iter().zip(&other).filter(|(one, other)| one == other).count() < 50);
    }
}
