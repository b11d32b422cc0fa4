//! What the kernel says of a process: processor time and memory.

use anyhow::Context;

/// Seconds of processor time that a process has used, all threads, user and system.
pub(crate) fn seconds(pid: u32) -> anyhow::Result<f64> {
    let stat = read(pid, "stat")?;
    // The name in parentheses may hold anything, also spaces.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|f| f.parse::<f64>().ok());
    let (user, system) = ticks(11).zip(ticks(12)).context("can't read the processor time of a child")?;
    Ok((user + system) / rustix::param::clock_ticks_per_second() as f64)
}

/// Resident and proportional memory in bytes. Pages of the program's file count in both.
pub(crate) fn memory(pid: u32) -> anyhow::Result<(f64, f64)> {
    let rollup = read(pid, "smaps_rollup")?;
    let field = |name: &str| {
        let line = rollup.lines().find_map(|l| l.strip_prefix(name))?;
        Some(line.trim().trim_end_matches("kB").trim().parse::<f64>().ok()? * 1024.0)
    };
    field("Rss:").zip(field("Pss:")).context("can't read the memory of a child")
}

fn read(pid: u32, file: &str) -> anyhow::Result<String> {
    let path = format!("/proc/{pid}/{file}");
    std::fs::read_to_string(&path).with_context(|| format!("can't read {path}"))
}
