//! Events of real runtimes, also over a restart of the daemon.

use causeway_containers::{ContainerAction, Event, NetworkSpec};
use causeway_testkit::daemon::{Daemon, Testbed};

use crate::{Bed, unique};

mod runs {
    crate::on_both!(the_life_of_a_container_is_told);
}

async fn the_life_of_a_container_is_told(bed: &Bed) {
    let mut events = bed.runtime.events();
    let name = unique("told");
    let id = bed.runtime.create(&bed.spec(&name, "hello")).await.unwrap();
    bed.runtime.start(&id).await.unwrap();
    bed.runtime.wait(&id).await.unwrap();
    bed.runtime.remove(&id).await.unwrap();
    let mut told = Vec::new();
    while !told.contains(&ContainerAction::Removed) {
        let event = tokio::time::timeout(std::time::Duration::from_secs(30), events.recv()).await;
        let Ok(Some(event)) = event else { panic!("only {told:?} was told") };
        match event {
            Event::Container { id: of, action, exit_code, name: called, .. } if of == id => {
                assert_eq!(called, name);
                if action == ContainerAction::Died {
                    assert_eq!(exit_code, Some(7));
                }
                told.push(action);
            }
            Event::Lost { why } => panic!("{why}"),
            _ => {}
        }
    }
    let of_interest =
        [ContainerAction::Created, ContainerAction::Started, ContainerAction::Died, ContainerAction::Removed];
    told.retain(|action| of_interest.contains(action));
    assert_eq!(told, of_interest);
}

async fn goes_on_after_a_restart(daemon: Daemon) {
    let Some(mut testbed) = tokio::task::spawn_blocking(move || Testbed::start(daemon)).await.unwrap() else {
        return;
    };
    let (runtime, _) = crate::connect(&testbed).await;
    let mut events = runtime.events();
    testbed.down();
    loop {
        match events.recv().await.unwrap() {
            Event::Lost { .. } => break,
            Event::Back => panic!("back before it was lost"),
            _ => {}
        }
    }
    testbed.up();
    while events.recv().await.unwrap() != Event::Back {}
    let network = NetworkSpec { name: unique("after"), ..NetworkSpec::default() };
    runtime.create_network(&network).await.expect("the same connection goes on");
    let name = unique("after");
    let spec = causeway_containers::ContainerSpec {
        name: name.clone(),
        image: crate::connect(&testbed).await.1,
        ..causeway_containers::ContainerSpec::default()
    };
    runtime.create(&spec).await.unwrap();
    loop {
        match events.recv().await.unwrap() {
            Event::Container { name: called, action: ContainerAction::Created, .. } if called == name => {
                break;
            }
            Event::Lost { why } => panic!("{why}"),
            _ => {}
        }
    }
    runtime.remove(&name).await.unwrap();
    runtime.remove_network(&network.name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_docker_over_a_restart() {
    goes_on_after_a_restart(Daemon::Docker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_podman_over_a_restart() {
    goes_on_after_a_restart(Daemon::Podman).await;
}
