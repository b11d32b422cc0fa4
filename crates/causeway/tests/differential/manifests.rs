//! What this repository asks its users to apply, as a real API server takes it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use causeway_testkit::deploy;

use crate::world::World;

/// What a sample's first lines say when a cluster can't take it.
const ONE_MACHINE: &str = "# One machine only:";

#[test]
fn a_real_api_server_takes_all_manifests() {
    let Some(world) = World::shared() else { return };
    let mut files: Vec<PathBuf> =
        fs::read_dir(deploy("samples")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.extend(["operator.yaml", "operator-openshift.yaml"].map(deploy));
    let texts: Vec<String> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    let namespaces: BTreeSet<&str> = lines.filter_map(|line| line.strip_prefix("  namespace: ")).collect();
    for namespace in namespaces {
        world.theirs().namespace(namespace);
    }
    let kubectl = world.theirs().kubectl("");
    for (file, text) in files.iter().zip(&texts) {
        let ran = kubectl.run(&["apply", "--dry-run=server", "-f", file.to_str().unwrap()]);
        let taken = ran.code == Some(0);
        assert_eq!(taken, !text.contains(ONE_MACHINE), "{}: {ran}", file.display());
        assert!(!ran.stderr.contains("Warning"), "{}: {ran}", file.display());
    }
}
