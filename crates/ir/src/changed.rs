//! The part of a list that differs from another: what is left without their common beginning and end. Lists that
//! differ in one item cost comparisons and nothing else.

/// What of `old` is not at the beginning or end of `new`, and the other way round.
pub fn changed<'a, T: PartialEq>(old: &'a [T], new: &'a [T]) -> (&'a [T], &'a [T]) {
    let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[same..], &new[same..]);
    let same = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    (&old[..old.len() - same], &new[..new.len() - same])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_out_what_lists_have_in_common_at_either_end() {
        for (old, new, gone, came) in [
            ("abc", "abc", "", ""),
            ("abc", "abxc", "", "x"),
            ("abxc", "abc", "x", ""),
            ("abc", "axc", "b", "x"),
            ("", "abc", "", "abc"),
            ("aaa", "aa", "a", ""),
            ("abcd", "bcda", "abcd", "bcda"),
        ] {
            let found = changed(old.as_bytes(), new.as_bytes());
            assert_eq!(found, (gone.as_bytes(), came.as_bytes()), "{old} {new}");
        }
    }
}
