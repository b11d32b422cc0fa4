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
