//! What a process was given by the one that started it, beside its three standard streams.

use std::fs;
use std::os::fd::RawFd;

/// Closes every descriptor above standard error. A process that outlives the one that started it would otherwise keep
/// what that one was given: a lock that others wait for, or the end of a pipe.
///
/// To be called first of all: what this process itself has opened is closed too.
pub fn close_inherited() {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<RawFd> = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // That of the directory was among them, and is closed already.
        let _ = nix::unistd::close(descriptor);
    }
}
