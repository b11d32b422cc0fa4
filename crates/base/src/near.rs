//! Names that somebody may have meant: those that differ by a slip of the pen from what was written.

/// At most this many are worth reading.
const MOST: usize = 3;

/// The known names that are nearest to a wanted one, the nearest first; none if all are far.
pub fn near<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let far = (wanted.chars().count() / 3).clamp(1, 4);
    let lower = wanted.to_lowercase();
    let mut found: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|name| {
            let other = name.to_lowercase();
            let is_part = lower.len() > 2 && (other.contains(&lower) || lower.contains(&other));
            let distance = distance(&lower, &other);
            (is_part || distance <= far).then_some((distance, name))
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// What to say of them after a sentence: `; did you mean web or web-2?`, or nothing.
pub fn did_you_mean<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let near = near(wanted, known);
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}

/// How many letters have to be changed, added, removed or swapped with the next.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    let mut last = None;
    for (i, letter) in one.chars().enumerate() {
        let mut next = vec![i + 1];
        for (j, &against) in other.iter().enumerate() {
            let change = row[j] + usize::from(letter != against);
            let mut least = change.min(row[j + 1] + 1).min(next[j] + 1);
            let is_swap = j > 0 && last == Some(against) && other[j - 1] == letter;
            if is_swap && let Some(&swapped) = before.get(j - 1) {
                least = least.min(swapped + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
        last = Some(letter);
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_are_found_and_other_names_are_not() {
        let known = ["web", "web-frontend", "worker", "database"];
        for (wanted, expected) in [
            ("wbe", vec!["web"]),
            ("Web", vec!["web", "web-frontend"]),
            ("webb", vec!["web"]),
            ("web", vec!["web", "web-frontend"]),
            ("frontend", vec!["web-frontend"]),
            ("wroker", vec!["worker"]),
            ("databse", vec!["database"]),
            ("payments", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(near(wanted, known), expected, "{wanted}");
        }
        assert_eq!(did_you_mean("wbe", known), "; did you mean web?");
        assert_eq!(did_you_mean("payments", known), "");
    }

    #[test]
    fn distances() {
        for (one, other, expected) in
            [("", "", 0), ("", "ab", 2), ("ab", "ba", 1), ("kitten", "sitting", 3), ("abc", "abc", 0)]
        {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
