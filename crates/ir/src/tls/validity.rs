//! From when to when a certificate counts.

/// Left of a certificate when it is told, at most.
const SOON: i64 = 14 * 24 * 3600;
/// The part of its life that is left then, if that is less: whoever renews certificates has done so by then.
const PART: i64 = 6;

/// From when to when a certificate counts, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// It counts from here.
    pub begins: i64,
    /// It does not count from here.
    pub expires: i64,
}

/// How a certificate stands at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// It does not count yet.
    Early,
    /// It counts.
    Good,
    /// It counts, and should have been renewed by now.
    Ending,
    /// It does not count any more.
    Expired,
}

impl Validity {
    /// How it stands.
    pub fn at(self, now: i64) -> Age {
        let left = self.expires.saturating_sub(now);
        if left <= 0 {
            Age::Expired
        } else if now < self.begins {
            Age::Early
        } else if left < SOON.min(self.expires.saturating_sub(self.begins) / PART) {
            Age::Ending
        } else {
            Age::Good
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_told_in_time_and_not_all_its_life() {
        const DAY: i64 = 24 * 3600;
        for (left, life, age) in [
            (13, 90, Age::Ending),
            (15, 90, Age::Good),
            (60, 90, Age::Good),
            (20, 365, Age::Good),
            (13, 365, Age::Ending),
            (2, 7, Age::Good),
            (1, 7, Age::Ending),
            (0, 7, Age::Expired),
            (-1, 7, Age::Expired),
            (8, 7, Age::Early),
        ] {
            let validity = Validity { begins: 0, expires: life * DAY };
            assert_eq!(validity.at((life - left) * DAY), age, "{left} of {life} days");
        }
    }
}
