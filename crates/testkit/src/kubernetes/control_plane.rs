//! etcd, the API server, the controllers and the scheduler of a cluster, and the files they read.

use std::process::Command;

use super::identities::Identities;
use super::network::{API_SERVICE, CONTROL_PLANE, SERVICES, in_namespace};
use super::programs::Programs;
use super::site::Site;

/// What the API is made of.
pub(super) const API: [&str; 2] = ["etcd", "kube-apiserver"];
/// Those that give up soon where there is no API. Without nodes there is nothing to schedule.
pub(super) const CLIENTS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];
/// The controllers of a cluster without nodes: those that tend to the API's own objects, and make no others of them.
const OF_THE_API: &str = "--controllers=namespace-controller,garbage-collector-controller,serviceaccount-controller,\
     root-ca-certificate-publisher-controller,clusterrole-aggregation-controller,\
     validatingadmissionpolicy-status-controller";

/// The command of one part.
///
/// # Errors
/// When a certificate can't be written.
pub(super) fn command(
    part: &str,
    site: &Site,
    programs: &Programs,
    who: &Identities,
    nodes: u8,
) -> anyhow::Result<Command> {
    let flags = match part {
        "etcd" => etcd(site),
        "kube-apiserver" => api_server(who),
        "kube-controller-manager" => controllers(who, nodes)?,
        _ => scheduler(who)?,
    };
    let mut command = in_namespace(&site.hub(), &programs.kubernetes().display().to_string());
    command.arg(part).args(flags);
    Ok(command)
}

fn etcd(site: &Site) -> Vec<String> {
    // Only the control plane's namespace can reach it. It may lose writes when the machine does, not when it is killed.
    let client = "http://127.0.0.1:2379";
    let peer = "http://127.0.0.1:2380";
    vec![
        format!("--data-dir={}", site.path("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

fn api_server(who: &Identities) -> Vec<String> {
    let file = |name: &str| who.path(name).display().to_string();
    vec![
        "--etcd-servers=http://127.0.0.1:2379".to_owned(),
        format!("--advertise-address={CONTROL_PLANE}"),
        format!("--service-cluster-ip-range={SERVICES}"),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--kubelet-client-certificate={}", file("admin.crt")),
        format!("--kubelet-client-key={}", file("admin.key")),
        // Node names are in no DNS.
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--service-account-issuer=https://{API_SERVICE}"),
        format!("--service-account-signing-key-file={}", file("accounts.key")),
        format!("--service-account-key-file={}", file("accounts.pub")),
        // Otherwise clients of a server that stops wait for it in vain.
        "--shutdown-delay-duration=0s".to_owned(),
    ]
}

fn controllers(who: &Identities, nodes: u8) -> anyhow::Result<Vec<String>> {
    let user = "system:kube-controller-manager";
    let kubeconfig = who.client("kube-controller-manager", user, user)?;
    let mut flags = vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--root-ca-file={}", who.path("ca.crt").display()),
        format!("--service-account-private-key-file={}", who.path("accounts.key").display()),
        "--use-service-account-credentials=true".to_owned(),
        "--leader-elect=false".to_owned(),
        // Nodes of a busy machine are slow, and their pods are not ready once they are taken for lost.
        "--node-monitor-grace-period=2m".to_owned(),
    ];
    if nodes == 0 {
        flags.push(OF_THE_API.to_owned());
    }
    Ok(flags)
}

fn scheduler(who: &Identities) -> anyhow::Result<Vec<String>> {
    let kubeconfig = who.client("kube-scheduler", "system:kube-scheduler", "system:kube-scheduler")?;
    Ok(vec![format!("--kubeconfig={}", kubeconfig.display()), "--leader-elect=false".to_owned()])
}
