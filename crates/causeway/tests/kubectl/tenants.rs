//! What somebody may do who was given `edit` in one namespace: work in it, and not a step further. docs/security.md
//! promises it.

use std::path::PathBuf;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::Kubectl;
use tempfile::TempDir;

use crate::peer::shared;

const WAITING: &str = ".status.containerStatuses[0].state.waiting.message";

/// A namespace of its own, and kubectl with the credentials of somebody who may edit it.
pub struct Tenant {
    pub kubectl: Kubectl,
    pub admin: Kubectl,
    home: TempDir,
}

impl Tenant {
    pub fn new(namespace: &str) -> Self {
        let server = shared();
        let admin = server.namespace(namespace);
        admin.ok(&["create", "serviceaccount", "mallory"]);
        let account = format!("--serviceaccount={namespace}:mallory");
        admin.ok(&["create", "rolebinding", "mallory", "--clusterrole=edit", &account]);
        let token = admin.ok(&["create", "token", "mallory", "--duration=1h"]);
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("config");
        std::fs::copy(server.kubeconfig(), &config).unwrap();
        let kubectl = Kubectl::new(&config, home.path(), namespace);
        kubectl.ok(&["config", "set-credentials", "mallory", "--token", token.trim()]);
        kubectl.ok(&["config", "set-context", "--current", "--user=mallory"]);
        // Only the token is left of who they are.
        kubectl.ok(&["config", "delete-user", "causeway"]);
        let who = kubectl.ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]);
        assert_eq!(who, format!("system:serviceaccount:{namespace}:mallory"));
        Self { kubectl, admin, home }
    }

    /// A file that a pod makes if it gets a program of its own to run.
    fn trophy(&self) -> PathBuf {
        self.home.path().join("trophy")
    }

    /// What the pod's only container waits for.
    fn waits(&self, pod: &str, why: &[&str]) {
        eventually(&format!("{pod} waits, and says {why:?}"), PATIENCE, || {
            let said = self.kubectl.value(&format!("pod/{pod}"), WAITING);
            why.iter().all(|why| said.contains(why))
        });
        assert!(!self.trophy().exists(), "{pod} ran a program of its own choice");
    }
}

/// A pod of Causeway's own image; `container` is the rest of its container, in one line of YAML.
fn pod(name: &str, container: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers:\n  - {{name: c, image: 'causeway.dev/causeway:1', {container}}}\n"
    )
}

#[test]
fn a_pod_runs_data_planes_and_no_program_of_the_machine() {
    let tenant = Tenant::new("tenant-commands");
    let trophy = tenant.trophy().display().to_string();
    let up = format!("up, --in-memory, --data-dir, /tmp/x, --listen, '127.0.0.1:0', --, touch, '{trophy}'");
    for (name, container, why) in [
        ("args", format!("args: [{up}]"), "\"up\" can't be run by a pod"),
        ("command", format!("command: [causeway], args: [{up}]"), "\"up\" can't be run by a pod"),
        ("all-command", format!("command: [/usr/bin/causeway, {up}]"), "\"up\" can't be run by a pod"),
        ("option-first", format!("args: [--log, info, {up}]"), "\"--log\" can't be run by a pod"),
        (
            "from-a-variable",
            format!("args: [$(VERB), --, touch, '{trophy}'], env: [{{name: VERB, value: up}}]"),
            "\"up\" can't be run by a pod",
        ),
        ("shim", format!("args: [pod-shim, exec, '{trophy}']"), "\"pod-shim\" can't be run"),
        ("operator", "args: [operator]".into(), "\"operator\" can't be run"),
        ("demo", "args: [demo, proxy]".into(), "\"demo\" can't be run"),
        ("engine", "args: [engine, plan.yaml]".into(), "\"engine\" can't be run"),
        ("tunnel", "args: [tunnel, server]".into(), "\"tunnel\" can't be run"),
        ("shell", format!("command: [sh, -c, 'touch {trophy}']"), "executable file not found"),
    ] {
        tenant.kubectl.apply(&pod(name, &container)).ok();
        tenant.waits(name, &[why]);
    }
}

#[test]
fn a_pod_serves_no_network_of_the_machine() {
    let tenant = Tenant::new("tenant-networks");
    let plan =
        "{interface: eth0, server: 10.0.0.2, network: 10.0.0.0/24, pool: {first: 10.0.0.9, last: 10.0.0.99}}";
    tenant.kubectl.ok(&["create", "configmap", "plan", &format!("--from-literal=pool.yaml={plan}")]);
    let mounted = |name: &str, container: &str| {
        let volumes = "  volumes: [{name: plan, configMap: {name: plan}}]\n";
        pod(name, &format!("{container}, volumeMounts: [{{name: plan, mountPath: /plan}}]")) + volumes
    };
    let leases = "args: [dhcp, --config, /plan/pool.yaml]";
    let follows = "args: [dhcp, --server-name, x, --server-ip, 10.0.0.2, --pod-ip, 127.128.0.9]";
    let words = ["\"dhcp\" serves a whole network", "k8s.v1.cni.cncf.io/networks", "kubectl label namespace"];
    for (name, container) in [("leases", leases), ("follows", follows)] {
        tenant.kubectl.apply(&mounted(name, container)).ok();
        tenant.waits(name, &words);
    }
}

#[test]
fn a_probe_or_a_hook_is_held_to_the_same() {
    let tenant = Tenant::new("tenant-probes");
    let trophy = tenant.trophy().display().to_string();
    for (name, command) in [
        ("up", format!("[causeway, up, --in-memory, --, touch, '{trophy}']")),
        ("shell", format!("[sh, -c, 'touch {trophy}']")),
        ("file", "[causeway, echo, --tls-cert, /etc/passwd, --tls-key, /etc/passwd]".into()),
        ("network", "[causeway, dhcp, --config, plan.yaml]".into()),
    ] {
        let exec = format!("{{exec: {{command: {command}}}}}");
        let probe = format!("args: [echo], readinessProbe: {exec}, lifecycle: {{preStop: {exec}}}");
        tenant.kubectl.apply(&pod(name, &probe)).ok();
        eventually("the probe is refused", PATIENCE, || {
            let events = tenant.kubectl.ok(&["events", "--for", &format!("pod/{name}")]);
            events.contains("probe failed")
                && [
                    "can't be run by a pod",
                    "executable file not found",
                    "names a file of this machine",
                    "serves a whole network",
                ]
                .iter()
                .any(|why| events.contains(why))
        });
        tenant.kubectl.ok(&["delete", "pod", name]);
        assert!(!tenant.trophy().exists(), "{name}");
    }
}

#[test]
fn a_pod_names_no_files_of_the_machine_and_loads_nothing_into_the_program() {
    let tenant = Tenant::new("tenant-files");
    let data = shared().data_dir();
    let admin = shared().kubeconfig().display().to_string();
    let trophy = tenant.trophy().display().to_string();
    let proxy = "proxy, --proxy-name, x, --pod-ip, 127.0.0.1";
    for (name, container) in [
        (
            "key",
            format!("args: [echo, --tls-cert, '{0}', --tls-key, '{0}']", data.join("pki/ca.key").display()),
        ),
        ("log", format!("args: [{proxy}, '--access-log={trophy}']")),
        ("state", format!("args: [{proxy}, --state-dir, '{trophy}']")),
        ("dots", format!("args: [{proxy}, --state-dir, '../../../../../../../../../../../..{trophy}']")),
        (
            "over-a-mount",
            format!(
                "args: [{proxy}, --state-dir, '/state/../../../../../../../../../../../../..{trophy}'], volumeMounts: [{{name: s, mountPath: /state}}]"
            ),
        ),
        // As a text it stays below the container's root, where the mount is a link to a volume of the pod.
        (
            "through-a-link",
            format!(
                "args: [{proxy}, --state-dir, a/b/c/d/e/f/g/../../../../../../../trophy], volumeMounts: [{{name: s, mountPath: /a/b/c/d/e/f/g}}]"
            ),
        ),
        ("by-variable", format!("args: [{proxy}, --state-dir, $(P)], env: [{{name: P, value: '{trophy}'}}]")),
    ] {
        let volume = "  volumes: [{name: s, emptyDir: {}}]\n";
        tenant.kubectl.apply(&format!("{}{volume}", pod(name, &container))).ok();
        tenant.waits(name, &["names a file of this machine"]);
    }

    let variables = [
        ("KUBECONFIG", admin.as_str()),
        ("LD_PRELOAD", &trophy),
        ("CAUSEWAY_DATA_DIR", "/x"),
        ("HOME", "/root"),
    ];
    let env: Vec<String> =
        variables.iter().map(|(name, value)| format!("{{name: {name}, value: '{value}'}}")).collect();
    let container =
        format!("args: [echo, --name, of-mallory, --listen, '127.0.0.1:0'], env: [{}]", env.join(", "));
    tenant.kubectl.apply(&pod("environment", &container)).ok();
    tenant.kubectl.ok(&["wait", "--for=condition=Ready", "pod/environment", "--timeout=60s"]);
    let environment = environment_of("of-mallory");
    for (name, value) in variables {
        let entry = format!("{name}={value}");
        assert!(!environment.contains(&entry), "{entry} reached the process: {environment:?}");
    }
    assert!(environment.iter().any(|entry| entry.starts_with("KUBECONFIG=")), "the pod's own stays");
}

/// The environment of the process with this argument.
fn environment_of(argument: &str) -> Vec<String> {
    let text = |path: PathBuf| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let found = processes
        .into_iter()
        .find(|process| text(process.path().join("cmdline")).split('\0').any(|part| part == argument))
        .expect("the process runs");
    text(found.path().join("environ")).split('\0').map(str::to_owned).collect()
}

#[test]
fn what_reaches_the_host_is_refused_to_pods_and_to_controllers_that_make_them() {
    let tenant = Tenant::new("tenant-host");
    let spec = |more: &str| {
        format!("{{{more}, containers: [{{name: c, image: 'causeway.dev/causeway:1', args: [echo]}}]}}")
    };
    for (name, spec, why) in [
        ("path", spec("volumes: [{name: v, hostPath: {path: /}}]"), "hostPath volumes"),
        ("network", spec("hostNetwork: true"), "hostNetwork=true"),
        ("pid", spec("hostPID: true"), "hostPID=true"),
        (
            "port",
            "{containers: [{name: c, image: x, ports: [{containerPort: 80, hostPort: 8080}]}]}".into(),
            "hostPort",
        ),
        (
            "privileged",
            "{containers: [{name: c, image: x, securityContext: {privileged: true}}]}".into(),
            "privileged=true",
        ),
        (
            "capability",
            "{containers: [{name: c, image: x, securityContext: {capabilities: {add: [SYS_ADMIN]}}}]}".into(),
            "SYS_ADMIN",
        ),
    ] {
        let pod = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {spec}\n");
        let refused = tenant.kubectl.apply(&pod).fails();
        for said in ["violates PodSecurity \"baseline:latest\"", why, "kubectl label namespace tenant-host"] {
            assert!(refused.contains(said), "{said} in {refused}");
        }
    }
    let deployment = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec: {}\n",
        spec("hostNetwork: true")
    );
    tenant.kubectl.apply(&deployment).ok();
    eventually("the ReplicaSet's pods are refused", PATIENCE, || {
        tenant.kubectl.ok(&["events"]).contains("violates PodSecurity")
    });
    assert_eq!(tenant.kubectl.ok(&["get", "pods", "-o", "name"]), "");

    // The right is the administrator's to give, and a namespace that has it may.
    let level = "pod-security.kubernetes.io/enforce=privileged";
    assert!(tenant.kubectl.fails(&["label", "namespace", "tenant-host", level]).contains("orbidden"));
    tenant.admin.trust();
    eventually("a trusted namespace has its pod", PATIENCE, || {
        !tenant.kubectl.ok(&["get", "pods", "-o", "name"]).is_empty()
    });
}

#[test]
fn edit_is_of_one_namespace_and_not_of_what_restrains_it() {
    let tenant = Tenant::new("tenant-rights");
    let may = |args: &[&str]| tenant.kubectl.run(&[&["auth", "can-i"], args].concat()).stdout == "yes\n";
    for verb in ["create", "patch", "delete"] {
        for kind in ["pods", "deployments", "proxyservers", "infras", "containernetworktunnelproxies"] {
            assert!(may(&[verb, kind]), "{verb} {kind}");
        }
        for kind in
            ["hostnamegrants", "containernetworks", "interceptrequests", "endpointslices", "namespaces"]
        {
            assert!(!may(&[verb, kind]), "{verb} {kind}");
        }
    }
    assert!(may(&["list", "hostnamegrants"]) && may(&["list", "containernetworks"]));
    for other in ["default", "kube-system", "causeway-system"] {
        for what in [["get", "secrets"], ["create", "pods"], ["create", "serviceaccounts/token"]] {
            assert!(!may(&[what[0], what[1], "-n", other]), "{what:?} in {other}");
        }
    }
    let token = ["create", "token", "causeway-operator", "-n", "causeway-system"];
    assert!(tenant.kubectl.fails(&token).contains("orbidden"));
    for who in [
        "--as=system:serviceaccount:causeway-system:causeway-operator",
        "--as=x",
        "--as-group=system:masters",
    ] {
        let args = ["get", "pods", "--as=x", who];
        assert!(tenant.kubectl.fails(&args).contains("orbidden"), "{who}");
    }
    let bind = ["create", "rolebinding", "up", "--clusterrole=cluster-admin", "--user=mallory"];
    assert!(tenant.kubectl.fails(&bind).contains("orbidden"));
}

#[test]
fn a_pod_reads_no_files_of_others_by_its_termination_message() {
    let tenant = Tenant::new("tenant-message");
    let config = shared().kubeconfig().display().to_string();
    tenant
        .kubectl
        .apply(&pod("message", &format!("args: [version], terminationMessagePath: '{config}'")))
        .ok();
    eventually("it ended", PATIENCE, || {
        !tenant.kubectl.value("pod/message", ".status.containerStatuses[0].lastState.terminated").is_empty()
    });
    let status = tenant.kubectl.ok(&["get", "pod", "message", "-o", "jsonpath={.status}"]);
    assert!(!status.contains("client-key"), "{status}");
}
