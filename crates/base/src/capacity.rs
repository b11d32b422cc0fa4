//! What this process may have: descriptors by its limit, memory by its control groups and the machine.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

/// What is taken for unlimited.
const UNLIMITED: u64 = 1 << 40;

/// How many descriptors this process may have open.
pub fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED)
}

/// How many bytes of memory this process may use: what the machine has, or less by a control group.
pub fn memory() -> u64 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&groups).into_iter().filter_map(|file| bytes(&fs::read_to_string(file).ok()?));
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    limits.chain(machine).min().unwrap_or(UNLIMITED)
}

/// Where the limits of these groups and of those above them stand, in either version of control groups.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|one| one == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let group = Path::new(path.trim_start_matches('/'));
        files.extend(group.ancestors().map(|group| Path::new(root).join(group).join(name)));
    }
    files
}

fn bytes(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(bytes(line.trim().trim_end_matches("kB"))? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_stand_with_every_group_above() {
        let named = |groups| {
            let files = limit_files(groups).into_iter();
            files.map(|file| file.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            named("0::/a/b\n"),
            ["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"]
        );
        assert_eq!(named("0::/\n"), ["/sys/fs/cgroup/memory.max"]);
        assert_eq!(named("4:cpu,memory:/\n3:pids:/x\n"), ["/sys/fs/cgroup/memory/memory.limit_in_bytes"]);
    }

    #[test]
    fn reads_what_the_kernel_writes() {
        assert_eq!(bytes("536870912\n"), Some(512 << 20));
        assert_eq!(bytes("max\n"), None);
        assert_eq!(total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
    }

    #[test]
    fn this_process_has_something() {
        assert!(descriptors() > 0 && memory() > 1 << 20);
    }
}
