//! The names of a CRD: their form, and who else uses them.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::error::FieldError;
use crate::schema::{is_label, is_subdomain};

const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                     alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
                     regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                         '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex \
                         used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Checks `spec.group` and `spec.names`.
pub(super) fn check(spec: &Value, errors: &mut Vec<FieldError>) {
    let group = spec["group"].as_str().unwrap_or_default();
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !is_subdomain(group) {
        errors.push(FieldError::invalid("spec.group", &spec["group"], SUBDOMAIN));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid("spec.group", &spec["group"], detail));
    }
    let names = &spec["names"];
    for field in ["plural", "singular", "kind", "listKind"] {
        let path = format!("spec.names.{field}");
        let Some(name) = names[field].as_str().filter(|n| !n.is_empty()) else {
            errors.push(FieldError::required(path, ""));
            continue;
        };
        if matches!(field, "kind" | "listKind") {
            if !is_name(&name.to_lowercase()) {
                let detail = format!("may have mixed case, but should otherwise match: {LABEL}");
                errors.push(FieldError::invalid(path, &names[field], detail));
            }
        } else {
            label(&path, &names[field], errors);
        }
    }
    for field in ["shortNames", "categories"] {
        for (i, name) in names[field].as_array().into_iter().flatten().enumerate() {
            label(&format!("spec.names.{field}[{i}]"), name, errors);
        }
    }
    if names["kind"].is_string() && names["kind"] == names["listKind"] {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid("spec.names.listKind", &names["listKind"], detail));
    }
}

/// Reports a value that is no DNS label starting with a letter.
pub(super) fn label(path: &str, value: &Value, errors: &mut Vec<FieldError>) {
    if !value.as_str().is_some_and(is_name) {
        errors.push(FieldError::invalid(path, value, LABEL));
    }
}

fn is_name(text: &str) -> bool {
    is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Which name of `crd` another CRD of the same group holds already, in the words of the `NamesAccepted` condition.
pub(crate) fn name_conflict<'a>(crd: &Value, others: impl IntoIterator<Item = &'a Value>) -> Option<String> {
    let mut resources = HashSet::new();
    let mut kinds = HashSet::new();
    for other in others {
        let same = other["metadata"]["name"] == crd["metadata"]["name"];
        if same || other["spec"]["group"] != crd["spec"]["group"] {
            continue;
        }
        let names = &other["status"]["acceptedNames"];
        let short = names["shortNames"].as_array().into_iter().flatten();
        resources.extend(
            [&names["plural"], &names["singular"]].into_iter().chain(short).filter_map(Value::as_str),
        );
        kinds.extend([&names["kind"], &names["listKind"]].into_iter().filter_map(Value::as_str));
    }
    let names = &crd["spec"]["names"];
    let taken = |value: &Value, used: &HashSet<&str>| value.as_str().is_some_and(|n| used.contains(n));
    let short = names["shortNames"].as_array().into_iter().flatten();
    let conflict =
        [&names["listKind"], &names["kind"]].into_iter().find(|name| taken(name, &kinds)).or_else(|| {
            short.chain([&names["singular"], &names["plural"]]).find(|name| taken(name, &resources))
        })?;
    Some(format!("{conflict} is already in use"))
}

/// Which of the names a conflict's text speaks of, as the condition's reason.
pub(super) fn conflict_reason(crd: &Value, message: &str) -> &'static str {
    let names = &crd["spec"]["names"];
    let named = |value: &Value| value.is_string() && message.contains(&value.to_string());
    let short = names["shortNames"].as_array().unwrap_or(&Vec::new()).iter().any(named);
    if named(&names["listKind"]) {
        "ListKindConflict"
    } else if named(&names["kind"]) {
        "KindConflict"
    } else if short {
        "ShortNamesConflict"
    } else if named(&names["singular"]) {
        "SingularConflict"
    } else {
        "PluralConflict"
    }
}

/// `metadata.name` follows from the names; groups of the Kubernetes project need its approval.
pub(super) fn check_object_name(crd: &Value, errors: &mut Vec<FieldError>) {
    let spec = &crd["spec"];
    let (plural, group) =
        (spec["names"]["plural"].as_str().unwrap_or_default(), spec["group"].as_str().unwrap_or_default());
    if crd["metadata"]["name"] != json!(format!("{plural}.{group}")) {
        let detail = r#"must be spec.names.plural+"."+spec.group"#;
        errors.push(FieldError::invalid("metadata.name", &crd["metadata"]["name"], detail));
    }
    let protected = [".k8s.io", ".kubernetes.io"].iter().any(|suffix| group.ends_with(suffix))
        || matches!(group, "k8s.io" | "kubernetes.io");
    let approved = crd["metadata"]["annotations"]["api-approved.kubernetes.io"].as_str().unwrap_or_default();
    if protected && approved.is_empty() {
        let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
                      https://github.com/kubernetes/enhancements/pull/1111";
        errors.push(FieldError::required("metadata.annotations[api-approved.kubernetes.io]", detail));
    }
}
