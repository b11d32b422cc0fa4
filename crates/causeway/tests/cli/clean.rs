//! `causeway clean`: shows what was left, removes it when told to, and nothing that is somebody's.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use causeway_containers::fake::Fake;
use causeway_containers::{ContainerSpec, Kind, NetworkSpec, labels};
use causeway_testkit::kubectl::{Ran, finish};
use causeway_testkit::server::{Server, program};

fn clean(data: &Path, tmp: &Path, fake: &Fake, args: &[&str]) -> Ran {
    let mut command = Command::new(program());
    command.args(["clean", "--data-dir"]).arg(data).arg("--container-runtime").arg(fake.socket());
    // Demos keep their things in the directory for temporary files.
    finish(command.args(args).env("TMPDIR", tmp).env_remove("KUBECONFIG"))
}

fn made_for(uid: &str, instance: &str, more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let all =
        [(labels::OWNER, uid), (labels::INSTANCE, instance), (labels::KIND, "ContainerNetworkTunnelProxy")];
    let all = all.iter().chain(&[(labels::NAME, "lab/old")]).chain(more);
    all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_nobody_needs_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let tmp = tempfile::tempdir().unwrap();
    let fake = Fake::start(Kind::Docker);
    let socket = fake.socket();
    let mut server = Server::start_in(root.path(), &["--container-runtime", socket.to_str().unwrap()]);
    let data = server.data_dir();
    let kubectl = server.namespace("lab");
    let objects = "apiVersion: causeway.dev/v1alpha1\nkind: ContainerNetwork\nmetadata: {name: app}\nspec: {}\n---\n\
        apiVersion: causeway.dev/v1alpha1\nkind: ContainerNetworkTunnelProxy\nmetadata: {name: lives}\n\
        spec: {containerNetworkName: nowhere}\n";
    kubectl.apply(objects).ok();
    kubectl.ok(&["wait", "containernetwork/app", "--for=condition=Ready", "--timeout=30s"]);
    let living = kubectl.value("cntp/lives", ".metadata.uid");
    let session = kubectl.value("containernetwork/app", ".status.networkName");
    let instance = std::fs::read_to_string(data.join("node/instance")).unwrap();
    server.stop();

    let runtime = fake.connect().await;
    fake.add_image("web");
    for (name, labels) in [
        ("left", made_for("gone", &instance, &[])),
        ("alive", made_for(&living, &instance, &[])),
        ("kept", made_for("gone", &instance, &[(labels::PERSISTENT, "true")])),
        ("elsewhere", made_for("gone", "another", &[])),
        ("foreign", BTreeMap::new()),
    ] {
        let spec = ContainerSpec {
            name: name.into(),
            image: "web".into(),
            labels: labels.clone(),
            ..ContainerSpec::default()
        };
        runtime.create(&spec).await.unwrap();
        let spec = NetworkSpec { name: format!("net-{name}"), labels, ..NetworkSpec::default() };
        runtime.create_network(&spec).await.unwrap();
    }
    for name in ["old", "lives"] {
        std::fs::create_dir_all(data.join("tunnels/lab").join(name)).unwrap();
        std::fs::write(data.join("tunnels/lab").join(name).join("journal.log"), "once upon a time\n")
            .unwrap();
    }
    let demo = tmp.path().join("causeway-demo-4194305");
    std::fs::create_dir(&demo).unwrap();
    std::fs::write(demo.join("key.pem"), "secret").unwrap();
    std::fs::create_dir(tmp.path().join("somebodys")).unwrap();

    let shown = clean(&data, tmp.path(), &fake, &[]).ok();
    for line in ["container  left ", "network    net-left ", "files ", "demo "] {
        assert!(shown.contains(line), "lacks {line:?}:\n{shown}");
    }
    for name in ["alive", "kept", "elsewhere", "foreign", "lives", &session, "somebodys"] {
        assert!(!shown.contains(name), "{name} is not ours to remove:\n{shown}");
    }
    assert!(shown.ends_with("remove what is above with `causeway clean --yes` (4)\n"), "{shown}");
    assert!(fake.container("left").is_some() && demo.exists(), "it was only shown");

    let removed = clean(&data, tmp.path(), &fake, &["--yes"]).ok();
    assert!(removed.ends_with("removed all of it (4)\n"), "{removed}");
    let containers: Vec<String> = fake.containers().into_iter().map(|container| container.name).collect();
    assert_eq!(containers, ["alive", "elsewhere", "foreign", "kept"]);
    let networks = fake.networks();
    assert!(!networks.contains(&"net-left".to_owned()), "{networks:?}");
    for network in ["net-alive", "net-kept", "net-elsewhere", "net-foreign", &session] {
        assert!(networks.contains(&network.to_owned()), "{network} in {networks:?}");
    }
    assert!(!data.join("tunnels/lab/old").exists() && data.join("tunnels/lab/lives/journal.log").exists());
    assert!(!demo.exists() && tmp.path().join("somebodys").exists());
    assert_eq!(clean(&data, tmp.path(), &fake, &[]).ok(), "nothing is left over\n");

    // Beside a control plane that runs as well.
    let server = Server::start_in(root.path(), &["--container-runtime", socket.to_str().unwrap()]);
    let said = clean(&data, tmp.path(), &fake, &["--yes"]).ok();
    assert_eq!(said, "nothing is left over\n");
    assert_eq!(server.namespace("lab").value("containernetwork/app", ".status.networkName"), session);
}
