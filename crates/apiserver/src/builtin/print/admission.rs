//! Rows of admission policies and their bindings.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, NAME, age, col, name};
use crate::builtin::json::{entries, is_set, items, text, texts};
use crate::resource::ColumnDef;

pub(crate) const POLICY: &[ColumnDef] = &[
    NAME,
    col("Validations", "integer", "How many validations the policy has."),
    col("ParamKind", "string", "The kind of the objects that parametrise the policy."),
    AGE,
];

pub(crate) fn policy(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, kind) = (&object["spec"], &object["spec"]["paramKind"]);
    let kind = if kind.is_object() {
        format!("{}/{}", text(kind, "apiVersion"), text(kind, "kind"))
    } else {
        "<unset>".to_owned()
    };
    vec![name(object), items(spec, "validations").len().into(), kind.into(), age(object, now)]
}

pub(crate) const POLICY_BINDING: &[ColumnDef] = &[
    NAME,
    col("PolicyName", "string", "The policy that is bound."),
    col("ParamRef", "string", "The objects that parametrise it here."),
    AGE,
];

pub(crate) fn policy_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let params = &spec["paramRef"];
    let params = match (text(params, "name"), text(params, "namespace")) {
        ("", _) if is_set(params, "selector") => go_selector(&params["selector"]),
        ("", _) => "<unset>".to_owned(),
        // Whether the params have a namespace at all can't be told from here.
        (param, "") => format!("*/{param}"),
        (param, namespace) => format!("{namespace}/{param}"),
    };
    vec![name(object), text(spec, "policyName").into(), params.into(), age(object, now)]
}

/// A selector in the words of Go's generated `String`.
fn go_selector(selector: &Value) -> String {
    let mut labels: Vec<String> = entries(selector, "matchLabels")
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    labels.sort();
    let expressions: Vec<String> = items(selector, "matchExpressions")
        .iter()
        .map(|rule| {
            let values = texts(rule, "values").join(" ");
            let (key, operator) = (text(rule, "key"), text(rule, "operator"));
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        labels.concat(),
        expressions.concat()
    )
}
