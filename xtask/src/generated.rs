//! The files that are made from something else: what they contain, and whether the ones on disk still do.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// Some generated files, by their paths in the repository, and the directories that hold nothing else.
pub(crate) struct Generated {
    pub directories: Vec<&'static str>,
    pub files: BTreeMap<String, String>,
}

/// What is made from code and from the chart.
pub(crate) fn from_code(root: &Path) -> anyhow::Result<Generated> {
    let mut files = BTreeMap::new();
    for crd in causeway_api::crds() {
        files.insert(
            format!("deploy/crds/{}.yaml", crate::crds::file_name(&crd)),
            crate::crds::to_yaml(&crd)?,
        );
    }
    let of_chart = crate::chart::files(root, &files)?;
    files.extend(of_chart);
    let multus = crate::multus::crd()?;
    let path = format!("crates/apiserver/crds/{}.json", crate::crds::file_name(&multus));
    files.insert(path, crate::crds::to_json(&multus)?);
    let [manifests, metadata] = crate::bundle::DIRECTORIES;
    let directories = vec!["deploy/crds", "crates/apiserver/crds", manifests, metadata];
    Ok(Generated { directories, files })
}

/// What is made from the Go module of Gateway API.
pub(crate) fn from_gateway_api() -> anyhow::Result<Generated> {
    Ok(Generated { directories: vec![crate::gateway::DIRECTORY], files: crate::gateway::files()? })
}

/// Writes what differs, removes what is no longer generated, and says which paths it touched.
pub(crate) fn write(root: &Path, generated: &Generated) -> anyhow::Result<Vec<String>> {
    for directory in &generated.directories {
        fs::create_dir_all(root.join(directory)).with_context(|| format!("making {directory}"))?;
    }
    let stale = stale(root, generated)?;
    for path in &stale {
        let target = root.join(path);
        match generated.files.get(path) {
            Some(text) => fs::write(&target, text).with_context(|| format!("writing {path}"))?,
            None => fs::remove_file(&target).with_context(|| format!("removing {path}"))?,
        }
    }
    Ok(stale)
}

/// Paths that are missing, differ, or should not be there.
pub(crate) fn stale(root: &Path, generated: &Generated) -> anyhow::Result<Vec<String>> {
    let Generated { directories, files } = generated;
    let mut stale: Vec<String> = files
        .iter()
        .filter(|(path, text)| fs::read_to_string(root.join(path)).ok().as_ref() != Some(*text))
        .map(|(path, _)| path.clone())
        .collect();
    for directory in directories {
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
        let generated = Generated { directories: vec!["deploy/crds"], files };
        assert_eq!(stale(&root, &generated).unwrap(), expected);
        assert_eq!(write(&root, &generated).unwrap(), expected);
        assert!(stale(&root, &generated).unwrap().is_empty());
        fs::remove_dir_all(&root).unwrap();
    }
}
