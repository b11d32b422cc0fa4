//! The cluster of one test program, which goes with it however it ends.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::Kubernetes;
use super::network::CONTROL_PLANE;
use super::site;
use crate::kubectl::Kubectl;
use crate::peer;

/// A cluster of one test program. It goes with the value, and with the program when that is killed.
pub struct TestCluster {
    cluster: Kubernetes,
    name: String,
    kubeconfig: PathBuf,
    guardian: Child,
}

impl TestCluster {
    /// Starts one. Where it can't be had there is none, and the test is skipped by name.
    ///
    /// # Panics
    /// When it does not start, and where it can't be had although `CI=true`.
    pub fn start(nodes: u8) -> Option<Self> {
        if let Some(why) = missing() {
            peer::skip(&format!("a real Kubernetes {why}"));
            return None;
        }
        for name in site::abandoned() {
            let _ = Kubernetes::down(&name);
        }
        let name = format!("test-{}", std::process::id());
        let guardian = guardian(&name);
        let cluster =
            Kubernetes::up(&name, nodes).unwrap_or_else(|error| panic!("a real Kubernetes: {error:#}"));
        let address = cluster.forward((CONTROL_PLANE, 6443).into()).expect("a port of this machine");
        let text = fs::read_to_string(cluster.kubeconfig()).expect("the kubeconfig can be read");
        let kubeconfig = cluster.site.path("kubeconfig");
        let there = format!("{CONTROL_PLANE}:6443");
        fs::write(&kubeconfig, text.replace(&there, &format!("{}:{}", Ipv4Addr::LOCALHOST, address.port())))
            .expect("the kubeconfig can be written");
        Some(Self { cluster, name, kubeconfig, guardian })
    }

    /// The administrator's kubeconfig, for clients in this process and outside of the cluster's network.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// kubectl in a namespace of that name, which is made now.
    pub fn namespace(&self, name: &str) -> Kubectl {
        let kubectl = self.kubectl(name);
        kubectl.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")).ok();
        kubectl
    }

    /// kubectl as the administrator.
    pub fn kubectl(&self, namespace: &str) -> Kubectl {
        Kubectl::new(&self.kubeconfig, self.cluster.site.dir(), namespace)
    }
}

impl std::ops::Deref for TestCluster {
    type Target = Kubernetes;

    fn deref(&self) -> &Kubernetes {
        &self.cluster
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.cluster.say_logs();
        }
        let _ = self.guardian.kill();
        let _ = self.guardian.wait();
        if let Err(error) = Kubernetes::down(&self.name) {
            eprintln!("{error:#}");
        }
    }
}

fn missing() -> Option<&'static str> {
    let found = |program: &str| {
        Command::new("which").arg(program).output().is_ok_and(|output| output.status.success())
    };
    if !Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.starts_with(b"0\n")) {
        return Some("needs root");
    }
    let needed = ["containerd", "runc", "ctr", "nft", "kubectl", "busybox", "nsenter", "ip"];
    let all = needed.into_iter().all(found) && Path::new("/usr/lib/cni/bridge").exists();
    (!all).then_some("needs what scripts/test-deps.sh installs")
}

/// Removes the cluster when this process ends without doing so.
fn guardian(name: &str) -> Child {
    let test = std::env::current_exe().expect("the path of this program");
    let xtask = test.ancestors().nth(2).expect("a directory above").join("xtask");
    Command::new("sh")
        .args(["-c", r#"read _; exec "$1" cluster down --name "$2""#, "guardian"])
        .arg(xtask)
        .arg(name)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh runs")
}
