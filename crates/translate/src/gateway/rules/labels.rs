//! What rules are called in plans, and so in logs and metrics. What is counted and kept of a rule goes by that: a rule with a
//! name has it wherever among the others it stands, and only one without goes by its number.

use std::collections::HashSet;

/// The labels that rules of one route have.
#[derive(Default)]
pub(super) struct Labels<'a>(HashSet<&'a str>);

impl<'a> Labels<'a> {
    /// The label of the next rule. Names are unique in a route where the definitions are upstream's; of two that are the same
    /// the second, and a name that could be a number, have the number before it.
    pub(super) fn of(&mut self, number: usize, name: Option<&'a str>) -> String {
        match name {
            Some(name) if self.0.insert(name) && !is_number(name) => name.to_owned(),
            Some(name) => format!("{number} {name}"),
            None => number.to_string(),
        }
    }
}

/// The name that is in a label, if the rule has one.
pub(in crate::gateway) fn name_in(label: &str) -> Option<&str> {
    match label.split_once(' ') {
        Some((_, name)) => Some(name),
        None => (!is_number(label)).then_some(label),
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_label_wherever_its_rule_stands_and_no_two_rules_have_the_same() {
        let mut labels = Labels::default();
        let written = [None, Some("ws"), Some("0"), Some("ws"), Some("a.b"), None];
        let made: Vec<String> = written.iter().enumerate().map(|(at, name)| labels.of(at, *name)).collect();
        assert_eq!(made, ["0", "ws", "2 0", "3 ws", "a.b", "5"]);
        let names: Vec<Option<&str>> = made.iter().map(|label| name_in(label)).collect();
        assert_eq!(names, written);
    }
}
