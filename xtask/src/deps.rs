//! Keeps the arrows between crates as designed: who may depend on whom, and what a crate must never see.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde::Deserialize;

/// What `cargo metadata` says of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub packages: Vec<Package>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Package {
    pub name: String,
    pub dependencies: Vec<Dependency>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Dependency {
    pub name: String,
    /// `None` is a normal dependency; `dev` and `build` are named.
    pub kind: Option<String>,
    #[serde(default)]
    pub features: Vec<String>,
    pub uses_default_features: bool,
}

/// What one crate may depend on.
struct Fence {
    name: &'static str,
    /// Crates of the workspace that it may depend on.
    may_use: &'static [&'static str],
    /// Crates from elsewhere that it must never see; `kube`, `tokio` and `hyper` stand for their families.
    never: &'static [&'static str],
    /// Features of `kube` that it must not switch on.
    never_kube_features: &'static [&'static str],
}

const KUBERNETES: &[&str] = &["kube", "k8s-openapi", "gateway-api"];
const IO: &[&str] = &["kube", "k8s-openapi", "gateway-api", "tokio", "hyper", "axum", "rustix"];
const WAITING: &[&str] = &["kube", "k8s-openapi", "gateway-api", "tokio", "hyper", "axum"];
const CLIENT: &[&str] = &["kube-client", "kube-runtime", "tokio", "hyper", "axum", "tower"];

/// Features of `kube` that bring more than types; its default features do, too.
const TYPES_ONLY: &[&str] = &["client", "runtime", "ws", "config"];

const fn fence(
    name: &'static str,
    may_use: &'static [&'static str],
    never: &'static [&'static str],
) -> Fence {
    Fence { name, may_use, never, never_kube_features: &[] }
}

/// One line per crate; [`BASE`] goes without saying. A new crate is added here together with its first code.
const FENCES: &[Fence] = &[
    // It asks the kernel, but waits for nothing.
    fence(BASE, &[], WAITING),
    fence("causeway-journal", &[], WAITING),
    Fence { never_kube_features: TYPES_ONLY, ..fence("causeway-api", &[], CLIENT) },
    fence("causeway-ir", &[], IO),
    // Pure: from objects to plans.
    Fence {
        never_kube_features: TYPES_ONLY,
        ..fence("causeway-translate", &["causeway-api", "causeway-ir"], CLIENT)
    },
    // The data planes read plans and know nothing of Kubernetes.
    fence("causeway-engine", &["causeway-ir", "causeway-link"], KUBERNETES),
    fence("causeway-link", &[], KUBERNETES),
    fence("causeway-netstack", &[], KUBERNETES),
    fence("causeway-tunnel", &["causeway-ir", "causeway-link"], KUBERNETES),
    fence("causeway-stowaway", &["causeway-link", "causeway-netstack"], KUBERNETES),
    fence("causeway-xds", &["causeway-ir"], KUBERNETES),
    fence("causeway-dns", &["causeway-ir"], KUBERNETES),
    fence("causeway-dhcp", &["causeway-ir", "causeway-journal"], KUBERNETES),
    fence("causeway-providers", &[], KUBERNETES),
    fence("causeway-containers", &[], KUBERNETES),
    // Follows its object and runs a data plane.
    fence(
        "causeway-agent",
        &[
            "causeway-api",
            "causeway-dhcp",
            "causeway-dns",
            "causeway-engine",
            "causeway-ir",
            "causeway-link",
            "causeway-stowaway",
            "causeway-translate",
            "causeway-tunnel",
            "causeway-xds",
        ],
        &[],
    ),
    // No data plane: traffic goes on without the operator.
    fence(
        "causeway-controllers",
        &[
            "causeway-api",
            "causeway-containers",
            "causeway-ir",
            // For its authorities alone: who is who on links is for the operator to say.
            "causeway-link",
            "causeway-providers",
            "causeway-translate",
        ],
        &["axum", "bollard"],
    ),
    fence("causeway-apiserver", &["causeway-api", "causeway-journal"], &[]),
    fence("causeway-node", &["causeway-containers", "causeway-ir", "causeway-translate"], &["bollard"]),
    // Text alone; who applies it has a client.
    fence("causeway-chart", &[], IO),
    fence(TESTKIT, &["causeway-apiserver"], &[]),
    // Measures the program from outside; the ends of links also without a cluster, and a thousand laptops in one process.
    fence("causeway-bench", &["causeway-link", "causeway-netstack", "causeway-stowaway"], KUBERNETES),
    fence(CHORES, &["causeway-api", "causeway-chart"], &["tokio"]),
];

/// What every crate may use.
const BASE: &str = "causeway-base";
/// The binary composes everything but what is for tests.
const BINARY: &str = "causeway";
/// Starts for people what tests start for themselves.
const CHORES: &str = "xtask";
/// What any crate's tests may use, and nothing but tests and chores.
const TESTKIT: &str = "causeway-testkit";
/// Tests of any crate may also use it, as their cluster.
const CLUSTER: &str = "causeway-apiserver";

/// And this, as what serves what they plan.
const DATA_PLANE: &str = "causeway-engine";

/// Asks cargo for the workspace's crates.
pub(crate) fn read(root: &Path) -> anyhow::Result<Metadata> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .output()
        .context("starting cargo metadata")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "cargo metadata failed: {}", stderr.trim());
    serde_json::from_slice(&output.stdout).context("reading cargo metadata's answer")
}

/// One sentence per forbidden arrow.
pub(crate) fn violations(packages: &[Package]) -> Vec<String> {
    let members: Vec<&str> = packages.iter().map(|p| p.name.as_str()).collect();
    packages.iter().flat_map(|p| violations_of(p, &members)).collect()
}

fn violations_of(package: &Package, members: &[&str]) -> Vec<String> {
    let name = &package.name;
    let for_tests =
        package.dependencies.iter().filter(|d| d.name == TESTKIT && !d.is_dev() && name != CHORES);
    let mut found: Vec<String> =
        for_tests.map(|_| format!("{name} must not depend on {TESTKIT} but for its tests")).collect();
    if name == BINARY {
        return found;
    }
    let Some(fence) = FENCES.iter().find(|f| f.name == name) else {
        found.push(format!(
            "{name} has no line in the table of xtask/src/deps.rs: say there what it may depend on"
        ));
        return found;
    };
    for dependency in &package.dependencies {
        let target = dependency.name.as_str();
        if members.contains(&target) {
            let in_tests = dependency.is_dev() && [CLUSTER, DATA_PLANE].contains(&target);
            if ![BASE, TESTKIT].contains(&target) && !in_tests && !fence.may_use.contains(&target) {
                found.push(format!("{name} must not depend on {target}: {}", allowed(fence)));
            }
        } else if !dependency.is_dev() {
            // Tests may use what they like from elsewhere.
            found.extend(fence.complaint(dependency));
        }
    }
    found
}

impl Dependency {
    fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

impl Fence {
    /// What is wrong with a dependency from elsewhere.
    fn complaint(&self, dependency: &Dependency) -> Option<String> {
        let (name, target) = (self.name, dependency.name.as_str());
        if self.never.iter().any(|banned| same_family(banned, target)) {
            return Some(format!("{name} must never see {target}: move that code to a crate that may"));
        }
        if target != "kube" || self.never_kube_features.is_empty() {
            return None;
        }
        if dependency.uses_default_features {
            return Some(format!(
                "{name} must not switch on kube's default features: one of them is a client"
            ));
        }
        let feature = dependency.features.iter().find(|f| self.never_kube_features.contains(&f.as_str()))?;
        Some(format!("{name} must not switch on kube's feature {feature}: it holds types only"))
    }
}

fn allowed(fence: &Fence) -> String {
    match fence.may_use {
        [] => format!("of the workspace it may use {BASE} only"),
        some => format!("of the workspace it may use {BASE}, {} only", some.join(", ")),
    }
}

/// Whether a banned crate stands for this one: `tokio` does for `tokio-util` and `hyper` for `hyper-util`.
fn same_family(banned: &str, target: &str) -> bool {
    let family = ["kube", "tokio", "hyper"].contains(&banned);
    target == banned || (family && target.strip_prefix(banned).is_some_and(|rest| rest.starts_with('-')))
}

#[cfg(test)]
mod tests;
