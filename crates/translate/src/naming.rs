//! Names that are made of the names of objects: those of the parts of a plan, and those of other objects. An object may have a
//! name of 253 letters with dots in it, a Service may not, and neither may a Pod of a ReplicaSet of a Deployment be longer than a
//! host name.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use causeway_ir::Name;

/// What is kept of a text that is too long for a name.
const LONGEST_FRONT: usize = 230;

/// The text as a name of a plan, and so in logs and metrics: cut with a digest if it is too long, and without what a name
/// can't have.
pub(crate) fn name(text: &str) -> Name {
    if let Ok(name) = Name::parse(text) {
        return name;
    }
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let mut front = String::new();
    for char in text.chars().filter(|char| !char.is_control()) {
        if front.len() + char.len_utf8() > LONGEST_FRONT {
            break;
        }
        front.push(char);
    }
    let front = front.trim_start_matches('(');
    Name::parse(&format!("{front}~{:016x}", hasher.finish()))
        .expect("neither empty nor too long, and without parenthesis and control characters at the front")
}

/// A ReplicaSet and a Pod add 16 letters, which must not make more than 63.
const LONGEST: usize = 47;
/// Digits that tell names apart that had to be changed.
const DIGITS: usize = 10;

/// The name of what is made for an object of this name: with a suffix, so that both may be of one kind, and such that no two
/// objects have the same.
pub fn child(of: &str, suffix: &str) -> String {
    let is_letter = |c: char| c.is_ascii_lowercase();
    let fits = of.len() + suffix.len() <= LONGEST
        && of.chars().all(|c| is_letter(c) || c.is_ascii_digit() || c == '-')
        && of.starts_with(is_letter)
        && !looks_changed(of);
    if fits {
        return format!("{of}{suffix}");
    }
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    let digits: String = format!("{:016x}", hasher.finish()).chars().take(DIGITS).collect();
    let kept = of.chars().map(|c| if c == '.' { '-' } else { c });
    let kept: String = std::iter::once('g').chain(kept).take(LONGEST - suffix.len() - DIGITS - 1).collect();
    format!("{}-{digits}{suffix}", kept.trim_end_matches('-'))
}

/// Whether a name could be one that was made here from another.
fn looks_changed(of: &str) -> bool {
    let Some((front, digits)) = of.rsplit_once('-') else { return false };
    front.starts_with('g') && digits.len() == DIGITS && digits.chars().all(|c| c.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_child_fits_a_service_and_no_two_objects_share_one() {
        let long = format!("{}.{}", "a".repeat(63), "b".repeat(189));
        let longer = format!("{}.{}", "a".repeat(63), "c".repeat(189));
        let taken = child("web.shop", "-causeway").trim_end_matches("-causeway").to_owned();
        let names =
            ["web", "web.shop", "web-shop", "1web", &long, &longer, &taken].map(|of| child(of, "-causeway"));
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
    fn whatever_is_written_has_a_name_of_its_own() {
        assert_eq!(name("lab/api"), "lab/api");
        let long = "ä".repeat(300);
        let odd = ["", "(", "((x)", "a\nb", "\u{0}", &long, &format!("{long}b")];
        let names: std::collections::BTreeSet<_> = odd.iter().map(|text| name(text)).collect();
        assert_eq!(names.len(), odd.len(), "{names:?}");
    }
}
