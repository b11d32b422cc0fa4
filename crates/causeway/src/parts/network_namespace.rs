//! Work in the network namespace of a pod or of a demo's machine: what is on an isolated network is reached from there alone.

use std::fs::File;
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Does something whose sockets are all of that namespace.
///
/// # Errors
/// When the namespace can't be entered.
pub(crate) fn from_inside<T: Send, F: Future<Output = T>>(
    namespace: &Path,
    work: impl FnOnce() -> F + Send,
) -> io::Result<T> {
    let namespace = File::open(namespace)?;
    let there = || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(work()))
    };
    // In a thread of its own, which ends with it: a namespace is a thread's.
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let ended = scope.spawn(there).join();
            ended.unwrap_or_else(|_| Err(io::Error::other("the work in a namespace failed")))
        })
    })
}
