//! Keeps the arrows between crates as designed: who may depend on whom, and what a crate must never see.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde::Deserialize;

/// What `cargo metadata` says of the workspace.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    pub packages: Vec<Package>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Package {
    pub name: String,
    pub dependencies: Vec<Dependency>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Dependency {
    pub name: String,
    /// `None` is a normal dependency; `dev` and `build` are named.
    pub kind: Option<String>,
    #[serde(default)]
    pub features: Vec<String>,
}

/// What one crate may depend on.
struct Fence {
    name: &'static str,
    /// Crates of the workspace that it may depend on.
    may_use: &'static [&'static str],
    /// Crates from elsewhere that it must never see; `kube` stands for all of the family.
    never: &'static [&'static str],
    /// Features of `kube` that it must not switch on.
    never_kube_features: &'static [&'static str],
}

const KUBERNETES: &[&str] = &["kube", "k8s-openapi", "gateway-api"];
const IO: &[&str] =
    &["kube", "k8s-openapi", "gateway-api", "tokio", "tokio-util", "hyper", "hyper-util", "axum", "rustix"];
const CLIENT: &[&str] =
    &["kube-client", "kube-runtime", "tokio", "tokio-util", "hyper", "hyper-util", "axum", "tower"];

/// Features of `kube` that bring more than types.
const TYPES_ONLY: &[&str] = &["client", "runtime", "ws", "config"];

const fn fence(
    name: &'static str,
    may_use: &'static [&'static str],
    never: &'static [&'static str],
) -> Fence {
    Fence { name, may_use, never, never_kube_features: &[] }
}

/// One line per crate. A new crate is added here together with its first code.
const FENCES: &[Fence] = &[
    fence("causeway-base", &[], IO),
    Fence { never_kube_features: TYPES_ONLY, ..fence("causeway-api", &[], CLIENT) },
    fence("causeway-ir", &[], IO),
    Fence {
        never_kube_features: TYPES_ONLY,
        ..fence("causeway-translate", &["causeway-api", "causeway-ir"], CLIENT)
    },
    fence("causeway-engine", &["causeway-ir", "causeway-link"], KUBERNETES),
    fence("causeway-link", &[], KUBERNETES),
    fence("causeway-xds", &["causeway-ir"], KUBERNETES),
    fence("causeway-dns", &["causeway-ir"], KUBERNETES),
    fence("causeway-dhcp", &["causeway-ir"], KUBERNETES),
    fence("causeway-providers", &[], KUBERNETES),
    fence("causeway-containers", &[], KUBERNETES),
    fence(
        "causeway-controllers",
        &[
            "causeway-api",
            "causeway-containers",
            "causeway-ir",
            "causeway-link",
            "causeway-providers",
            "causeway-translate",
        ],
        &["axum", "bollard"],
    ),
    fence("causeway-agent", &["causeway-api", "causeway-ir", "causeway-translate"], &["bollard"]),
    fence("causeway-apiserver", &["causeway-api"], &[]),
    fence("causeway-node", &["causeway-containers", "causeway-ir", "causeway-translate"], &["bollard"]),
    // Measures the program from outside.
    fence("causeway-bench", &[], KUBERNETES),
    fence("xtask", &["causeway-api"], &["tokio"]),
];

/// What every crate may use.
const BASE: &str = "causeway-base";
/// The binary composes everything.
const BINARY: &str = "causeway";
/// May be a dev-dependency of any crate: tests use it as their fake cluster.
const TEST_FAKE: &str = "causeway-apiserver";

/// Asks cargo for the workspace's crates.
pub fn read(root: &Path) -> anyhow::Result<Metadata> {
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
pub fn violations(packages: &[Package]) -> Vec<String> {
    let members: Vec<&str> = packages.iter().map(|p| p.name.as_str()).collect();
    packages.iter().filter(|p| p.name != BINARY).flat_map(|p| violations_of(p, &members)).collect()
}

fn violations_of(package: &Package, members: &[&str]) -> Vec<String> {
    let name = &package.name;
    let Some(fence) = FENCES.iter().find(|f| f.name == name) else {
        return vec![format!(
            "{name} has no line in the table of xtask/src/deps.rs: say there what it may depend on"
        )];
    };
    let mut found = Vec::new();
    for dependency in &package.dependencies {
        let dev = dependency.kind.as_deref() == Some("dev");
        let target = dependency.name.as_str();
        if members.contains(&target) {
            let allowed_to_all = target == BASE || (dev && target == TEST_FAKE);
            if !allowed_to_all && !fence.may_use.contains(&target) {
                found.push(format!("{name} must not depend on {target}: {}", allowed(fence)));
            }
            continue;
        }
        // Tests may use what they like from elsewhere.
        if dev {
            continue;
        }
        if fence.never.iter().any(|banned| same_family(banned, target)) {
            found.push(format!("{name} must never see {target}: move that code to a crate that may"));
        }
        let features = fence.never_kube_features;
        if let Some(feature) =
            dependency.features.iter().find(|f| target == "kube" && features.contains(&f.as_str()))
        {
            found.push(format!("{name} must not switch on kube's feature {feature}: it holds types only"));
        }
    }
    found
}

fn allowed(fence: &Fence) -> String {
    match fence.may_use {
        [] => "it stands alone in the workspace".to_owned(),
        some => format!("of the workspace it may use {} only", some.join(", ")),
    }
}

fn same_family(banned: &str, target: &str) -> bool {
    target == banned || (banned == "kube" && target.starts_with("kube-"))
}

#[cfg(test)]
mod tests;
