//! What earlier releases wrote: their manifests are brought along, their objects stay what they are.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::bed::{Bed, NAMESPACE};

/// What a sample's first lines say when a cluster can't take it.
const ONE_MACHINE: &str = "# One machine only:";

fn release(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/install/releases/0.1.0").join(name)
}

fn applied(bed: &Bed, file: &Path) {
    bed.kubectl.ok(&["apply", "--server-side", "--force-conflicts", "-f", file.to_str().unwrap()]);
}

/// Kind, name and spec of all of Causeway's objects.
fn objects(bed: &Bed) -> BTreeSet<String> {
    let list: Value =
        serde_json::from_str(&bed.kubectl.ok(&["get", "causeway", "--all-namespaces", "-o", "json"]))
            .unwrap();
    let items = list["items"].as_array().unwrap().iter();
    items.map(|one| format!("{} {} {}", one["kind"], one["metadata"]["name"], one["spec"])).collect()
}

#[test]
fn the_first_release_is_brought_along_with_its_objects() {
    let Some(bed) = Bed::new() else { return };
    applied(&bed, &release("crds.yaml"));
    let files = fs::read_dir(release("samples")).unwrap().map(|entry| entry.unwrap().path());
    let samples: Vec<(PathBuf, String)> = files
        .map(|file| (file.clone(), fs::read_to_string(file).unwrap()))
        .filter(|(_, text)| !text.contains(ONE_MACHINE) && text.contains("causeway.dev/v1alpha1"))
        .collect();
    let lines = samples.iter().flat_map(|(_, text)| text.lines());
    let namespaces: BTreeSet<&str> = lines.filter_map(|line| line.strip_prefix("  namespace: ")).collect();
    for namespace in &namespaces {
        bed.cluster.namespace(namespace);
    }
    for (file, _) in &samples {
        applied(&bed, file);
    }
    let before = objects(&bed);
    assert!(before.len() > 10, "{before:?}");
    let said = bed.causeway(&["crds", "--apply"]).ok();
    assert!(said.contains("17 changed"), "{said}");
    assert_eq!(objects(&bed), before);
    for (file, _) in &samples {
        applied(&bed, file);
    }
    assert_eq!(objects(&bed), before);
    assert!(bed.causeway(&["crds", "--apply"]).ok().contains("17 as they were"));
    for (file, _) in &samples {
        // What others were made for may be gone with them.
        let delete = ["delete", "--ignore-not-found", "--wait=false", "-f", file.to_str().unwrap()];
        bed.kubectl.ok(&delete);
    }
    for namespace in namespaces.iter().filter(|name| **name != NAMESPACE && **name != "default") {
        bed.kubectl.run(&["delete", "namespace", namespace, "--timeout=60s"]);
    }

    // Its manifests have no labels, and are known by their names.
    applied(&bed, &release("operator.yaml"));
    let status = ["rollout", "status", "deployment/causeway-operator", "-n", NAMESPACE, "--timeout=90s"];
    bed.kubectl.ok(&status);
    bed.install();
    let said = bed.causeway(&["check"]).stdout;
    assert!(said.contains("it is of this program's version"), "{said}");
    let said = bed.causeway(&["uninstall", "--all", "--crds", "--yes"]).ok();
    for namespace in [NAMESPACE, "causeway-edge"] {
        assert!(said.contains(&format!("Namespace {namespace}: it was not made by")), "{said}");
    }
    bed.kubectl.ok(&["delete", "namespace", NAMESPACE, "causeway-edge", "--timeout=120s"]);
    bed.is_as_before();
}

/// What is said of a rule in CEL that is new.
const RULE: &str = "it has to be";

/// Where a schema takes less than an older one did: what is gone, narrower, or asked for anew.
fn narrower(path: &str, before: &Value, now: &Value, found: &mut Vec<String>) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut say = |what: String| found.push(format!("{path}: {what}"));
    if before["type"] != now["type"] {
        say(format!("was {}, is {}", before["type"], now["type"]));
    }
    for value in list(&before["enum"]) {
        if !now["enum"].is_null() && !list(&now["enum"]).contains(&value) {
            say(format!("{value} is gone"));
        }
    }
    if before["enum"].is_null() && !now["enum"].is_null() {
        say("takes only some values".to_owned());
    }
    for field in list(&now["required"]) {
        if !list(&before["required"]).contains(&field) {
            say(format!("{field} is asked for"));
        }
    }
    for (bound, is_upper) in [
        ("maximum", true),
        ("maxLength", true),
        ("maxItems", true),
        ("maxProperties", true),
        ("minimum", false),
        ("minLength", false),
        ("minItems", false),
        ("minProperties", false),
    ] {
        let is_stricter = match (before[bound].as_f64(), now[bound].as_f64()) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(before), Some(now)) => {
                if is_upper {
                    now < before
                } else {
                    now > before
                }
            }
        };
        if is_stricter {
            say(format!("{bound} was {}, is {}", before[bound], now[bound]));
        }
    }
    for rule in ["pattern", "format"] {
        if before[rule] != now[rule] && !now[rule].is_null() {
            say(format!("its {rule} was {}, is {}", before[rule], now[rule]));
        }
    }
    let rules = |schema: &Value| list(&schema["x-kubernetes-validations"]);
    let known: Vec<Value> = rules(before).iter().map(|one| one["rule"].clone()).collect();
    for one in rules(now).iter().filter(|one| !known.contains(&one["rule"])) {
        say(format!("{RULE} {}", one["rule"]));
    }
    for (name, inner) in before["properties"].as_object().into_iter().flatten() {
        match now["properties"].get(name) {
            Some(now) => narrower(&format!("{path}.{name}"), inner, now, found),
            None => found.push(format!("{path}.{name}: is gone")),
        }
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if before[key].is_object() {
            narrower(&format!("{path}{mark}"), &before[key], &now[key], found);
        }
    }
}

/// Kinds that the first release only knew, and nothing of it served: their rules came with what serves them. Objects of that time are
/// held to a rule by the API server when the field that it is of is changed.
const SERVED_LATER: [&str; 2] = ["gatewayhostnamerequests.causeway.dev", "hostnamezones.causeway.dev"];

#[test]
fn definitions_only_ever_take_more() {
    let text = fs::read_to_string(release("crds.yaml")).unwrap();
    let before: Vec<Value> = text
        .split("\n---\n")
        .map(|document| serde_saphyr::from_str::<Value>(document).unwrap())
        .filter(|document| !document.is_null())
        .collect();
    assert_eq!(before.len(), 17);
    let now: Vec<Value> = causeway_api::crds().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect();
    let mut found = Vec::new();
    for before in &before {
        let name = &before["metadata"]["name"];
        let now = now.iter().find(|one| one["metadata"]["name"] == *name);
        let Some(now) = now else {
            found.push(format!("{name} is gone"));
            continue;
        };
        for field in ["group", "scope"] {
            assert_eq!(before["spec"][field], now["spec"][field], "{name}");
        }
        for version in before["spec"]["versions"].as_array().unwrap() {
            let mut versions = now["spec"]["versions"].as_array().unwrap().iter();
            let now = versions.find(|one| one["name"] == version["name"] && one["served"] == true);
            let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
            match now {
                Some(now) => {
                    let path = name.as_str().unwrap();
                    narrower(path, &schema(version), &schema(now), &mut found);
                }
                None => found.push(format!("{name} is no longer served as {}", version["name"])),
            }
        }
    }
    found.retain(|one| !(SERVED_LATER.iter().any(|kind| one.starts_with(kind)) && one.contains(RULE)));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn what_takes_less_is_found() {
    let before = serde_json::json!({"type": "object", "properties": {
        "gone": {"type": "string"}, "address": {"type": "string"}, "kind": {"type": "string", "enum": ["a", "b"]},
        "list": {"type": "array", "maxItems": 4, "items": {"type": "string"}},
    }});
    let rules = serde_json::json!([{"rule": "self.list.size() > 1", "message": "one is too few"}]);
    let now = serde_json::json!({"type": "object", "required": ["list"], "x-kubernetes-validations": rules, "properties": {
        "address": {"type": "string", "format": "ipv4"},
        "kind": {"type": "string", "enum": ["a", "c"]},
        "list": {"type": "array", "maxItems": 3, "items": {"type": "integer"}},
    }});
    let mut found = Vec::new();
    narrower("x", &before, &now, &mut found);
    let expected = [
        "x: \"list\" is asked for",
        "x: it has to be \"self.list.size() > 1\"",
        "x.gone: is gone",
        "x.address: its format was null, is \"ipv4\"",
        "x.kind: \"b\" is gone",
        "x.list: maxItems was 4, is 3",
        "x.list[]: was \"string\", is \"integer\"",
    ];
    assert_eq!(found, expected);
    found.clear();
    narrower("x", &before, &before, &mut found);
    assert!(found.is_empty(), "{found:?}");
}
