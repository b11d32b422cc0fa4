//! The figures as a table for people and as JSON for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::machine::Machine;

/// What a figure should be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Aim {
    Under(f64),
    Over(f64),
}

impl Aim {
    fn met(self, value: f64) -> bool {
        match self {
            Self::Under(limit) => value < limit,
            Self::Over(limit) => value > limit,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Under(limit) => format!("under {}", figure(limit)),
            Self::Over(limit) => format!("over {}", figure(limit)),
        }
    }
}

/// One line of the table.
#[derive(Debug)]
struct Row {
    name: String,
    causeway: Option<f64>,
    etcd: Option<f64>,
    unit: &'static str,
    aim: Option<Aim>,
}

/// Everything one run found.
#[derive(Debug)]
pub(crate) struct Report {
    machine: Machine,
    causeway: String,
    etcd: String,
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(machine: Machine, causeway: String, etcd: String) -> Self {
        Self { machine, causeway, etcd, rows: Vec::new() }
    }

    /// A figure without an aim.
    pub(crate) fn figure(&mut self, name: impl Into<String>, unit: &'static str, value: f64) {
        self.row(name.into(), unit, Some(value), None, None);
    }

    /// A figure that should be under a limit.
    pub(crate) fn under(&mut self, name: impl Into<String>, unit: &'static str, value: f64, limit: f64) {
        self.row(name.into(), unit, Some(value), None, Some(Aim::Under(limit)));
    }

    /// A figure beside etcd's; with `ahead`, ours should be the higher one.
    pub(crate) fn beside(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        ours: f64,
        etcd: Option<f64>,
        ahead: bool,
    ) {
        let aim = etcd.filter(|_| ahead).map(Aim::Over);
        self.row(name.into(), unit, Some(ours), etcd, aim);
    }

    fn row(
        &mut self,
        name: String,
        unit: &'static str,
        causeway: Option<f64>,
        etcd: Option<f64>,
        aim: Option<Aim>,
    ) {
        self.rows.push(Row { name, causeway, etcd, unit, aim });
    }

    pub(crate) fn table(&self) -> String {
        let m = &self.machine;
        let mut out = String::new();
        let _ = writeln!(
            out,
            "machine   {} cores ({}), {:.0} GiB, Linux {}",
            m.cores, m.cpu, m.memory_gib, m.kernel
        );
        let _ = writeln!(out, "load      {} at the start", m.load);
        let _ = writeln!(
            out,
            "disk      {}, 4 KiB + fdatasync: p50 {} ms, p99 {} ms",
            m.filesystem,
            figure(m.sync.median()),
            figure(m.sync.quantile(0.99))
        );
        let _ = writeln!(out, "causeway  {}\netcd      {}\n", self.causeway, self.etcd);
        let width = self.rows.iter().map(|r| r.name.chars().count()).max().unwrap_or(0);
        let _ = writeln!(
            out,
            "{:width$}  {:>9}  {:>9}  {:>6}  {:7}  aim",
            "", "causeway", "etcd", "ratio", "unit"
        );
        for row in &self.rows {
            let cell = |value: Option<f64>| value.map_or_else(String::new, figure);
            let ratio = row.causeway.zip(row.etcd).map_or_else(String::new, |(a, b)| format!("{:.2}", a / b));
            let aim = row.aim.zip(row.causeway).map_or_else(String::new, |(aim, value)| {
                format!("{}: {}", aim.text(), if aim.met(value) { "met" } else { "MISSED" })
            });
            let line = format!(
                "{:width$}  {:>9}  {:>9}  {ratio:>6}  {:7}  {aim}",
                row.name,
                cell(row.causeway),
                cell(row.etcd),
                row.unit
            );
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out
    }

    pub(crate) fn json(&self) -> Value {
        let m = &self.machine;
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "name": row.name, "unit": row.unit, "causeway": row.causeway, "etcd": row.etcd,
                    "aim": row.aim.map(Aim::text),
                    "met": row.aim.zip(row.causeway).map(|(aim, value)| aim.met(value)),
                })
            })
            .collect();
        json!({
            "machine": {
                "cores": m.cores, "cpu": m.cpu, "kernel": m.kernel, "memoryGiB": m.memory_gib, "load": m.load,
                "filesystem": m.filesystem,
                "fdatasyncMs": {"p50": m.sync.median(), "p99": m.sync.quantile(0.99)},
            },
            "causeway": self.causeway, "etcd": self.etcd, "figures": rows,
        })
    }
}

/// Three significant digits, which is more than a shared machine can promise.
fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Samples;

    fn report() -> Report {
        let machine = Machine {
            cores: 2,
            cpu: "a processor".into(),
            kernel: "6.1".into(),
            memory_gib: 8.0,
            filesystem: "ext4".into(),
            load: "0 0 0".into(),
            sync: Samples::default(),
        };
        Report::new(machine, "causeway 0.1.0".into(), "3.4".into())
    }

    #[test]
    fn says_of_each_aim_whether_it_is_met() {
        let mut report = report();
        report.under("start", "ms", 200.0, 150.0);
        report.under("memory", "MiB", 50.0, 60.0);
        report.beside("creates", "per s", 900.0, Some(600.0), true);
        let table = report.table();
        assert!(table.contains("under 150: MISSED"), "{table}");
        assert!(table.contains("under 60.0: met"), "{table}");
        assert!(table.contains("1.50") && table.contains("over 600: met"), "{table}");
        assert_eq!(report.json()["figures"][0]["met"], false);
    }

    #[test]
    fn without_etcd_there_is_nothing_to_be_ahead_of() {
        let mut report = report();
        report.beside("creates", "per s", 900.0, None, true);
        assert!(report.json()["figures"][0]["met"].is_null());
    }
}
