//! The whole story: one `Infra`, and machines with nothing but a card get an address, names and a way to a Service.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::server::{program, signal};
use serde_json::{Value, json};

use crate::lan::{Vm, has_link, ip, name};
use crate::life::is_gone;
use crate::world::{PATIENCE, World};

const STANDARD: [&str; 6] = [
    "kube-apiserver",
    "kube-apiserver-internal",
    "kube-apiserver-kubernetes-hostname",
    "oauth-openshift",
    "ignition-server",
    "konnectivity-server",
];

/// What clients do with what they are told, and where they write that down: udhcpc, dhclient, and dhclient for IPv6.
const SCRIPT: &str = r#"#!/bin/sh
case ${1:-$reason} in
  bound|renew)
    ip addr replace "$ip/$mask" dev "$interface"
    ip route replace default via "$router" dev "$interface" onlink
    env > "$0.told" ;;
  BOUND|RENEW|REBIND|REBOOT)
    ip addr replace "$new_ip_address/24" dev "$interface"
    env > "$0.told" ;;
  BOUND6|RENEW6|REBIND6)
    ip -6 addr replace "$new_ip6_address/128" dev "$interface" nodad
    env > "$0.told" ;;
esac
exit 0
"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Udhcpc,
    Dhclient,
    Dhclient6,
}

/// What a machine was told when it asked for an address.
struct Told(String);

impl Told {
    fn get(&self, key: &str) -> &str {
        let prefix = format!("{key}=");
        let mut lines = self.0.lines();
        lines.find_map(|line| line.strip_prefix(&prefix)).unwrap_or_else(|| panic!("no {key} in {}", self.0))
    }
}

/// A machine asks until it has an address, as one does that boots.
fn boot(world: &World, vm: &Vm, client: Client, host: &str) -> Told {
    let place = world.files.path().join(host);
    fs::create_dir_all(&place).unwrap();
    let file = |name: &str| place.join(name).display().to_string();
    let (script, told, leases, pid) = (file("script"), file("script.told"), file("leases"), file("pid"));
    fs::write(&script, SCRIPT).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let _ = fs::remove_file(&told);
    fs::write(&leases, "").unwrap();
    fs::write(
        file("conf"),
        format!("send host-name \"{host}\";\ntimeout 60;\nretry 1;\ninitial-interval 1;\n"),
    )
    .unwrap();
    let said = match client {
        Client::Udhcpc => {
            let hostname = format!("hostname:{host}");
            let args = [
                "udhcpc", "-f", "-q", "-n", "-t", "30", "-T", "1", "-i", "eth0", "-s", &script, "-x",
                &hostname,
            ];
            finish(vm.command("busybox").args(args)).ok()
        }
        Client::Dhclient | Client::Dhclient6 => {
            let family = if client == Client::Dhclient { "-4" } else { "-6" };
            let conf = file("conf");
            let common = ["-sf", &script, "-lf", &leases, "-pf", &pid, "-cf", &conf, "eth0"];
            let said = finish(vm.command("dhclient").args([family, "-1", "-v"]).args(common)).ok();
            finish(vm.command("dhclient").args([family, "-x"]).args(common));
            said
        }
    };
    Told(fs::read_to_string(&told).unwrap_or_else(|_| panic!("{client:?} has no lease: {said}")))
}

fn dig(command: &mut Command, server: &str, question: &[&str]) -> Result<String, String> {
    let at = format!("@{server}");
    let ran = finish(command.args(["+short", "+tries=5", "+time=1", &at]).args(question));
    if ran.code == Some(0) { Ok(ran.stdout.trim().to_owned()) } else { Err(ran.to_string()) }
}

pub fn infra(bridge_network: &str) -> Value {
    let mut backends: Vec<Value> =
        STANDARD.iter().map(|name| json!({"name": name, "disabled": true})).collect();
    backends.push(json!({
        "name": "shop", "hostname": "shop.lab.example.com", "port": 443, "targetService": "shop", "targetPort": 443,
    }));
    let ipv6 = json!({
        "cidr": "fd00:100::/64", "rangeStart": "fd00:100::1000", "rangeEnd": "fd00:100::1fff", "gateway": "fe80::1",
        "advertise": true,
    });
    json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "Infra", "metadata": {"name": "lab"},
        "spec": {
            "networkConfig": {
                "cidr": "192.168.100.0/24", "gateway": "192.168.100.1", "networkAttachmentDefinition": bridge_network,
            },
            "infraComponents": {
                "dhcp": {"ipv6": ipv6, "privileges": {"netRaw": true}},
                "dns": {"baseDomain": "example.com"},
                "proxy": {"engine": "Native", "controlPlaneNamespace": "edge", "backends": backends},
            },
        },
    })
}

/// A resolver where this machine says that it has one, which knows one name.
struct Resolver(Option<std::process::Child>);

impl Resolver {
    fn start(world: &World) -> Self {
        let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let Some(address) = text.lines().find_map(|line| line.strip_prefix("nameserver ")) else {
            return Self(None);
        };
        let address: std::net::IpAddr = address.trim().parse().unwrap();
        if !address.is_loopback() {
            ip(&format!("address add {address} dev lo"));
        }
        let records = json!([{"name": "far.outside.test", "addresses": ["198.51.100.7"]}]);
        let zones = json!([{"domain": "outside.test", "records": records}]);
        let plan = json!({
            "binds": [std::net::SocketAddr::new(address, 53).to_string()],
            "views": [{"name": "all", "zones": zones}],
        });
        let path = world.files.path().join("resolver.json");
        fs::write(&path, plan.to_string()).unwrap();
        Self(Some(Command::new(program()).args(["dns", "--config"]).arg(path).spawn().unwrap()))
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn machines_with_nothing_but_a_card_reach_a_service_by_name() {
    let Some(mut world) = World::new() else { return };
    let outside = Resolver::start(&world);
    world.tls_server("shop");
    let bridge = name();
    world.bridge("vlan", &bridge);
    world.kubectl.apply(&infra("vlan").to_string()).ok();
    for part in ["dhcpserver/lab-dhcp", "dnsserver/lab-dns", "proxyserver/lab-proxy", "infra/lab"] {
        world.wait(part, "Ready");
    }
    let address =
        |world: &World, of: &str| world.kubectl.value("infra/lab", &format!(".status.addresses.{of}"));
    let (resolver, proxy) = (address(&world, "dns"), address(&world, "proxy"));
    let certificate = world.certificate();

    // Three machines boot.
    let vms = [(); 3].map(|()| Vm::on(&bridge, None));
    let lease = boot(&world, &vms[0], Client::Udhcpc, "vm-one");
    assert_eq!(
        (lease.get("mask"), lease.get("router"), lease.get("dns")),
        ("24", "192.168.100.1", &*resolver)
    );
    assert_eq!(lease.get("domain"), "lab.example.com");
    let own = lease.get("ip").to_owned();
    let other = boot(&world, &vms[1], Client::Dhclient, "vm-two");
    assert_eq!(other.get("new_domain_name_servers"), resolver);
    assert_ne!(other.get("new_ip_address"), own);
    eventually("the machine may use its address of the link", PATIENCE, || {
        let open = finish(vms[2].command("ip").args(["-6", "address", "show", "tentative"])).ok();
        if open.is_empty() { Ok(()) } else { Err(open) }
    });
    eventually("the router is advertised", PATIENCE, || {
        let routes = finish(vms[2].command("ip").args(["-6", "route"])).ok();
        if routes.contains("default via fe80::1") { Ok(()) } else { Err(routes) }
    });
    let six = boot(&world, &vms[2], Client::Dhclient6, "vm-six");
    assert!(six.get("new_ip6_address").starts_with("fd00:100::1"), "{}", six.0);

    // Names are the proxy's on the network, and those of the Service in front of it for pods.
    let asks = |vm: &Vm, question: &[&str]| dig(&mut vm.command("dig"), &resolver, question).unwrap();
    let reaches = |vm: &Vm| {
        let found = dig(&mut vm.command("dig"), &resolver, &["shop.lab.example.com"])?;
        let answer = vm.ask("shop.lab.example.com", &found, &certificate);
        answer.and_then(|answer| if answer.contains("shop") { Ok(()) } else { Err(answer) })
    };
    assert_eq!(asks(&vms[0], &["shop.lab.example.com"]), proxy);
    assert_eq!(asks(&vms[1], &["+tcp", "any.apps.lab.example.com"]), proxy);
    assert_eq!(asks(&vms[0], &["nothing.lab.example.com"]), "");
    eventually("machines are found by their names", PATIENCE, || {
        asks(&vms[1], &["vm-one.lab.example.com"]) == own
    });
    assert_eq!(asks(&vms[1], &["-x", &own]), "vm-one.lab.example.com.");
    if outside.0.is_some() {
        eventually("other names are asked of the machine's resolvers", PATIENCE, || {
            let found = dig(&mut vms[0].command("dig"), &resolver, &["far.outside.test"])?;
            if found == "198.51.100.7" { Ok(()) } else { Err(found) }
        });
    }
    let service = world.kubectl.value("dnsserver/lab-dns", ".status.serviceClusterIP");
    let internal = world.kubectl.value("proxyserver/lab-proxy", ".status.serviceIP");
    assert_eq!(dig(&mut Command::new("dig"), &service, &["shop.lab.example.com"]).unwrap(), internal);
    for vm in &vms[..2] {
        reaches(vm).unwrap();
    }
    let mut doctor = Command::new(program());
    doctor.args(["doctor", "infra/lab", "-n", "edge", "--data-dir"]).arg(world.server.data_dir());
    let said = finish(&mut doctor).ok();
    let backend = "shop.lab.example.com";
    for line in [
        "✓ DHCPServer lab-dhcp is ready",
        "✓ a client on the network is offered 192.168.100.",
        &format!("with router 192.168.100.1, resolvers {resolver}"),
        &format!("✓ {resolver}:53 answers on the network (from pod lab-proxy-"),
        &format!("{backend} ({proxy})"),
        &format!("✓ {service}:53 answers for pods: "),
        &format!("{backend} ({internal})"),
        &format!("{proxy}:443"),
        "nothing is wrong with Infra edge/lab",
    ] {
        assert!(said.contains(line), "lacks {line:?}:\n{said}");
    }
    // The leases are seen without a way to the server.
    let mut leases = Command::new(program());
    leases
        .args(["leases", "infra/lab", "-n", "edge", "-o", "json", "--data-dir"])
        .arg(world.server.data_dir());
    eventually("the lease is told of", PATIENCE, || {
        let said = finish(&mut leases).ok();
        let listed: Value = serde_json::from_str(&said).unwrap();
        let lease = |lease: &Value| {
            lease["address"] == *own && lease["hostname"] == "vm-one" && lease["active"] == true
        };
        if listed["leases"].as_array().is_some_and(|all| all.iter().any(lease)) { Ok(()) } else { Err(said) }
    });
    // A firewall that filters bridges is the cause, and what is said helps.
    if let Ok(()) = fs::write("/proc/sys/net/bridge/bridge-nf-call-iptables", "1") {
        let iptables = |rule: &str| finish(Command::new("iptables").args(rule.split(' '))).ok();
        iptables("-P FORWARD DROP");
        let said = finish(&mut doctor).stdout;
        let rules = [bridge.as_str(), "cw+"].map(|on| format!("-I FORWARD -i {on} -o {on} -j ACCEPT"));
        for line in [
            format!("✗ a firewall of this machine drops what passes over bridge {bridge}"),
            "the policy of FORWARD is DROP".to_owned(),
            format!("begin with this: iptables {}; iptables {}", rules[0], rules[1]),
        ] {
            assert!(said.contains(&line), "lacks {line:?}:\n{said}");
        }
        for rule in &rules {
            iptables(rule);
        }
        // Its servers may have missed each other meanwhile.
        world.wait("infra/lab", "Ready");
        let said = finish(&mut doctor).ok();
        assert!(said.contains("nothing is wrong with Infra edge/lab"), "{said}");
        // The same for what comes in, where pods reach the machine over their cables.
        iptables("-A INPUT -i lo -j ACCEPT");
        iptables("-A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT");
        iptables("-P INPUT DROP");
        let said = finish(&mut doctor).stdout;
        let rule = "-I INPUT -i cw+ -d 127.0.0.0/8 -j ACCEPT";
        assert!(
            said.contains("the policy of INPUT is DROP")
                && said.contains(&format!("begin with this: iptables {rule}")),
            "{said}"
        );
        iptables(rule);
        finish(&mut doctor).ok();
    }
    // A server that hangs is found by what its clients meet.
    let dns =
        world.kubectl.ok(&["get", "pods", "-l", "app=dns-server", "-o", "jsonpath={.items[0].metadata.uid}"]);
    let hung = ip(&format!("netns pids causeway-{dns}")).trim().parse().unwrap();
    signal(hung, "STOP");
    let said = finish(&mut doctor).stdout;
    signal(hung, "CONT");
    let line = format!("✗ {resolver}:53 does not answer on the network");
    assert!(said.contains(&line), "lacks {line:?}:\n{said}");

    // Every process is killed once, and the control plane: the machines notice a retry at most, and keep their addresses.
    let uids = |world: &World| {
        let pods = [
            "get",
            "pods",
            "-l",
            "app in (dhcp-server,dns-server,proxy-server)",
            "-o",
            "jsonpath={.items[*].metadata.uid}",
        ];
        world.kubectl.ok(&pods).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let pods = uids(&world);
    assert_eq!(pods.len(), 3, "{pods:?}");
    for pod in &pods {
        let pid = || ip(&format!("netns pids causeway-{pod}"));
        let before = pid();
        signal(before.trim().parse().unwrap(), "KILL");
        eventually("it was started again", PATIENCE, || !pid().is_empty() && pid() != before);
        eventually("the Service is reached", PATIENCE, || reaches(&vms[0]));
        assert_eq!(boot(&world, &vms[0], Client::Udhcpc, "vm-one").get("ip"), own);
    }
    world.server.kill();
    reaches(&vms[1]).unwrap();
    assert_eq!(boot(&world, &vms[0], Client::Udhcpc, "vm-one").get("ip"), own);
    world.restart();
    world.wait("infra/lab", "Ready");
    assert_eq!(uids(&world), pods, "the pods were adopted");

    // A new pod has the leases of the one before.
    world.kubectl.ok(&["delete", "pod", "-l", "app=dhcp-server", "--timeout=60s"]);
    world.wait("dhcpserver/lab-dhcp", "Ready");
    assert_eq!(boot(&world, &vms[0], Client::Udhcpc, "vm-one").get("ip"), own);

    // Nothing is left of it.
    let pods = uids(&world);
    world.kubectl.ok(&["delete", "infra/lab", "--timeout=60s"]);
    eventually("what the Infra brought is gone", PATIENCE, || {
        let kinds = "causeway,deployments,pods,services,configmaps,serviceaccounts,roles,rolebindings,networkpolicies,\
                     pvc,addressclaims";
        let left = world.kubectl.ok(&["get", kinds, "-o", "name"]);
        let mut left = left.lines().filter(|name| name.contains("/lab"));
        left.next().map_or(Ok(()), |name| Err(name.to_owned()))
    });
    for pod in &pods {
        eventually("its network is gone", PATIENCE, || is_gone(pod));
    }
    drop(vms);
    world.server.stop();
    assert!(!has_link(&bridge));
}
