use causeway_containers::{
    Kind,
    fake::{Fake, Operation},
};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

async fn wait(rx: &mut watch::Receiver<Availability>, wanted: fn(&Availability) -> bool) -> Availability {
    tokio::time::timeout(PATIENCE, rx.wait_for(wanted)).await.expect("in time").expect("a follower").clone()
}

fn found(availability: &Availability) -> bool {
    availability.runtime().is_some()
}

fn unavailable(availability: &Availability) -> bool {
    matches!(availability, Availability::Unavailable { .. })
}

#[tokio::test]
async fn nothing_is_searched_before_somebody_asks() {
    let fake = Fake::start(Kind::Docker);
    let runtime = ContainerRuntime::new(Some(fake.choice()), "instance".to_owned());
    let _events = runtime.events();
    tokio::task::yield_now().await;
    assert_eq!(fake.count(Operation::Version), 0);
    wait(&mut runtime.availability(), found).await;
    wait(&mut runtime.clone().availability(), found).await;
    assert_eq!(fake.count(Operation::Version), 1, "one search for all");
}

#[tokio::test]
async fn without_a_choice_it_says_how_to_make_one() {
    let runtime = ContainerRuntime::new(None, "instance".to_owned());
    let said = runtime.availability().borrow().to_string();
    assert!(said.contains("--container-runtime none"), "{said}");
    assert_eq!(runtime.instance(), "instance");
}

#[tokio::test]
async fn a_runtime_that_comes_late_is_found_and_one_that_goes_is_waited_for() {
    let fake = Fake::start(Kind::Podman);
    fake.die();
    let runtime = ContainerRuntime::new(Some(fake.choice()), "instance".to_owned());
    let (mut availability, mut events) = (runtime.availability(), runtime.events());
    let said = wait(&mut availability, unavailable).await.to_string();
    assert!(said.contains(&fake.socket().display().to_string()), "{said}");

    fake.restart();
    wait(&mut availability, found).await;
    fake.add_network("web");
    let event = tokio::time::timeout(PATIENCE, events.recv()).await.unwrap().unwrap();
    assert!(matches!(event, Event::Network { ref name, .. } if name == "web"), "{event:?}");

    fake.die();
    let told = |now: &Availability| unavailable(now) && now.to_string().contains("--container-runtime");
    let said = wait(&mut availability, told).await.to_string();
    assert!(said.contains("can't be reached") && said.contains("runtime.sock"), "{said}");
    fake.restart();
    wait(&mut availability, found).await;
    let mut seen = Vec::new();
    while seen.last() != Some(&Event::Back) {
        seen.push(tokio::time::timeout(PATIENCE, events.recv()).await.unwrap().unwrap());
    }
    assert!(seen.iter().any(|event| matches!(event, Event::Lost { .. })), "{seen:?}");
}

#[tokio::test]
async fn its_task_ends_with_the_last_clone() {
    let fake = Fake::start(Kind::Docker);
    let runtime = ContainerRuntime::new(Some(fake.choice()), "instance".to_owned());
    let mut availability = runtime.availability();
    wait(&mut availability, found).await;
    drop(runtime);
    let ended = async { while availability.changed().await.is_ok() {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the sender is gone");
}
