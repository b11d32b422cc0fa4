//! An installation for some namespaces: with rights in these, and without what is the whole cluster's.

use serde_json::{Value, json};

/// Whether the values ask for one.
pub(super) fn is_asked(values: &Value) -> bool {
    !namespaces(values).is_empty()
}

/// Which ones they ask for.
pub(super) fn namespaces(values: &Value) -> Vec<String> {
    let list = values["namespaces"].as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Neither definitions nor namespaces are made, unless the values say so.
pub(super) fn leave_to_administrators(values: &mut Value) {
    for (part, field) in [("crds", "enabled"), ("namespace", "create")] {
        if !values[part][field].is_boolean() {
            values[part][field] = json!(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_clusters_is_left_alone_unless_it_is_asked_for() {
        let mut values = json!({"namespaces": ["a", "b"], "namespace": {"create": true}});
        assert!(is_asked(&values) && !is_asked(&json!({})) && !is_asked(&json!({"namespaces": []})));
        leave_to_administrators(&mut values);
        assert_eq!(
            (&values["crds"]["enabled"], &values["namespace"]["create"]),
            (&json!(false), &json!(true))
        );
    }
}
