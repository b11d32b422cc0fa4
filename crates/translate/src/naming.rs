//! Names of the parts of a plan, made of the names of objects.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_written_has_a_name_of_its_own() {
        assert_eq!(name("lab/api"), "lab/api");
        let long = "ä".repeat(300);
        let odd = ["", "(", "((x)", "a\nb", "\u{0}", &long, &format!("{long}b")];
        let names: std::collections::BTreeSet<_> = odd.iter().map(|text| name(text)).collect();
        assert_eq!(names.len(), odd.len(), "{names:?}");
    }
}
