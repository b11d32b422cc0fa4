//! Which of two versions clients should prefer.

use std::cmp::Ordering;

/// Orders version names as Kubernetes does, the preferred one greatest: stable, then beta, then alpha, each by
/// number; names of another shape come last, in alphabetical order.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

/// Stability, major and minor number.
fn parse(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(digits);
    let major = number(major)?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        (Some(minor), _) => Some((1, major, number(minor)?)),
        (_, Some(minor)) => Some((0, major, number(minor)?)),
        _ => None,
    }
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefers_stable_versions_then_higher_numbers() {
        let mut versions =
            ["foo1", "v1alpha1", "v10", "v3beta1", "v11beta2", "v2", "v12alpha1", "v11alpha2", "foo10", "v1"];
        versions.sort_by(|a, b| compare(b, a));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v11alpha2", "v1alpha1", "foo1", "foo10"]
        );
    }

    #[test]
    fn a_sign_is_no_part_of_a_version() {
        assert_eq!(parse("v+1"), None);
        assert_eq!(parse("v1beta"), None);
    }
}
