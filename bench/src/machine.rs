//! The machine the figures come from, and how long its disk takes to make a write durable.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;

use crate::samples::Samples;

const PROBES: usize = 200;
const BLOCK: usize = 4096;

/// What one should know of a machine before reading its figures.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) cpu: String,
    pub(crate) kernel: String,
    pub(crate) memory_gib: f64,
    /// Of the measured directory.
    pub(crate) filesystem: String,
    pub(crate) load: String,
    /// Milliseconds for 4 KiB and an fdatasync.
    pub(crate) sync: Samples,
}

impl Machine {
    pub(crate) fn look(dir: &Path) -> anyhow::Result<Self> {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|l| l.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let kib = field(&text("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kib: f64 = kib.trim_end_matches("kB").trim().parse().unwrap_or_default();
        Ok(Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            cpu: field(&text("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into()),
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory_gib: kib / 1024.0 / 1024.0,
            filesystem: filesystem(&text("/proc/mounts"), dir),
            load: text("/proc/loadavg").split_whitespace().take(3).collect::<Vec<_>>().join(" "),
            sync: probe(dir).context("can't measure the disk")?,
        })
    }
}

/// The type of the file system that the deepest mount above `dir` has.
fn filesystem(mounts: &str, dir: &Path) -> String {
    mounts
        .lines()
        .filter_map(|line| {
            let mut parts = line.split(' ');
            let (_, at, kind) = (parts.next()?, parts.next()?, parts.next()?);
            dir.starts_with(at).then_some((at.len(), kind))
        })
        .max_by_key(|(depth, _)| *depth)
        .map_or_else(|| "unknown".to_owned(), |(_, kind)| kind.to_owned())
}

fn probe(dir: &Path) -> std::io::Result<Samples> {
    let path = dir.join("probe");
    let mut file: File = OpenOptions::new().create(true).append(true).open(&path)?;
    let mut samples = Samples::default();
    for _ in 0..PROBES {
        let start = Instant::now();
        file.write_all(&[0x5a; BLOCK])?;
        file.sync_data()?;
        samples.push(start.elapsed().as_secs_f64() * 1e3);
    }
    std::fs::remove_file(path)?;
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_names_the_file_system() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /data xfs rw 0 0\n";
        assert_eq!(filesystem(mounts, Path::new("/data/x")), "xfs");
        assert_eq!(filesystem(mounts, Path::new("/home")), "ext4");
        assert_eq!(filesystem(mounts, Path::new("/tmp/y")), "tmpfs");
    }
}
