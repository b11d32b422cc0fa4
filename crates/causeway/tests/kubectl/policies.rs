//! Admission policies as somebody meets them who writes them, and somebody whom they refuse.

use crate::objects::config_map;
use crate::peer::shared;
use crate::tenants::Tenant;

/// A policy about ConfigMaps of one namespace, and what it does.
fn policy(namespace: &str, action: &str, validation: &str) -> String {
    format!(
        r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {namespace}}}
spec:
  matchConstraints:
    namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}
    resourceRules:
    - {{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}}
  validations:
  - {validation}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {namespace}}}
spec: {{policyName: {namespace}, validationActions: [{action}]}}
"#
    )
}

#[test]
fn a_policy_refuses_and_says_so_in_its_own_words() {
    let kubectl = shared().namespace("policies-deny");
    let few = r#"{expression: "object.data.size() < 2", messageExpression: "'has ' + string(object.data.size()) + ' keys'"}"#;
    kubectl.apply(&policy("policies-deny", "Deny", few)).ok();
    kubectl.apply(&config_map("few", "a: b")).ok();
    let refused = kubectl.apply(&config_map("many", "a: b, c: d"));
    assert_eq!(refused.code, Some(1), "{refused}");
    let words =
        "ValidatingAdmissionPolicy 'policies-deny' with binding 'policies-deny' denied request: has 2 keys";
    assert!(refused.stderr.contains(words), "{refused}");
    let patched =
        kubectl.fails(&["patch", "configmap", "few", "--type=merge", "-p", r#"{"data":{"c":"d"}}"#]);
    assert!(patched.contains(words), "{patched}");

    let table = kubectl.ok(&["get", "validatingadmissionpolicy", "policies-deny"]);
    let line: Vec<&str> = table.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(line[..3], ["policies-deny", "1", "<unset>"], "{table}");
    let explained = kubectl.ok(&["explain", "validatingadmissionpolicy.spec.validations"]);
    assert!(explained.contains("messageExpression\t<string>"), "{explained}");

    kubectl.ok(&["delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", "policies-deny"]);
    kubectl.apply(&config_map("many", "a: b, c: d")).ok();
}

#[test]
fn a_policy_warns() {
    let kubectl = shared().namespace("policies-warn");
    let few = r#"{expression: "object.data.size() < 2", message: "keep it small"}"#;
    kubectl.apply(&policy("policies-warn", "Warn", few)).ok();
    let warned = kubectl.apply(&config_map("many", "a: b, c: d"));
    assert_eq!(warned.code, Some(0), "{warned}");
    let words = "Warning: Validation failed for ValidatingAdmissionPolicy 'policies-warn' with binding 'policies-warn': keep it small";
    assert!(warned.stderr.contains(words), "{warned}");
}

#[test]
fn a_policy_that_does_not_compile_is_refused_with_the_place() {
    let kubectl = shared().namespace("policies-bad");
    let refused = kubectl.apply(&policy("policies-bad", "Deny", r#"{expression: "object.x == nobody"}"#));
    assert_eq!(refused.code, Some(1), "{refused}");
    for words in ["spec.validations[0].expression", "<input>:1:13: undeclared reference to 'nobody'"] {
        assert!(refused.stderr.contains(words), "lacks {words:?}: {refused}");
    }
}

#[test]
fn who_edits_a_namespace_writes_no_policies() {
    let tenant = Tenant::new("policies-tenant");
    for verb in ["create", "patch", "delete"] {
        for kind in ["validatingadmissionpolicies", "validatingadmissionpolicybindings"] {
            let may = tenant.kubectl.run(&["auth", "can-i", verb, kind]);
            assert!(may.stdout.starts_with("no"), "{verb} {kind}: {may}");
        }
    }
}
