use std::net::UdpSocket;

use futures::FutureExt;

use super::*;
use crate::wire::query::tests::question;

#[tokio::test]
async fn clients_that_leave_cannot_make_it_ask_without_end() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let text = format!(
        "{{binds: ['127.0.0.1:0'], views: [], limits: {{forwarded: 4}}, forward: {{upstreams: [{{address: '{}'}}]}}}}",
        silent.local_addr().unwrap()
    );
    let plan: DnsPlan = serde_saphyr::from_str(&text).unwrap();
    let forwarder = Forwarder::new(&plan, &plan.forward.upstreams, &Metrics::new()).unwrap();
    for number in 0..10 {
        let packet = question(&format!("n{number}.example.test"), 1, None);
        let Parsed::Query(query) = parse(&packet) else { panic!("not read") };
        let waiting = forwarder.admit([127, 0, 0, 1].into()).expect("nobody waits");
        // It leaves when its question is asked.
        let resolved = forwarder.resolve(&query).now_or_never();
        assert!(resolved.is_none_or(|resolved| matches!(resolved, Resolved::Nothing)), "{number}");
        drop(waiting);
    }
    assert_eq!(lock(&forwarder.pending).len(), 4);
}
