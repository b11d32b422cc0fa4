//! Where a pod's things are on disk: `pods/NAMESPACE/NAME/UID/{address,network-status,volumes,containers/NAME/{root,0,1,…}}`.

use std::{
    fs, io,
    net::Ipv4Addr,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

use causeway_base::file;

/// The directory of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodDir {
    path: PathBuf,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl PodDir {
    pub(crate) fn new(data_dir: &Path, namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            path: data_dir.join("pods").join(namespace).join(name).join(uid),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }

    /// All pods that have left something on disk.
    pub(crate) fn all(data_dir: &Path) -> io::Result<Vec<Self>> {
        let named = by_uid(&data_dir.join("pods"))?.into_iter();
        Ok(named.map(|[namespace, name, uid]| Self::new(data_dir, &namespace, &name, &uid)).collect())
    }

    /// The newest pod of this name.
    pub(crate) fn find(data_dir: &Path, namespace: &str, name: &str) -> io::Result<Option<Self>> {
        let uids = subdirectories(&data_dir.join("pods").join(namespace).join(name))?;
        Ok(uids.into_iter().map(|uid| Self::new(data_dir, namespace, name, &uid)).max_by_key(|dir| {
            fs::metadata(dir.path.join("created"))
                .and_then(|meta| meta.modified())
                .unwrap_or(SystemTime::UNIX_EPOCH)
        }))
    }

    pub(crate) fn create(&self) -> io::Result<()> {
        file::create_private_dir(&self.path)?;
        let mark = self.path.join("created");
        if !mark.exists() {
            fs::write(mark, "")?;
        }
        Ok(())
    }

    /// Removes everything of the pod, and the directories above it when they are empty.
    pub(crate) fn remove(&self) -> io::Result<()> {
        remove_with_empty_parents(&self.path)
    }

    /// Holds the pod's address.
    pub(crate) fn address_file(&self) -> PathBuf {
        self.path.join("address")
    }

    pub(crate) fn write_address(&self, address: Ipv4Addr) -> io::Result<()> {
        file::replace(&self.address_file(), file::PRIVATE, format!("{address}\n").as_bytes())
    }

    /// Holds what was said of the networks that the pod is attached to; it is there when they are.
    pub(crate) fn network_status(&self) -> PathBuf {
        self.path.join("network-status")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn volume(&self, name: &str) -> PathBuf {
        self.path.join("volumes").join(name)
    }

    pub(crate) fn container(&self, name: &str) -> PathBuf {
        self.path.join("containers").join(name)
    }

    /// The containers that were ever started.
    pub(crate) fn containers(&self) -> io::Result<Vec<String>> {
        subdirectories(&self.path.join("containers"))
    }

    /// Where the container's mounts appear.
    pub(crate) fn root(&self, container: &str) -> PathBuf {
        self.container(container).join("root")
    }

    pub(crate) fn attempt(&self, container: &str, number: i32) -> PathBuf {
        self.container(container).join(number.to_string())
    }

    /// Exists while the container waits for its next start, so that "previous" means the attempt that just ended.
    pub(crate) fn waiting_mark(&self, container: &str) -> PathBuf {
        self.container(container).join("waiting")
    }
}

/// Removes `…/NAMESPACE/NAME/UID`, and the two directories above it when they are empty; what is not there is no failure.
pub(crate) fn remove_with_empty_parents(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for above in path.ancestors().skip(1).take(2) {
        if fs::remove_dir(above).is_err() {
            break;
        }
    }
    Ok(())
}

/// Where the processes of a namespace's pods hand sockets over. Short, because the paths of sockets must be.
pub(crate) fn handover_dir(data_dir: &Path, namespace: &str) -> io::Result<PathBuf> {
    let path = data_dir.join("handover").join(namespace);
    file::create_private_dir(&path)?;
    Ok(path)
}

/// Creates a directory that a container's own user can read; a private one above it keeps others out.
pub(crate) fn create_readable(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    // The umask has taken its part.
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// The parts of every `NAMESPACE/NAME/UID` below a directory.
pub(crate) fn by_uid(path: &Path) -> io::Result<Vec<[String; 3]>> {
    let mut found = Vec::new();
    for namespace in subdirectories(path)? {
        for name in subdirectories(&path.join(&namespace))? {
            for uid in subdirectories(&path.join(&namespace).join(&name))? {
                found.push([namespace.clone(), name.clone(), uid]);
            }
        }
    }
    Ok(found)
}

fn subdirectories(path: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
