//! Real TLS clients through the proxy to real TLS servers: the right certificate, and the whole conversation.

use crate::backend::Backend;
use crate::client::{self, curl, gnutls, openssl};
use crate::plans::{by_name, cluster, forward, plan, route, tls};
use crate::proxy::{Engine, Proxy};

on_both!(
    openssl_shakes_hands_with_the_named_backend,
    gnutls_talks_to_the_named_backend,
    curl_gets_from_the_named_backend,
    rustls_talks_to_the_named_backend_with_classic_and_post_quantum_keys,
    clients_without_a_name_reach_the_default,
);

/// Two names with a TLS server each, and a wildcard with the second's.
async fn start(engine: Engine) -> (Proxy, [Backend; 2]) {
    let one = Backend::tls("one", &["one.test", "nameless.test"]).await;
    let two = Backend::tls("two", &["two.test", "*.apps.test"]).await;
    let mut listener =
        by_name("in", [route(&["one.test"], "one"), route(&["two.test", "*.apps.test"], "two")]);
    tls(&mut listener).no_server_name = forward("one");
    let clusters = [cluster("one", &[one.address]), cluster("two", &[two.address])];
    (Proxy::start(engine, plan([listener], clusters)).await, [one, two])
}

const NAMES: [(&str, &str); 3] = [("one.test", "one"), ("two.test", "two"), ("x.apps.test", "two")];

async fn openssl_shakes_hands_with_the_named_backend(engine: Engine) {
    let (proxy, _backends) = start(engine).await;
    for version in ["-tls1_2", "-tls1_3"] {
        for (name, backend) in NAMES {
            let args = ["-servername", name, "-verify_hostname", name, version];
            let Some(said) = openssl::shake_hands(proxy.address("in"), &args).await else { return };
            let subject = format!("subject=CN = {backend}");
            assert!(said.content && said.text.contains(&subject), "{name} {version}: {}", said.text);
        }
    }
}

async fn gnutls_talks_to_the_named_backend(engine: Engine) {
    let (proxy, _backends) = start(engine).await;
    for priority in ["NORMAL:-VERS-ALL:+VERS-TLS1.2", "NORMAL:-VERS-ALL:+VERS-TLS1.3"] {
        for (name, backend) in NAMES {
            let args = ["--priority", priority];
            let Some(said) = gnutls::get(proxy.address("in"), name, &args).await else { return };
            let right = said.text.contains(&format!("CN={backend}"))
                && said.text.contains(&format!("\r\n\r\n{backend}"));
            assert!(right, "{name} {priority}: {}", said.text);
        }
    }
}

async fn curl_gets_from_the_named_backend(engine: Engine) {
    let (proxy, _backends) = start(engine).await;
    for (name, backend) in NAMES {
        let url = format!("https://{name}/");
        let Some(said) = curl::get(proxy.address("in"), &url, &[]).await else { return };
        assert_eq!(said.text.trim(), backend, "{name}");
    }
}

async fn rustls_talks_to_the_named_backend_with_classic_and_post_quantum_keys(engine: Engine) {
    let (proxy, _backends) = start(engine).await;
    for config in [client::classic(), client::post_quantum()] {
        for (name, backend) in NAMES {
            let stream = proxy.connect("in").await;
            let mut stream = client::tls(config.clone(), stream, name).await.unwrap();
            for word in ["first", "second"] {
                let answer = client::ask_line(&mut stream, word).await.unwrap();
                assert_eq!(answer, format!("{backend}: {word}"), "{name}");
            }
        }
    }
}

async fn clients_without_a_name_reach_the_default(engine: Engine) {
    let (proxy, _backends) = start(engine).await;
    let args = ["-noservername", "-verify_hostname", "nameless.test"];
    let Some(said) = openssl::shake_hands(proxy.address("in"), &args).await else { return };
    assert!(said.content && said.text.contains("subject=CN = one"), "{}", said.text);
}
