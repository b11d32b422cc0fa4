//! What a proxy does with traffic, as its users see it. Every behaviour is written once and is two tests: `native::…`
//! with `causeway engine`, and `envoy::…` with a real Envoy that `causeway xds` feeds with the same plan. Where Envoy
//! can't do what the engine does, the test says so and holds Envoy to what it does instead.

#![allow(clippy::unwrap_used, clippy::panic)]

/// Makes two tests of each behaviour of a module.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod native {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::proxy::Engine::Native).await;
            })+
        }
        mod envoy {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if causeway_testkit::envoy::program().is_some() {
                    super::$name($crate::proxy::Engine::Envoy).await;
                }
            })+
        }
    };
}

mod backend;
mod certificates;
mod client;
mod hello;
mod plans;
mod port;
mod proxy;

mod addresses;
mod balancing;
mod changes;
mod clients;
mod datagrams;
mod draining;
mod endpoints;
mod hellos;
mod limits;
mod outcomes;
mod proxy_protocol;
mod server_names;
mod sources;
mod streams;
