//! What differs between two lists of named things, and between two plans. Equal things cost a comparison and nothing
//! else, wherever they stand; only what differs is looked up by name.

mod http;
mod plan;

use std::collections::{HashMap, VecDeque};

pub use http::route_changes;
pub use plan::{Changes, PlanDiff, diff};

/// A thing with a name that is unique in its list.
pub trait Keyed: PartialEq {
    /// The name.
    fn key(&self) -> &str;
}

/// One thing that differs: without `old` it was added, without `new` removed, with both changed.
#[derive(Debug, PartialEq)]
pub struct Change<'a, T> {
    /// As it was.
    pub old: Option<&'a T>,
    /// As it is.
    pub new: Option<&'a T>,
}

impl<T> Clone for Change<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Change<'_, T> {}

/// How far to look for the place where two lists go on alike.
const LOOK_AHEAD: usize = 16;

/// What differs between two lists, by name; the order of a list does not matter.
pub fn changes<'a, T: Keyed>(old: &'a [T], new: &'a [T]) -> Vec<Change<'a, T>> {
    let (gone, came) = unlike(old, new);
    let mut by_key: HashMap<&str, VecDeque<&'a T>> = HashMap::with_capacity(came.len());
    for item in came {
        by_key.entry(item.key()).or_default().push_back(item);
    }
    let mut found = Vec::new();
    for item in gone {
        let same = by_key.get_mut(item.key()).and_then(VecDeque::pop_front);
        if same != Some(item) {
            found.push(Change { old: Some(item), new: same });
        }
    }
    // In the order of the list, so that whoever makes things makes them in that order.
    let mut added: Vec<&'a T> = by_key.into_values().flatten().collect();
    added.sort_by_key(|item| std::ptr::from_ref(*item));
    found.extend(added.into_iter().map(|item| Change { old: None, new: Some(item) }));
    found
}

/// What stands in one list and not, at the same place of the walk, in the other.
fn unlike<'a, T: Keyed>(mut old: &'a [T], mut new: &'a [T]) -> (Vec<&'a T>, Vec<&'a T>) {
    let (mut gone, mut came) = (Vec::new(), Vec::new());
    while let ([a, old_rest @ ..], [b, new_rest @ ..]) = (old, new) {
        if a.key() == b.key() {
            if a != b {
                gone.push(a);
                came.push(b);
            }
            (old, new) = (old_rest, new_rest);
            continue;
        }
        // Something was put in or taken out here, most likely a few things: where do they meet again?
        let inserted = new.iter().take(LOOK_AHEAD).position(|item| item.key() == a.key());
        let removed = old.iter().take(LOOK_AHEAD).position(|item| item.key() == b.key());
        match (inserted, removed) {
            (Some(count), other) if other.is_none_or(|other| count <= other) => {
                came.extend(&new[..count]);
                new = &new[count..];
            }
            (_, Some(count)) => {
                gone.extend(&old[..count]);
                old = &old[count..];
            }
            _ => {
                gone.push(a);
                came.push(b);
                (old, new) = (old_rest, new_rest);
            }
        }
    }
    gone.extend(old);
    came.extend(new);
    (gone, came)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Item(String, u32);

    impl Keyed for Item {
        fn key(&self) -> &str {
            &self.0
        }
    }

    /// Letters are names; a capital one has another content.
    fn list(text: &str) -> Vec<Item> {
        text.chars().map(|c| Item(c.to_lowercase().collect(), u32::from(c.is_uppercase()))).collect()
    }

    /// `-a` removed, `+a` added, `~a` changed; sorted.
    fn found(old: &str, new: &str) -> String {
        let (old, new) = (list(old), list(new));
        let mut found: Vec<_> = changes(&old, &new)
            .into_iter()
            .map(|change| match (change.old, change.new) {
                (Some(old), Some(new)) => {
                    assert_eq!(old.0, new.0);
                    assert_ne!(old, new);
                    format!("~{}", old.0)
                }
                (Some(old), None) => format!("-{}", old.0),
                (None, Some(new)) => format!("+{}", new.0),
                (None, None) => unreachable!("a change has a side"),
            })
            .collect();
        found.sort();
        found.join("")
    }

    #[test]
    fn names_what_differs_wherever_it_stands() {
        for (old, new, expected) in [
            ("abc", "abc", ""),
            ("abc", "aBc", "~b"),
            ("abcdefgh", "aBcdefGh", "~b~g"),
            ("abc", "axbc", "+x"),
            ("abc", "ac", "-b"),
            ("abc", "cab", ""),
            ("abc", "cAb", "~a"),
            ("", "ab", "+a+b"),
            ("ab", "", "-a-b"),
            ("abcd", "xbcy", "+x+y-a-d"),
            ("abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlkjihgfedcba", ""),
        ] {
            assert_eq!(found(old, new), expected, "{old} {new}");
        }
    }

    #[test]
    fn additions_come_in_the_order_of_the_list() {
        let (old, new) = (list("m"), list("zmayb"));
        let added: Vec<_> =
            changes(&old, &new).iter().filter_map(|change| change.new).map(|item| &*item.0).collect();
        assert_eq!(added, ["z", "a", "y", "b"]);
    }

    proptest::proptest! {
        #[test]
        fn is_what_a_comparison_by_name_finds(old in "[a-jA-J]{0,12}", new in "[a-jA-J]{0,12}") {
            let unique = |text: &str| {
                let mut seen = std::collections::HashSet::new();
                text.chars().filter(|c| seen.insert(c.to_ascii_lowercase())).collect::<String>()
            };
            let (old, new) = (unique(&old), unique(&new));
            let by_name = |text: &str| list(text).into_iter().map(|item| (item.0, item.1)).collect::<std::collections::BTreeMap<_, _>>();
            let (before, after) = (by_name(&old), by_name(&new));
            let mut expected: Vec<String> = Vec::new();
            for (name, content) in &before {
                match after.get(name) {
                    None => expected.push(format!("-{name}")),
                    Some(other) if other != content => expected.push(format!("~{name}")),
                    Some(_) => {}
                }
            }
            expected.extend(after.keys().filter(|name| !before.contains_key(*name)).map(|name| format!("+{name}")));
            expected.sort();
            proptest::prop_assert_eq!(found(&old, &new), expected.join(""));
        }
    }
}
