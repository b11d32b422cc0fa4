//! What an object's conditions say, after the checks that look for causes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::finding::{Finding, listed};

/// Each condition on its own; if a cause was found already, those that are not true are one line that blames nobody.
pub(super) fn conditions(
    conditions: &[Condition],
    observed: Option<i64>,
    generation: Option<i64>,
    before: &[Finding],
) -> Vec<Finding> {
    if conditions.is_empty() {
        return vec![Finding::skipped("there are no conditions: no operator has looked at it yet")];
    }
    let mut found = Vec::new();
    if observed < generation {
        found.push(Finding::bad(
            "the operator has not seen the newest spec",
            "see whether it runs, and what it logs: `kubectl -n causeway-system logs deployment/causeway-operator`, or \
             the output of `causeway up`",
        ));
    }
    let said = |condition: &Condition| {
        format!("condition {} is {} ({})", condition.type_, condition.status, condition.reason)
    };
    let (well, ill): (Vec<_>, Vec<_>) = conditions.iter().partition(|condition| condition.status == "True");
    found.extend(well.into_iter().map(|condition| Finding::good(said(condition))));
    if before.iter().any(Finding::is_bad) && !ill.is_empty() {
        let each: Vec<_> = ill.iter().map(|condition| said(condition)).collect();
        found.push(Finding::skipped(format!("{}: see above for the cause", listed(&each))));
    } else {
        found.extend(ill.iter().map(|condition| Finding::bad(said(condition), condition.message.clone())));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn condition(kind: &str, status: &str) -> Condition {
        serde_json::from_value(json!({
            "type": kind, "status": status, "reason": "Reason", "message": "why",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }))
        .unwrap()
    }

    #[test]
    fn what_follows_from_a_cause_is_not_blamed_again() {
        let all = [condition("Ready", "False"), condition("Attached", "True"), condition("Valid", "Unknown")];
        let alone = conditions(&all, Some(2), Some(2), &[]);
        assert_eq!(alone.iter().filter(|finding| finding.is_bad()).count(), 2, "{alone:?}");
        let after = conditions(&all, Some(2), Some(2), &[Finding::bad("a", "b")]);
        assert_eq!(after.iter().filter(|finding| finding.is_bad()).count(), 0, "{after:?}");
        assert_eq!(after.len(), 2, "{after:?}");
        let behind = conditions(&all[1..2], Some(1), Some(2), &[]);
        assert!(behind[0].is_bad(), "{behind:?}");
    }
}
