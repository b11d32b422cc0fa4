//! The files that are made from code: what they contain, and whether the ones on disk still do.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// Directories that hold nothing but generated files.
const DIRECTORIES: &[&str] = &["deploy/crds", "crates/apiserver/crds"];

/// Every generated file, by its path in the repository.
pub(crate) fn files(root: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for crd in causeway_api::crds() {
        files.insert(
            format!("deploy/crds/{}.yaml", crate::crds::file_name(&crd)),
            crate::crds::to_yaml(&crd)?,
        );
    }
    let of_chart = crate::chart::files(root, &files)?;
    files.extend(of_chart);
    let mut names = Vec::new();
    for crd in crate::gateway::crds().into_iter().chain([crate::multus::crd()?]) {
        let name = format!("{}.json", crate::crds::file_name(&crd));
        files.insert(format!("crates/apiserver/crds/{name}"), crate::crds::to_json(&crd)?);
        names.push(format!("    include_str!(\"{name}\"),\n"));
    }
    // The server includes this file, and with it all of the above.
    files.insert("crates/apiserver/crds/list.in".to_owned(), format!("[\n{}]\n", names.concat()));
    Ok(files)
}

/// Writes what differs, removes what is no longer generated, and says which paths it touched.
pub(crate) fn write(root: &Path, files: &BTreeMap<String, String>) -> anyhow::Result<Vec<String>> {
    for directory in DIRECTORIES {
        fs::create_dir_all(root.join(directory)).with_context(|| format!("making {directory}"))?;
    }
    let stale = stale(root, files)?;
    for path in &stale {
        let target = root.join(path);
        match files.get(path) {
            Some(text) => fs::write(&target, text).with_context(|| format!("writing {path}"))?,
            None => fs::remove_file(&target).with_context(|| format!("removing {path}"))?,
        }
    }
    Ok(stale)
}

/// Paths that are missing, differ, or should not be there.
pub(crate) fn stale(root: &Path, files: &BTreeMap<String, String>) -> anyhow::Result<Vec<String>> {
    let mut stale: Vec<String> = files
        .iter()
        .filter(|(path, text)| fs::read_to_string(root.join(path)).ok().as_ref() != Some(*text))
        .map(|(path, _)| path.clone())
        .collect();
    for directory in DIRECTORIES {
        let Ok(entries) = fs::read_dir(root.join(directory)) else {
            continue;
        };
        for entry in entries {
            let name = entry.with_context(|| format!("reading {directory}"))?.file_name();
            let path = format!("{directory}/{}", name.to_string_lossy());
            if !files.contains_key(&path) {
                stale.push(path);
            }
        }
    }
    stale.sort();
    Ok(stale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_missing_changed_and_surplus_files() {
        let root = std::env::temp_dir().join(format!("causeway-xtask-{}", std::process::id()));
        let directory = root.join("deploy/crds");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("same.yaml"), "a").unwrap();
        fs::write(directory.join("changed.yaml"), "old").unwrap();
        fs::write(directory.join("surplus.yaml"), "x").unwrap();
        let files = BTreeMap::from(
            [("same", "a"), ("changed", "new"), ("missing", "b")]
                .map(|(name, text)| (format!("deploy/crds/{name}.yaml"), text.to_owned())),
        );
        let expected = ["changed", "missing", "surplus"].map(|name| format!("deploy/crds/{name}.yaml"));
        assert_eq!(stale(&root, &files).unwrap(), expected);
        assert_eq!(write(&root, &files).unwrap(), expected);
        assert!(stale(&root, &files).unwrap().is_empty());
        fs::remove_dir_all(&root).unwrap();
    }
}
