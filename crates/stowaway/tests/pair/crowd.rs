//! Many workstations on one hub.

use causeway_testkit::eventually;

use crate::cluster::{CARRIER, Cluster, connected, direct, grant, workstation};
use crate::services::{echo, echoes};

#[tokio::test(flavor = "multi_thread")]
async fn many_workstations_have_what_is_theirs() {
    const MANY: usize = 100;
    let (cluster, program) = (Cluster::start().await, echo("").await);
    cluster.allow(&[program]);
    let uid = |number: usize| format!("crowd-{number}");
    cluster.hub.set_workstations((0..MANY).map(|number| workstation(&uid(number))).collect());
    cluster.hub.set_grants((0..MANY).map(|number| grant(CARRIER, &uid(number), program.port())).collect());
    let laptops: Vec<_> =
        (0..MANY).map(|number| cluster.start_laptop(&uid(number), vec![direct(cluster.link())])).collect();
    for laptop in &laptops {
        connected(laptop).await;
    }
    eventually("all are there", async || cluster.hub.standings().borrow().len() == MANY).await;
    for (number, laptop) in laptops.iter().enumerate() {
        let mut inward =
            cluster.carry(&format!("p{}.{}", program.port(), uid(number))).await.expect("delivered");
        echoes(&mut inward, "inward").await;
        echoes(&mut laptop.connect(&program.into()).await.expect("connects"), "outward").await;
    }
    assert_eq!(cluster.hub.figures().connected, MANY as u64);
    drop(laptops);
    eventually("all have gone", async || cluster.hub.standings().borrow().is_empty()).await;
    eventually("and what they had with them", async || cluster.hub.figures().streams == 0).await;
}
