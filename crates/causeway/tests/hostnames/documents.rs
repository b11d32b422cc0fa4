//! What docs/hostnames.md offers to policy engines, none of which is at hand here: at least it is what they read.

use std::path::Path;

use serde_json::Value;

#[test]
fn the_examples_for_policy_engines_are_objects_of_theirs() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hostnames.md");
    let page = std::fs::read_to_string(page).unwrap();
    let example = |engine: &str| -> Value {
        let (_, text) = page.split_once(&format!("```yaml\n# {engine}")).expect(engine);
        // What follows on the line is a comment, too.
        let (_, text) = text.split_once('\n').unwrap();
        serde_saphyr::from_str(text.split("```").next().unwrap()).unwrap()
    };
    let kyverno = example("Kyverno");
    assert_eq!(
        (&kyverno["apiVersion"], &kyverno["kind"]),
        (&"kyverno.io/v1".into(), &"ClusterPolicy".into())
    );
    let rule = &kyverno["spec"]["rules"][0];
    let kinds = &rule["match"]["any"][0]["resources"]["kinds"];
    assert_eq!(*kinds, serde_json::json!(["HTTPRoute", "GRPCRoute", "TLSRoute"]));
    for (entry, field) in [(0, "zones"), (1, "held")] {
        let call = &rule["context"][entry];
        let path = call["apiCall"]["urlPath"].as_str().unwrap();
        assert!(
            path.starts_with("/apis/causeway.dev/v1alpha1/namespaces/") && path.ends_with("/hostnamegrants")
        );
        assert_eq!(call["name"], field);
    }
    let gatekeeper = example("Gatekeeper");
    assert_eq!(gatekeeper["kind"], "ConstraintTemplate");
    // Its name is to be that of its kind.
    let kind = gatekeeper["spec"]["crd"]["spec"]["names"]["kind"].as_str().unwrap();
    assert_eq!(gatekeeper["metadata"]["name"], kind.to_lowercase());
    let rego = gatekeeper["spec"]["targets"][0]["rego"].as_str().unwrap();
    assert!(rego.starts_with("package heldhostnames\n"), "{rego}");
    for (open, close) in [('{', '}'), ('(', ')'), ('[', ']')] {
        assert_eq!(rego.matches(open).count(), rego.matches(close).count(), "{open} and {close}");
    }
}
