//! What the children of a Gateway are called. A Gateway may have a name of 253 letters with dots in it, a Service may not, and
//! neither may a Pod of a ReplicaSet of a Deployment be longer than a host name.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// What all of them end with, so that a Gateway may be called like the Service that it leads to.
const SUFFIX: &str = "-causeway";
/// A ReplicaSet and a Pod add 16 letters, which must not make more than 63.
const LONGEST: usize = 47;
/// Digits that tell names apart that had to be changed.
const DIGITS: usize = 10;
/// A label's value has no more letters.
const LONGEST_LABEL: usize = 63;

/// The name of the children of this Gateway, which no other Gateway's children have.
pub(crate) fn name(gateway: &str) -> String {
    let is_letter = |c: char| c.is_ascii_lowercase();
    let fits = gateway.len() + SUFFIX.len() <= LONGEST
        && gateway.chars().all(|c| is_letter(c) || c.is_ascii_digit() || c == '-')
        && gateway.starts_with(is_letter)
        && !looks_changed(gateway);
    if fits {
        return format!("{gateway}{SUFFIX}");
    }
    let mut hasher = DefaultHasher::new();
    gateway.hash(&mut hasher);
    let digits: String = format!("{:016x}", hasher.finish()).chars().take(DIGITS).collect();
    let kept = gateway.chars().map(|c| if c == '.' { '-' } else { c });
    let kept: String = std::iter::once('g').chain(kept).take(LONGEST - SUFFIX.len() - DIGITS - 1).collect();
    format!("{}-{digits}{SUFFIX}", kept.trim_end_matches('-'))
}

/// Whether a name could be one that was made here from another.
fn looks_changed(gateway: &str) -> bool {
    let Some((front, digits)) = gateway.rsplit_once('-') else { return false };
    front.starts_with('g') && digits.len() == DIGITS && digits.chars().all(|c| c.is_ascii_hexdigit())
}

/// The value of a label with the Gateway's name: that name if it fits, else that of its children.
pub(crate) fn label(gateway: &str) -> String {
    if gateway.len() <= LONGEST_LABEL { gateway.to_owned() } else { name(gateway) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_fits_a_service_and_no_two_gateways_share_one() {
        let long = format!("{}.{}", "a".repeat(63), "b".repeat(189));
        let longer = format!("{}.{}", "a".repeat(63), "c".repeat(189));
        let plain = "web".to_owned();
        let dotted = "web.shop".to_owned();
        let dashed = "web-shop".to_owned();
        let digit = "1web".to_owned();
        let taken = name(&dotted).trim_end_matches(SUFFIX).to_owned();
        let names = [plain, dotted, dashed, digit, long, longer, taken].map(|gateway| name(&gateway));
        for name in &names {
            let is_word = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
            assert!(
                is_word && name.len() <= LONGEST && name.starts_with(|c: char| c.is_ascii_lowercase()),
                "{name}"
            );
        }
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        assert_eq!(names[0], "web-causeway");
    }

    #[test]
    fn a_label_holds_the_name_if_it_can() {
        assert_eq!(label("web.shop"), "web.shop");
        assert!(label(&"a".repeat(200)).len() <= LONGEST_LABEL);
    }
}
