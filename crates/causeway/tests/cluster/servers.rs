//! A whole `Infra`: a virtual machine with nothing but its card gets an address, names and a way to a Service.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::kubernetes::{BUSYBOX, Machine};
use serde_json::{Value, json};

use crate::world::{PATIENCE, World, cluster};

/// What a client does with what it is told, and where it writes that down.
const SCRIPT: &str = r#"#!/bin/sh
case ${1:-$reason} in
  bound|renew)
    ip addr replace "$ip/$mask" dev "$interface"
    ip route replace default via "$router" dev "$interface" onlink
    env > "$0.env" ;;
  BOUND|BOUND6|REBOOT) env > "$0.env" ;;
esac
exit 0
"#;

/// A volume for the leases of a DHCP server: nothing here makes volumes by itself.
pub fn volume(world: &World, name: &str) -> tempfile::TempDir {
    volume_in(&world.kubectl.namespace, world, name)
}

fn volume_in(namespace: &str, world: &World, name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "64Mi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": dir.path()},
            "claimRef": {"namespace": namespace, "name": name},
        },
    });
    world.kubectl.apply(&volume.to_string()).ok();
    dir
}

/// The standard backends are of a control plane that is not here.
fn backends(service: &str, hostname: &str) -> Vec<Value> {
    let standard = [
        "kube-apiserver",
        "kube-apiserver-internal",
        "kube-apiserver-kubernetes-hostname",
        "oauth-openshift",
        "ignition-server",
        "konnectivity-server",
    ];
    let mut backends: Vec<Value> =
        standard.iter().map(|name| json!({"name": name, "disabled": true})).collect();
    backends.push(json!({
        "name": service, "hostname": hostname, "port": 443, "targetService": service, "targetPort": 443,
    }));
    backends
}

fn infra(world: &World, name: &str, dhcp: &Value, hostname: &str) -> Value {
    json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "Infra", "metadata": {"name": name},
        "spec": {
            "networkConfig": {
                "cidr": "192.168.100.0/24", "gateway": "192.168.100.1", "networkAttachmentDefinition": "vlan",
            },
            "infraComponents": {
                "dhcp": dhcp,
                "dns": {"baseDomain": "example.com"},
                "proxy": {
                    "engine": "Native", "controlPlaneNamespace": world.kubectl.namespace,
                    "backends": backends("shop", hostname),
                },
            },
        },
    })
}

fn script(world: &World, name: &str) -> String {
    let script = world.file(&format!("{name}.sh"));
    fs::write(&script, SCRIPT).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

/// What dhclient is told in a family, `-4` or `-6`; it keeps nothing.
fn dhclient(world: &World, family: &str) -> String {
    let (script, leases) = (script(world, "dhclient"), world.file(&format!("leases{family}")));
    fs::write(&leases, "").unwrap();
    let files = ["-sf", &script, "-lf", &leases, "-pf", "/dev/null", "-cf", "/dev/null"];
    finish(world.vm.command("timeout").args(["40", "dhclient", family, "-1", "-v"]).args(files).arg("eth0"))
        .ok();
    // It goes on in the background, by the leases it has.
    finish(world.vm.command("dhclient").args([family, "-x"]).args(files).arg("eth0"));
    fs::read_to_string(format!("{script}.env")).unwrap()
}

/// Boots a machine: it asks for an address until it has one, and keeps it.
pub fn boot(world: &World, machine: &Machine, name: &str) -> String {
    let script = script(world, name);
    let client = ["udhcpc", "-f", "-q", "-n", "-t", "20", "-T", "1", "-i", "eth0", "-s", &script, "-x"];
    let hostname = format!("hostname:{name}");
    finish(machine.command("busybox").args(client).arg(&hostname)).ok();
    fs::read_to_string(format!("{script}.env")).unwrap()
}

/// What a client was told.
pub fn told<'a>(lease: &'a str, key: &str) -> &'a str {
    let prefix = format!("{key}=");
    lease.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_else(|| panic!("no {key} in {lease}"))
}

/// The process of this program in a pod, by the pod's cgroup.
fn process_of(pod: &str) -> String {
    let in_pod = |pid: &str| {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let (cgroup, command) = (read("cgroup"), read("cmdline"));
        // Its sandbox is in there, too.
        String::from_utf8_lossy(&cgroup).contains(pod)
            && String::from_utf8_lossy(&command).contains("causeway")
    };
    let all =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let mut found = all.filter(|name| name.parse::<u32>().is_ok()).filter(|pid| in_pod(pid));
    found.next().expect("the pod has a process")
}

fn dig(machine: &Machine, server: &str, name: &str) -> String {
    let at = format!("@{server}");
    let asked = ["+short", "+tries=5", "+time=1", &at, name];
    // Nobody is there for the moment that a process takes to start again.
    eventually(&format!("{name} is asked at {server}"), PATIENCE, || {
        let ran = finish(machine.command("dig").args(asked));
        if ran.code == Some(0) { Ok(ran.stdout.trim().to_owned()) } else { Err(ran.stdout) }
    })
}

#[test]
fn a_machine_with_nothing_but_a_card_reaches_a_service_by_name() {
    let Some(world) = World::new("site") else { return };
    world.server("shop");
    world.on_vm("ip address flush dev eth0");
    let _leases = volume(&world, "lab-dhcp-dhcp-leases");
    let dhcp = json!({
        "reservations": [{"mac": "02:00:00:00:00:77", "ip": "192.168.100.200", "hostname": "fixed"}],
    });
    world.kubectl.apply(&infra(&world, "lab", &dhcp, "shop.lab.example.com").to_string()).ok();
    for part in ["dhcpserver/lab-dhcp", "dnsserver/lab-dns", "proxyserver/lab-proxy", "infra/lab"] {
        world.wait(part, "Ready");
    }
    let addresses = |of: &str| world.kubectl.value("infra/lab", &format!(".status.addresses.{of}"));

    let lease = boot(&world, &world.vm, "vm-one");
    assert_eq!((told(&lease, "mask"), told(&lease, "router")), ("24", "192.168.100.1"));
    assert_eq!(told(&lease, "dns"), addresses("dns"));
    assert_eq!(told(&lease, "domain"), "lab.example.com");
    let (resolver, own) = (told(&lease, "dns"), told(&lease, "ip"));
    let reaches = || {
        let proxy = dig(&world.vm, resolver, "shop.lab.example.com");
        assert_eq!(proxy, addresses("proxy"));
        let url = "https://shop.lab.example.com/";
        let to = format!("shop.lab.example.com:443:{proxy}");
        let ask = ["-sk", "--retry", "5", "--retry-connrefused", "--max-time", "5", "--resolve", &to, url];
        let answer = finish(world.vm.command("curl").args(ask)).ok();
        assert!(answer.contains("shop"), "{answer}");
    };
    reaches();
    assert_eq!(dig(&world.vm, resolver, "any.apps.lab.example.com"), addresses("proxy"));
    assert_eq!(dig(&world.vm, resolver, "nothing.lab.example.com"), "");
    eventually("the machine is found by its name", PATIENCE, || {
        dig(&world.vm, resolver, "vm-one.lab.example.com") == own
    });

    // On the pod side the same name is the Service in front of the proxy.
    let internal = world.kubectl.value("proxyserver/lab-proxy", ".status.serviceIP");
    let for_pods = world.kubectl.value("dnsserver/lab-dns", ".status.serviceClusterIP");
    let run = [
        "run",
        "lookup",
        "--image",
        BUSYBOX,
        "--image-pull-policy=Never",
        "--restart=Never",
        "--command",
        "--",
    ];
    let lookup =
        format!("for i in 1 2 3 4 5; do nslookup shop.lab.example.com {for_pods} && exit; sleep 1; done");
    world.kubectl.ok(&[&run[..], &["sh", "-c", &lookup]].concat());
    eventually("a pod gets the internal address", PATIENCE, || {
        let said = world.kubectl.run(&["logs", "lookup"]).stdout;
        if said.contains(&internal) { Ok(()) } else { Err(said) }
    });

    // An edit is in effect in a second, and no pod is replaced for it.
    let pods = || world.kubectl.ok(&["get", "pods", "-l", "app=dns-server", "-o", "name"]);
    let before = pods();
    let more = json!({"spec": {"infraComponents": {"dns": {"extraEntries": [
        {"hostname": "more.lab.example.com", "ip": "192.168.100.77"},
    ]}}}});
    world.kubectl.ok(&["patch", "infra/lab", "--type=merge", "-p", &more.to_string()]);
    eventually("a further name is answered", PATIENCE, || {
        dig(&world.vm, resolver, "more.lab.example.com") == "192.168.100.77"
    });
    assert_eq!(pods(), before);

    // A spec that makes no sense says so, and what runs goes on.
    let bad = json!({"spec": {"infraComponents": {"dhcp": {"options": [{"code": 26, "value": "big"}]}}}});
    world.kubectl.ok(&["patch", "infra/lab", "--type=merge", "-p", &bad.to_string()]);
    eventually("the field is named", PATIENCE, || {
        let said = world.kubectl.value("infra/lab", ".status.conditions[?(@.type==\"Accepted\")].message");
        if said.contains("spec.infraComponents.dhcp.options[0].value") { Ok(()) } else { Err(said) }
    });
    let good = json!({"spec": {"infraComponents": {"dhcp": {"options": null}}}});
    world.kubectl.ok(&["patch", "infra/lab", "--type=merge", "-p", &good.to_string()]);

    // Every process is killed once; the machine notices a retry at most, and keeps its address.
    for app in ["dhcp-server", "dns-server", "proxy-server"] {
        let selector = format!("app={app}");
        let restarts = || {
            let path = "jsonpath={.items[*].status.containerStatuses[*].restartCount}";
            world.kubectl.ok(&["get", "pods", "-l", &selector, "-o", path])
        };
        let before = restarts();
        let uid =
            world.kubectl.ok(&["get", "pods", "-l", &selector, "-o", "jsonpath={.items[0].metadata.uid}"]);
        finish(Command::new("kill").args(["-9", &process_of(&uid)])).ok();
        eventually("it was started again", PATIENCE, || restarts() != before);
        reaches();
        let again = boot(&world, &world.vm, "vm-one");
        assert_eq!(told(&again, "ip"), own, "after {app} was killed");
    }
    world.wait("infra/lab", "Ready");

    // A new pod has the leases of the one before.
    world.kubectl.ok(&["delete", "pod", "-l", "app=dhcp-server", "--timeout=60s"]);
    world.wait("dhcpserver/lab-dhcp", "Ready");
    assert_eq!(told(&boot(&world, &world.vm, "vm-one"), "ip"), own);
    world.on_vm("ip link set eth0 down && ip link set eth0 address 02:00:00:00:00:77 && ip link set eth0 up");
    let fixed = boot(&world, &world.vm, "other");
    assert_eq!(told(&fixed, "ip"), "192.168.100.200");
    let fixed = dhclient(&world, "-4");
    assert_eq!(told(&fixed, "new_ip_address"), "192.168.100.200");
    assert_eq!(told(&fixed, "new_domain_name_servers"), resolver);

    // With raw sockets the network has IPv6, too, and the leases are those of before.
    let six = json!({"spec": {"infraComponents": {"dhcp": {
        "privileges": {"netRaw": true},
        "ipv6": {"cidr": "fd00:100::/64", "rangeStart": "fd00:100::1000", "rangeEnd": "fd00:100::1fff",
                 "gateway": "fe80::1", "advertise": true},
    }}}});
    world.kubectl.ok(&["patch", "infra/lab", "--type=merge", "-p", &six.to_string()]);
    let is_raw = || {
        let path = "jsonpath={.items[*].spec.containers[*].securityContext.capabilities.add}";
        world.kubectl.ok(&["get", "pods", "-l", "app=dhcp-server", "-o", path]).contains("NET_RAW")
    };
    eventually("the pod has raw sockets", PATIENCE, is_raw);
    world.wait("dhcpserver/lab-dhcp", "Ready");
    eventually("a router is advertised", PATIENCE, || {
        let routes = world.on_vm("ip -6 route show default");
        if routes.contains("fe80::1") { Ok(()) } else { Err(routes) }
    });
    let lease = dhclient(&world, "-6");
    assert!(told(&lease, "new_ip6_address").starts_with("fd00:100::1"), "{lease}");
    assert_eq!(told(&boot(&world, &world.vm, "other"), "ip"), "192.168.100.200");

    world.kubectl.ok(&["delete", "infra/lab", "--timeout=60s"]);
    eventually("what the Infra brought is gone", PATIENCE, || {
        let kinds = "causeway,deployments,pods,services,configmaps,serviceaccounts,roles,rolebindings,\
                     networkpolicies,pvc,addressclaims";
        let left = world.kubectl.ok(&["get", kinds, "-o", "name"]);
        let mut left = left.lines().filter(|name| name.contains("/lab"));
        left.next().map_or(Ok(()), |name| Err(name.to_owned()))
    });
    world.kubectl.run(&["delete", "pv", "lab-dhcp-dhcp-leases", "--wait=false"]);
}

#[test]
fn two_tenants_on_one_network_keep_out_of_each_others_way() {
    let Some(world) = World::new("landlord") else { return };
    world.server("shop");
    world.on_vm("ip address flush dev eth0");
    let card = "02:00:00:00:00:98";
    world.on_vm(&format!("ip link set eth0 down && ip link set eth0 address {card} && ip link set eth0 up"));
    let other = cluster().unwrap().namespace("lodger");
    let volumes =
        [volume(&world, "home-dhcp-dhcp-leases"), volume_in("lodger", &world, "away-dhcp-dhcp-leases")];

    let reserve = |mac: &str, ip: &str| json!([{"mac": mac, "ip": ip, "hostname": "mine"}]);
    let dhcp = |first: &str, last: &str, reservations: Value| json!({"clients": "Reserved", "rangeStart": first, "rangeEnd": last, "reservations": reservations});
    let home = dhcp("192.168.100.50", "192.168.100.99", reserve(card, "192.168.100.20"));
    world.kubectl.apply(&infra(&world, "home", &home, "shop.home.example.com").to_string()).ok();
    world.wait("infra/home", "Ready");

    // The other one's namespace may not use the network before its owner says so.
    let away = dhcp("192.168.100.90", "192.168.100.120", reserve("02:00:00:00:00:99", "192.168.100.21"));
    let mut away = infra(&world, "away", &away, "shop.away.example.com");
    away["spec"]["networkConfig"]["networkAttachmentDefinition"] = "landlord/vlan".into();
    other.apply(&away.to_string()).ok();
    let said = |kind: &str, words: &str| {
        eventually(&format!("{kind} says {words}"), PATIENCE, || {
            let path = format!(".status.conditions[?(@.type==\"{kind}\")].message");
            let said = other.value("infra/away", &path);
            if said.contains(words) { Ok(()) } else { Err(said) }
        });
    };
    said("DNSReady", "create a ReferenceGrant in landlord");
    let program = causeway_testkit::server::program();
    let mut grant = Command::new(program);
    grant
        .args(["infra", "grant", "away", "-n", "lodger", "--kubeconfig"])
        .arg(cluster().unwrap().kubeconfig());
    let grants = finish(&mut grant).ok();
    world.kubectl.apply(&grants).ok();

    // What is somebody's stays his, and the other says what to write.
    said("DHCPReady", "overlaps with 192.168.100.50 to 192.168.100.99 of DHCPServer landlord/home-dhcp");
    let beside = json!({"spec": {"infraComponents": {"dhcp": {"rangeStart": "192.168.100.100"}}}});
    other.ok(&["patch", "infra/away", "--type=merge", "-p", &beside.to_string()]);
    eventually("the other is ready, too", PATIENCE, || {
        let ran = other.run(&["wait", "infra/away", "--for=condition=Ready", "--timeout=1s"]);
        if ran.code == Some(0) { Ok(()) } else { Err(other.run(&["describe", "infra/away"]).stdout) }
    });
    let taken = world.kubectl.ok(&["get", "addressclaims", "-o", "jsonpath={.items[*].spec.address}"]);
    let mut addresses: Vec<&str> = taken.split_whitespace().collect();
    addresses.sort_unstable();
    let count = addresses.len();
    addresses.dedup();
    assert_eq!((addresses.len(), count), (6, 6), "{taken}");

    // Each serves its own clients.
    let of = |infra: &str, kubectl: &causeway_testkit::kubectl::Kubectl| {
        kubectl.value(&format!("infra/{infra}"), ".status.addresses.dhcp")
    };
    let lease = boot(&world, &world.vm, "mine");
    assert_eq!(
        (told(&lease, "ip"), told(&lease, "serverid")),
        ("192.168.100.20", &*of("home", &world.kubectl))
    );
    world.on_vm("ip link set eth0 down && ip link set eth0 address 02:00:00:00:00:99 && ip link set eth0 up");
    world.on_vm("ip address flush dev eth0");
    let lease = boot(&world, &world.vm, "mine");
    assert_eq!((told(&lease, "ip"), told(&lease, "serverid")), ("192.168.100.21", &*of("away", &other)));
    // And neither's pods may read what is the other's.
    let may = |account: &str, what: &str, there: &str| {
        let account = format!("system:serviceaccount:lodger:{account}");
        world
            .kubectl
            .run(&["auth", "can-i", "get", what, "-n", there, "--as", &account])
            .stdout
            .trim()
            .to_owned()
    };
    assert_eq!(may("away-dhcp-dhcp", "configmaps/away-dhcp-dhcp-config", "lodger"), "yes");
    assert_eq!(may("away-dhcp-dhcp", "configmaps/home-dhcp-dhcp-config", "landlord"), "no");
    assert_eq!(may("away-dhcp-dhcp", "secrets", "lodger"), "no");
    other.ok(&["delete", "infra/away", "--timeout=60s"]);
    drop(volumes);
}
