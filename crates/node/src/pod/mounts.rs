//! How a mountPath becomes a place on the machine. Processes share the host's file system, so a mount is
//! 1. a link below the container's own root directory, which it learns from `CAUSEWAY_ROOT`, and
//! 2. a rewrite: an argument, or the part of it after `=`, that begins with a mountPath points into the volume.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Component, Path, PathBuf},
};

use causeway_base::file::create_private_dir;
use k8s_openapi::api::core::v1::Container;

use super::env::Environment;
use crate::layout::PodDir;

/// One mount of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mount {
    pub path: PathBuf,
    /// The volume's name, and where it is.
    pub volume: String,
    pub base: PathBuf,
    /// The volume, or what `subPath` names in it.
    pub source: PathBuf,
    /// Kept by containers; a process shares the host's rights.
    pub read_only: bool,
}

/// All mounts of a container, longest path first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mounts(Vec<Mount>);

impl Mounts {
    /// Where each mount of the container leads; `host` names volumes that are directories of the machine.
    pub(super) fn of(
        container: &Container,
        dir: &PodDir,
        host: &[(String, PathBuf)],
        environment: &Environment,
    ) -> Result<Self, String> {
        let mut mounts = Vec::new();
        for mount in container.volume_mounts.iter().flatten() {
            let base = host
                .iter()
                .find(|(name, _)| *name == mount.name)
                .map_or_else(|| dir.volume(&mount.name), |(_, path)| path.clone());
            let below = match (&mount.sub_path_expr, &mount.sub_path) {
                (Some(expression), _) => environment.expand(expression),
                (None, Some(path)) => path.clone(),
                (None, None) => String::new(),
            };
            if Path::new(&below)
                .components()
                .any(|part| !matches!(part, Component::Normal(_) | Component::CurDir))
            {
                return Err(format!(
                    "subPath {below:?} of mount {:?} must be relative and must not contain \"..\"",
                    mount.name
                ));
            }
            mounts.push(Mount {
                path: PathBuf::from(&mount.mount_path),
                volume: mount.name.clone(),
                source: if below.is_empty() { base.clone() } else { base.join(below) },
                base,
                read_only: mount.read_only == Some(true),
            });
        }
        Ok(Self::new(mounts))
    }

    pub(super) fn new(mut mounts: Vec<Mount>) -> Self {
        mounts.sort_by_key(|mount| std::cmp::Reverse(mount.path.components().count()));
        Self(mounts)
    }

    /// Every mount, the outer before the inner.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Mount> {
        self.0.iter().rev()
    }

    /// The mount exactly at `path`.
    pub(super) fn at(&self, path: &str) -> Option<&Mount> {
        self.0.iter().find(|mount| mount.path == Path::new(path))
    }

    /// The place of an absolute path, if it lies in a mount.
    pub(super) fn map(&self, path: &str) -> Option<PathBuf> {
        if !path.starts_with('/') {
            return None;
        }
        let path = Path::new(path);
        self.0.iter().find_map(|mount| {
            let rest = path.strip_prefix(&mount.path).ok()?;
            Some(if rest.as_os_str().is_empty() { mount.source.clone() } else { mount.source.join(rest) })
        })
    }

    /// An argument with its path rewritten.
    pub(super) fn rewrite(&self, argument: &str) -> String {
        if let Some(mapped) = self.map(argument) {
            return mapped.to_string_lossy().into_owned();
        }
        if let Some((flag, value)) = argument.split_once('=')
            && let Some(mapped) = self.map(value)
        {
            return format!("{flag}={}", mapped.display());
        }
        argument.to_owned()
    }

    /// Makes the links below the container's root; a mount inside another mount is reached by rewriting only.
    pub(super) fn link(&self, root: &Path) -> io::Result<()> {
        match fs::remove_dir_all(root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        create_private_dir(root)?;
        for mount in &self.0 {
            let nested =
                self.0.iter().any(|other| other.path != mount.path && mount.path.starts_with(&other.path));
            let Ok(below) = mount.path.strip_prefix("/") else {
                continue;
            };
            if nested || below.as_os_str().is_empty() {
                continue;
            }
            let link = root.join(below);
            if let Some(parent) = link.parent() {
                create_private_dir(parent)?;
            }
            symlink(&mount.source, &link)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts() -> Mounts {
        let mount =
            |path: &str, source: &str| Mount { path: path.into(), source: source.into(), ..Mount::default() };
        Mounts::new(vec![
            mount("/etc/app", "/v/config"),
            mount("/etc/app/tls", "/v/tls"),
            mount("/data", "/v/data/sub"),
        ])
    }

    #[test]
    fn rewrites_arguments_that_begin_with_a_mount_path() {
        let cases = [
            ("/etc/app/x.yaml", "/v/config/x.yaml"),
            ("/etc/app", "/v/config"),
            ("/etc/app/tls/key", "/v/tls/key"),
            ("/etc/application", "/etc/application"),
            ("--config=/etc/app/x", "--config=/v/config/x"),
            ("--dir=/data", "--dir=/v/data/sub"),
            ("relative/etc/app", "relative/etc/app"),
            ("--plain", "--plain"),
        ];
        for (argument, expected) in cases {
            assert_eq!(mounts().rewrite(argument), expected);
        }
    }

    #[test]
    fn links_mounts_below_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        for _ in 0..2 {
            mounts().link(&root).unwrap();
            assert_eq!(fs::read_link(root.join("etc/app")).unwrap(), Path::new("/v/config"));
            assert_eq!(fs::read_link(root.join("data")).unwrap(), Path::new("/v/data/sub"));
        }
    }

    #[test]
    fn a_sub_path_cannot_leave_the_volume() {
        let container: Container = serde_json::from_value(
            serde_json::json!({"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": "../../x"}]}),
        )
        .unwrap();
        let dir = PodDir::new(Path::new("/d"), "ns", "p", "u");
        assert!(Mounts::of(&container, &dir, &[], &Environment::default()).is_err());
    }
}
