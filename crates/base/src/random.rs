//! Random numbers for jitter and for spreading load: cheap and different in each process, never for secrets.

use std::hash::{BuildHasher as _, RandomState};

/// Any number.
pub fn number() -> u64 {
    // Every new hasher has other keys, seeded by the operating system; that spares a dependency.
    RandomState::new().hash_one(0_u8)
}

/// A number below `limit`; 0 when the limit is 0.
pub fn below(limit: u64) -> u64 {
    number().checked_rem(limit).unwrap_or(0)
}

/// A number from 0 to below 1.
pub fn fraction() -> f64 {
    (number() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_and_keep_to_their_limit() {
        assert_ne!(number(), number());
        assert!((0..1000).all(|_| below(7) < 7) && (0..1000).any(|_| below(7) == 6));
        assert_eq!(below(0), 0);
        let (least, most) =
            (0..1000).map(|_| fraction()).fold((1.0_f64, 0.0_f64), |(a, b), f| (a.min(f), b.max(f)));
        assert!((0.0..0.1).contains(&least) && (0.9..1.0).contains(&most), "{least} to {most}");
    }
}
