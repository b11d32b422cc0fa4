//! A DNS server's agent, and what it says of its neighbours.

use causeway_agent::{Dns, ServerPod};
use causeway_api::{DNSServer, names};
use causeway_testkit::{Cluster, eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::paper::Running;

#[tokio::test]
async fn neighbours_that_do_not_answer_are_told_of() {
    let cluster = Cluster::start().await;
    let state = tempfile::tempdir().unwrap();
    let server = json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "DNSServer", "metadata": {"name": "names"},
        "spec": {"networkConfig": {"serverIP": "127.0.0.2/24"}, "hostedClusterDomain": "lab.example.com"},
    });
    let params = PatchParams::apply("test").force();
    cluster.api::<DNSServer>().patch("names", &params, &Patch::Apply(&server)).await.unwrap();
    let tell = |neighbours: &str| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "names-dns-config"},
            "data": {"neighbours": neighbours},
        });
        let (maps, params) = (cluster.api::<ConfigMap>(), PatchParams::apply("test").force());
        async move { maps.patch("names-dns-config", &params, &Patch::Apply(&map)).await.unwrap() }
    };
    // From the loopback no way leads to the second; the third is this pod itself.
    tell("127.0.0.9:67,192.0.2.4:443,127.0.0.2:53").await;
    let pod = ServerPod {
        name: "names".into(),
        pod: "names-x".into(),
        pod_ip: [127, 0, 0, 1].into(),
        server_ip: [127, 0, 0, 2].into(),
    };
    let report = ("names", names::server_report_manager("dns", "names-x"));
    let _agent = Running::start(cluster.client.clone(), Dns(pod), report, state.path()).await;
    let said = || async {
        let status = cluster.api::<DNSServer>().get("names").await.unwrap().status?;
        let report = status.replicas.into_iter().next().filter(|report| report.serving)?;
        Some(report.unreached)
    };
    eventually("it is told", || async { said().await == Some(vec!["192.0.2.4".to_owned()]) }).await;
    tell("127.0.0.9:67").await;
    eventually("it is taken back", || async { said().await == Some(Vec::new()) }).await;
}
