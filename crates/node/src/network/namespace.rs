//! Network namespaces that have a name (`/run/netns/NAME`, as `ip netns` has them): they stay when nothing runs in them.

use std::{
    fs::{self, File},
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    thread,
};

use nix::sched::{CloneFlags, unshare};
use rustix::{
    fs::statfs,
    io::Errno,
    mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_bind_recursive, mount_change, unmount},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

const DIRECTORY: &str = "/run/netns";
/// What a namespace's file system calls itself.
const NSFS_MAGIC: i64 = 0x6e73_6673;

/// Where the namespace of that name is.
pub(super) fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// Makes a namespace with a name.
pub(super) fn create(name: &str) -> io::Result<OwnedFd> {
    fs::create_dir_all(DIRECTORY)?;
    share_directory()?;
    let path = path(name);
    File::create_new(&path)?;
    let made = in_thread(|| {
        unshare(CloneFlags::CLONE_NEWNET)?;
        Ok(mount_bind("/proc/thread-self/ns/net", &path)?)
    });
    if made.is_err() {
        let _ = fs::remove_file(&path);
    }
    made?;
    open(&path)
}

/// Opens a namespace.
pub(super) fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(File::open(path)?.into())
}

/// Whether there is a namespace at this place.
pub(super) fn exists(path: &Path) -> bool {
    #[expect(clippy::unnecessary_cast, reason = "its type is not the same everywhere")]
    statfs(path).is_ok_and(|found| found.f_type as i64 == NSFS_MAGIC)
}

/// Takes the name away; the namespace goes when nothing runs in it any more.
pub(super) fn remove(name: &str) -> io::Result<()> {
    let path = path(name);
    match unmount(&path, UnmountFlags::DETACH) {
        // It is not there, or a file that never became a namespace.
        Ok(()) | Err(Errno::NOENT | Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Does something inside a namespace.
pub(super) fn inside<T: Send>(
    namespace: &OwnedFd,
    act: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    in_thread(|| {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        act()
    })
}

/// Moves this process into a namespace; for a process of one thread. Its `/sys` goes on showing the interfaces of the
/// machine: another one would hide the cgroups.
pub(crate) fn enter(path: &Path) -> io::Result<()> {
    Ok(move_into_link_name_space(open(path)?.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Namespaces are of threads: one that was changed is not used for anything else.
pub(super) fn in_thread<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, act)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the work in a namespace failed")))
    })
}

/// What is mounted in the directory must be seen by others that have a view of it of their own.
fn share_directory() -> io::Result<()> {
    let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    match mount_change(DIRECTORY, shared) {
        // It is no mount yet.
        Err(Errno::INVAL) => {
            mount_bind_recursive(DIRECTORY, DIRECTORY)?;
            Ok(mount_change(DIRECTORY, shared)?)
        }
        other => Ok(other?),
    }
}
