//! A real Kubernetes on this machine, for tests and for people (`cargo xtask cluster`): etcd, API server, controllers and
//! scheduler, one or two nodes with containerd, kubelet, kube-proxy and Multus, and CoreDNS.
//!
//! It lives in network namespaces without a route to the outside. Images are loaded, never pulled. Needs root. Without nodes it
//! is the API alone, with the controllers that need nothing else.

mod control_plane;
mod forward;
mod identities;
mod image;
mod network;
mod node;
mod programs;
mod site;
mod test_cluster;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

pub use image::{BUSYBOX, File, Image};
pub use programs::{GATEWAY_API_DEFINITIONS, gateway_api_module};
pub use test_cluster::TestCluster;

use identities::Identities;
use image::{COREDNS, PAUSE};
use network::{DNS_SERVICE, in_namespace};
use node::Node;
use programs::Programs;
use site::{MOST_NODES, Site, run};

/// Objects that every cluster has: its DNS, and the kind by which pods ask for further networks.
const PREINSTALLED: [&str; 2] = [
    include_str!("../kubernetes/coredns.yaml"),
    include_str!("../../apiserver/crds/k8s.cni.cncf.io_network-attachment-definitions.json"),
];
const PATIENCE: Duration = Duration::from_mins(1);

/// A cluster that runs.
pub struct Kubernetes {
    site: Site,
    nodes: u8,
    programs: Programs,
    /// Those that this process started.
    parts: Mutex<Vec<Part>>,
}

/// A program of a cluster, and how it was started.
struct Part {
    name: String,
    command: Command,
    child: Child,
}

impl Kubernetes {
    /// Starts a cluster of that name; one that is there already is removed first.
    ///
    /// # Errors
    /// When a program can't be compiled or started, or the cluster is not ready within a minute.
    pub fn up(name: &str, nodes: u8) -> anyhow::Result<Self> {
        if nodes > MOST_NODES {
            bail!("a cluster has up to {MOST_NODES} nodes, not {nodes}");
        }
        let site = Site::new(name)?;
        let programs = Programs::ready()?;
        site.clear()?;
        fs::create_dir_all(site.path("logs"))?;
        let cluster = Self { site, nodes, programs, parts: Mutex::default() };
        if let Err(error) = cluster.start() {
            cluster.say_logs();
            cluster.site.clear()?;
            return Err(error);
        }
        Ok(cluster)
    }

    /// Compiles what clusters run, unless that was done before.
    ///
    /// # Errors
    /// When something can't be had or does not compile.
    pub fn build() -> anyhow::Result<()> {
        Programs::ready().map(drop)
    }

    /// Removes a cluster with all it made; one that is not there is no error.
    ///
    /// # Errors
    /// When something of it can't be removed.
    pub fn down(name: &str) -> anyhow::Result<()> {
        Site::new(name)?.clear()
    }

    /// A cluster that `up` made, of another process perhaps.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn find(name: &str) -> anyhow::Result<Self> {
        let site = Site::new(name)?;
        let exists = |number: &u8| site.path(&format!("node-{number}")).exists();
        let nodes = (1..=MOST_NODES).filter(exists).count() as u8;
        if !site.dir().exists() {
            bail!("there is no cluster {name:?}: start it with `cargo xtask cluster up --name {name}`");
        }
        Ok(Self { programs: Programs::ready()?, site, nodes, parts: Mutex::default() })
    }

    fn start(&self) -> anyhow::Result<()> {
        let (site, programs) = (&self.site, &self.programs);
        let who = Identities::create(&site.path("identities"))?;
        let admin = who.client("admin", "admin", "system:masters")?;
        network::lay(site, self.nodes).context("laying the network")?;
        let mut containerds = Vec::new();
        for number in 1..=self.nodes {
            let node = Node::new(site, number);
            node.prepare(programs, &who)?;
            site::make_cgroup(&site.cgroup(number))?;
            containerds.push(self.spawn(&format!("{}-containerd", node.name()), node.containerd())?);
        }
        let spawn_all = |parts: &[&str]| {
            parts.iter().try_for_each(|part| {
                self.spawn(part, control_plane::command(part, site, programs, &who, self.nodes)?).map(drop)
            })
        };
        spawn_all(&control_plane::API)?;
        if self.nodes > 0 {
            self.load_basics()?;
        }
        self.until("the API server is ready", || {
            self.kubectl_command(&admin, &["get", "--raw=/readyz"]).is_ok()
        })?;
        if self.nodes == 0 {
            return spawn_all(&control_plane::CLIENTS[..1]);
        }
        spawn_all(&control_plane::CLIENTS)?;
        for (number, containerd) in (1..).zip(&containerds) {
            let node = Node::new(site, number);
            self.spawn(&format!("{}-kubelet", node.name()), node.kubelet(*containerd, programs, &who)?)?;
            self.spawn(&format!("{}-kube-proxy", node.name()), node.proxy(*containerd, programs))?;
        }
        for (number, objects) in (1..).zip(PREINSTALLED) {
            let file = site.path(&format!("objects-{number}.yaml"));
            fs::write(&file, objects)?;
            self.until("the first objects are accepted", || {
                self.kubectl_command(&admin, &["apply", "--filename", &file.display().to_string()]).is_ok()
            })?;
        }
        let ready = |what: &str, arguments: &[&str]| {
            self.until(what, || self.kubectl_command(&admin, arguments).is_ok())
        };
        let nodes: Vec<String> = (1..=self.nodes).map(|number| format!("node/node-{number}")).collect();
        let mut wait = vec!["wait", "--for=condition=Ready", "--timeout=1s"];
        wait.extend(nodes.iter().map(String::as_str));
        ready("the nodes are ready", &wait)?;
        // Through kube-proxy, as pods ask.
        self.until("DNS answers", || {
            let mut lookup = in_namespace(&site.node(1), "busybox");
            lookup.args(["timeout", "1", "busybox", "nslookup", "kubernetes.default.svc.cluster.local"]);
            run(lookup.arg(DNS_SERVICE.to_string())).is_ok()
        })
    }

    /// The images that pods need whatever they do.
    fn load_basics(&self) -> anyhow::Result<()> {
        let dns = Image::of_static(COREDNS, &self.programs.coredns())?;
        for image in
            [Image::busybox(PAUSE, &["/bin/sleep", "infinity"])?, Image::busybox(BUSYBOX, &["/bin/sh"])?, dns]
        {
            self.load(&image)?;
        }
        Ok(())
    }

    fn spawn(&self, name: &str, mut command: Command) -> anyhow::Result<u32> {
        use std::os::unix::process::CommandExt as _;
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_file(name))?;
        // A group of its own: what ends the caller from a terminal does not end the cluster.
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        let child = command.spawn().with_context(|| format!("starting {name}"))?;
        let pid = child.id();
        self.running().push(Part { name: name.to_owned(), command, child });
        Ok(pid)
    }

    fn running(&self) -> MutexGuard<'_, Vec<Part>> {
        self.parts.lock().expect("nobody panics while he holds it")
    }

    fn part<T>(&self, name: &str, change: impl FnOnce(&mut Part) -> std::io::Result<T>) -> anyhow::Result<T> {
        let mut parts = self.running();
        let part = parts.iter_mut().find(|part| part.name == name);
        let part = part.with_context(|| format!("{name} was not started here"))?;
        change(part).with_context(|| format!("changing {name}"))
    }

    /// Kills a part that this process started: `etcd`, `kube-apiserver`, `node-1-kubelet`, …
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn stop(&self, part: &str) -> anyhow::Result<()> {
        self.part(part, |part| part.child.kill().and_then(|()| part.child.wait()).map(drop))
    }

    /// Starts a part again that was stopped.
    ///
    /// # Errors
    /// When there is none of that name, or it does not start.
    pub fn restart(&self, part: &str) -> anyhow::Result<()> {
        self.part(part, |part| {
            part.child = part.command.spawn()?;
            Ok(())
        })
    }

    fn until(&self, what: &str, look: impl Fn() -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !look() {
            for part in &mut *self.running() {
                if let Some(status) = part.child.try_wait()? {
                    bail!("cluster: {} ended ({status})", part.name);
                }
            }
            if Instant::now() > deadline {
                bail!("cluster: after {PATIENCE:?} it is still not so that {what}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Loads an image into every node.
    ///
    /// # Errors
    /// When it can't be written or a node refuses it.
    pub fn load(&self, image: &Image) -> anyhow::Result<()> {
        let archive = self.site.path("image.tar");
        image.write(&archive)?;
        self.load_archive(&archive)?;
        fs::remove_file(archive)?;
        Ok(())
    }

    /// Loads an archive of images into every node.
    ///
    /// # Errors
    /// When a node refuses it.
    pub fn load_archive(&self, archive: &Path) -> anyhow::Result<()> {
        for number in 1..=self.nodes {
            let socket = Node::new(&self.site, number).socket();
            self.until("containerd answers", || socket.exists())?;
            let mut import = Command::new("ctr");
            import.arg("--address").arg(&socket).args(["--namespace", "k8s.io", "images", "import"]);
            run(import.arg(archive))?;
        }
        Ok(())
    }

    /// Where a part writes to: `etcd`, `kube-apiserver`, `node-1-kubelet`, …
    pub fn log_file(&self, part: &str) -> PathBuf {
        self.site.path("logs").join(part)
    }

    /// The parts that have written.
    pub fn parts(&self) -> Vec<String> {
        let entries = fs::read_dir(self.site.path("logs")).into_iter().flatten().flatten();
        let mut parts: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        parts.sort();
        parts
    }

    fn say_logs(&self) {
        for part in self.parts() {
            let text = fs::read_to_string(self.log_file(&part)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            eprintln!("--- end of {part}'s log\n{}", lines[lines.len().saturating_sub(12)..].join("\n"));
        }
    }

    /// The administrator's kubeconfig. Its server is an address of the cluster's own network.
    pub fn kubeconfig(&self) -> PathBuf {
        self.site.path("identities/admin.kubeconfig")
    }

    /// A command that runs in the control plane's network namespace.
    pub fn command(&self, program: &str) -> Command {
        in_namespace(&self.site.hub(), program)
    }

    /// A command that runs in the network namespace of the first node, from which Services are reached.
    pub fn on_node(&self, program: &str) -> Command {
        in_namespace(&self.site.node(1), program)
    }

    /// The network namespace of the first node, for threads of this process, and the node's address in it.
    pub fn node_network(&self) -> (PathBuf, Ipv4Addr) {
        (site::network_namespace(&self.site.node(1)), network::node_address(1))
    }

    fn kubectl_command(&self, kubeconfig: &Path, arguments: &[&str]) -> anyhow::Result<String> {
        run(self.command("kubectl").arg("--kubeconfig").arg(kubeconfig).args(arguments))
    }

    /// A bridge of that name on every node, all of them one network without addresses.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn lay_vlan(&self, name: &str) -> anyhow::Result<()> {
        network::lay_vlan(&self.site, self.nodes, name)
    }

    /// Plugs a machine with one address (`192.168.100.10/24`) into such a network: a virtual machine, as the network sees it.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn plug_in(&self, vlan: &str, name: &str, address: &str) -> anyhow::Result<Machine> {
        network::plug_in(&self.site, vlan, name, address)?;
        Ok(Machine { namespace: self.site.machine(name) })
    }

    /// Applies the kinds of Gateway API, experimental ones too.
    ///
    /// # Errors
    /// When the API server refuses them.
    pub fn install_gateway_api(&self) -> anyhow::Result<()> {
        let dir = self.programs.gateway_api().display().to_string();
        let apply = ["apply", "--server-side", "--filename", &dir];
        self.kubectl_command(&self.kubeconfig(), &apply).map(drop)
    }

    /// Loads what the pods of Gateway API's conformance suite run, and gives back the suite, as a command on a node: the
    /// addresses of Gateways are the cluster's own.
    ///
    /// # Errors
    /// When it does not compile, or a node refuses the image.
    pub fn conformance_suite(&self) -> anyhow::Result<Command> {
        let (suite, echo) = self.programs.conformance()?;
        for version in ["v0.1.0", "v0.2.0"] {
            let name = format!("registry.k8s.io/gateway-api/conformance/echo-basic:{version}");
            self.load(&Image::of_static(&name, &echo)?)?;
        }
        let mut command = in_namespace(&self.site.node(1), &suite.display().to_string());
        command.env("KUBECONFIG", self.kubeconfig());
        Ok(command)
    }

    /// Applies KubeVirt's definition of VirtualMachineInstances.
    ///
    /// # Errors
    /// When its module can't be had, or the API server refuses it.
    pub fn install_virtual_machine_instances(&self) -> anyhow::Result<()> {
        let file = self.programs.virtual_machine_instances()?.display().to_string();
        let apply = ["apply", "--server-side", "--filename", &file];
        self.kubectl_command(&self.kubeconfig(), &apply).map(drop)
    }

    /// A port of this machine's loopback that leads to an address of the cluster, while this process lives.
    ///
    /// # Errors
    /// When no port can be listened on.
    pub fn forward(&self, target: SocketAddr) -> anyhow::Result<SocketAddr> {
        Ok(forward::forward(site::network_namespace(&self.site.hub()), target)?)
    }
}

/// A machine that is no part of the cluster.
pub struct Machine {
    namespace: String,
}

impl Machine {
    /// A command that runs on it.
    pub fn command(&self, program: &str) -> Command {
        in_namespace(&self.namespace, program)
    }
}
