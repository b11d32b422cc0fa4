//! A node of a cluster: containerd, kubelet and kube-proxy in one network and one mount namespace of their own.
//!
//! What they mount, and what they write to places that can't be chosen (`/run`, `/var`), is seen in that mount namespace
//! alone and goes with its last process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::json;

use super::identities::Identities;
use super::image::PAUSE;
use super::network::{DNS_SERVICE, PODS, in_namespace, node_address, pods_of};
use super::programs::Programs;
use super::site::Site;

/// Where Debian puts the plugins of the container network interface.
const PLUGINS: &str = "/usr/lib/cni";

/// One node and its directory.
pub(super) struct Node<'a> {
    site: &'a Site,
    number: u8,
}

impl<'a> Node<'a> {
    pub(super) fn new(site: &'a Site, number: u8) -> Self {
        Self { site, number }
    }

    pub(super) fn name(&self) -> String {
        format!("node-{}", self.number)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.site.path(&self.name()).join(name)
    }

    /// containerd's.
    pub(super) fn socket(&self) -> PathBuf {
        self.path("containerd.sock")
    }

    /// Writes the files that its parts read.
    ///
    /// # Errors
    /// When one can't be written, or the plugins are not installed.
    pub(super) fn prepare(&self, programs: &Programs, who: &Identities) -> anyhow::Result<()> {
        for dir in ["cni/bin", "cni/conf", "kubelet", "var", "var.work"] {
            fs::create_dir_all(self.path(dir))?;
        }
        let plugins =
            fs::read_dir(PLUGINS).with_context(|| format!("{PLUGINS} (containernetworking-plugins)"))?;
        for plugin in plugins {
            let plugin = plugin?;
            std::os::unix::fs::symlink(plugin.path(), self.path("cni/bin").join(plugin.file_name()))?;
        }
        std::os::unix::fs::symlink(programs.multus(), self.path("cni/bin/multus"))?;
        self.write("containerd.toml", &self.containerd_configuration())?;
        let pods = self.path("cni/pods.conf");
        self.write("cni/pods.conf", &self.pod_network().to_string())?;
        let multus = who.client("multus", "multus", "system:masters")?;
        self.write("cni/conf/00-multus.conf", &self.multus_configuration(&pods, &multus).to_string())?;
        self.write("kubelet.json", &self.kubelet_configuration(who).to_string())?;
        let proxy = who.client("kube-proxy", "system:kube-proxy", "system:node-proxier")?;
        self.write("kube-proxy.json", &self.proxy_configuration(&proxy).to_string())
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        fs::write(self.path(name), text).with_context(|| format!("writing {}", self.path(name).display()))
    }

    /// The first process of the node: it makes the mount namespace.
    pub(super) fn containerd(&self) -> Command {
        let script = r#"set -e
            mount --make-rshared /
            mount -t tmpfs tmpfs /run
            mount -t overlay overlay -o "lowerdir=/var,upperdir=$1/var,workdir=$1/var.work" /var
            exec containerd --config "$1/containerd.toml""#;
        let mut command = in_namespace(&self.site.node(self.number), "unshare");
        command
            .args(["--mount", "--propagation", "private", "sh", "-c", script, "containerd"])
            .arg(self.path(""));
        command
    }

    /// In the namespaces of the node's containerd.
    pub(super) fn kubelet(
        &self,
        containerd: u32,
        programs: &Programs,
        who: &Identities,
    ) -> anyhow::Result<Command> {
        let user = format!("system:node:{}", self.name());
        let kubeconfig = who.client(&format!("kubelet-{}", self.number), &user, "system:nodes")?;
        let mut command = beside(containerd, &programs.kubernetes());
        command
            .arg("kubelet")
            .arg(format!("--config={}", self.path("kubelet.json").display()))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--root-dir={}", self.path("kubelet").display()))
            .arg(format!("--hostname-override={}", self.name()))
            .arg(format!("--node-ip={}", node_address(self.number)));
        Ok(command)
    }

    /// In the namespaces of the node's containerd.
    pub(super) fn proxy(&self, containerd: u32, programs: &Programs) -> Command {
        let mut command = beside(containerd, &programs.kubernetes());
        command.arg("kube-proxy").arg(format!("--config={}", self.path("kube-proxy.json").display()));
        command
    }

    fn containerd_configuration(&self) -> String {
        let path = |name: &str| self.path(name).display().to_string();
        format!(
            "version = 2\nroot = {root:?}\nstate = {state:?}\ndisabled_plugins = [\"io.containerd.internal.v1.opt\"]\n\
             [grpc]\naddress = {socket:?}\n\
             [plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = {PAUSE:?}\nrestrict_oom_score_adj = true\n\
             [plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = {bin:?}\nconf_dir = {conf:?}\n",
            root = path("containerd"),
            state = path("containerd.state"),
            socket = path("containerd.sock"),
            bin = path("cni/bin"),
            conf = path("cni/conf"),
        )
    }

    fn pod_network(&self) -> serde_json::Value {
        let addresses = json!({
            "type": "host-local",
            "ranges": [[{"subnet": pods_of(self.number)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        });
        // One plugin and not a list of them: what Multus 4.2 remembers of a list is too little to undo it.
        json!({
            "cniVersion": "1.0.0",
            "name": "pods",
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": true,
            "hairpinMode": true,
            "ipam": addresses,
        })
    }

    fn multus_configuration(&self, pods: &Path, kubeconfig: &Path) -> serde_json::Value {
        json!({
            "cniVersion": "1.0.0",
            "name": "multus",
            "type": "multus",
            "kubeconfig": kubeconfig,
            "clusterNetwork": pods,
            "binDir": self.path("cni/bin"),
            "confDir": self.path("cni/conf"),
            "logLevel": "error",
            "logFile": self.path("multus.log"),
        })
    }

    fn kubelet_configuration(&self, who: &Identities) -> serde_json::Value {
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": format!("unix://{}", self.socket().display()),
            "authentication": {"x509": {"clientCAFile": who.path("ca.crt")}, "anonymous": {"enabled": false}},
            "clusterDNS": [DNS_SERVICE],
            "clusterDomain": "cluster.local",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": format!("/{}", self.site.cgroup(self.number)),
            "failCgroupV1": false,
            "failSwapOn": false,
            "enforceNodeAllocatable": [],
            "localStorageCapacityIsolation": false,
            "resolvConf": "",
            "volumePluginDir": self.path("plugins"),
            // A test must not fail because the disk of a developer's machine is nearly full.
            "evictionHard": {"memory.available": "10Mi", "nodefs.available": "0.1%", "imagefs.available": "0.1%"},
            "imageGCHighThresholdPercent": 100,
            "maxPods": 250,
        })
    }

    fn proxy_configuration(&self, kubeconfig: &Path) -> serde_json::Value {
        json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clientConnection": {"kubeconfig": kubeconfig},
            "clusterCIDR": PODS,
            "hostnameOverride": self.name(),
            // The limits of connection tracking belong to the machine.
            "conntrack": {"maxPerCore": 0, "min": 0},
        })
    }
}

/// A command in the network and mount namespaces of a process.
fn beside(process: u32, program: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--target={process}")).args(["--net", "--mount", "--"]).arg(program);
    command
}
