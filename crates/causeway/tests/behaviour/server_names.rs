//! Which backend a server name leads to.

use causeway_ir::TlsRoute;

use crate::backend::Backend;
use crate::hello::Hello;
use crate::plans::{by_name, cluster, plan, route};
use crate::proxy::{Engine, Proxy};

on_both!(
    an_exact_name_and_its_alternates_reach_their_backend,
    a_wildcard_matches_every_depth_below_and_not_the_domain,
    the_longest_match_wins_whatever_the_order,
    letter_case_does_not_matter,
    a_dot_at_the_end_does_not_matter,
    a_thousand_names_are_told_apart,
);

/// A proxy with echoing backends `a`, `b` and `c`, each behind the cluster of its name.
async fn with_routes(engine: Engine, routes: impl Into<Vec<TlsRoute>>) -> (Proxy, [Backend; 3]) {
    let backends = [Backend::echo("a").await, Backend::echo("b").await, Backend::echo("c").await];
    let clusters: Vec<_> =
        ["a", "b", "c"].iter().zip(&backends).map(|(name, b)| cluster(name, &[b.address])).collect();
    (Proxy::start(engine, plan([by_name("in", routes)], clusters)).await, backends)
}

/// The backend that a hello reaches, which must get the hello as it was sent; or how it was refused.
async fn reached(proxy: &Proxy, hello: &Hello) -> String {
    let hello = hello.bytes();
    let answer = proxy.ask("in", &hello).await;
    match answer.strip_suffix(&hello[..]) {
        Some(name) => String::from_utf8(name.to_vec()).unwrap(),
        None => match &answer[..] {
            [21, 3, _, 0, 2, 2, 112] => "alert".to_owned(),
            [] => "closed".to_owned(),
            other => panic!("{other:?}"),
        },
    }
}

async fn assert_reached(proxy: &Proxy, expected: &[(&str, &str)]) {
    for (name, backend) in expected {
        assert_eq!(reached(proxy, &Hello::to(name)).await, *backend, "{name}");
    }
}

async fn an_exact_name_and_its_alternates_reach_their_backend(engine: Engine) {
    let routes = [route(&["a.test", "alt.a.test", "other.example"], "a"), route(&["b.test"], "b")];
    let (proxy, _backends) = with_routes(engine, routes).await;
    let expected = [("a.test", "a"), ("alt.a.test", "a"), ("other.example", "a"), ("b.test", "b")];
    assert_reached(&proxy, &expected).await;
    assert_reached(&proxy, &[("x.a.test", "alert"), ("test", "alert"), ("aa.test", "alert")]).await;
}

async fn a_wildcard_matches_every_depth_below_and_not_the_domain(engine: Engine) {
    let (proxy, _backends) = with_routes(engine, [route(&["*.apps.test"], "a")]).await;
    let below = [("x.apps.test", "a"), ("x.y.apps.test", "a"), ("x.y.z.apps.test", "a")];
    assert_reached(&proxy, &below).await;
    assert_reached(&proxy, &[("apps.test", "alert"), ("xapps.test", "alert")]).await;
}

async fn the_longest_match_wins_whatever_the_order(engine: Engine) {
    let routes = [route(&["*.test"], "a"), route(&["exact.deep.test"], "c"), route(&["*.deep.test"], "b")];
    let (proxy, _backends) = with_routes(engine, routes).await;
    let expected = [
        ("x.test", "a"),
        ("deep.test", "a"),
        ("x.deep.test", "b"),
        ("x.y.deep.test", "b"),
        ("exact.deep.test", "c"),
        ("x.exact.deep.test", "b"),
    ];
    assert_reached(&proxy, &expected).await;
}

async fn letter_case_does_not_matter(engine: Engine) {
    let (proxy, _backends) =
        with_routes(engine, [route(&["MiXed.test"], "a"), route(&["*.Apps.test"], "b")]).await;
    assert_reached(&proxy, &[("mixed.test", "a"), ("MIXED.TEST", "a"), ("X.aPPs.test", "b")]).await;
}

async fn a_dot_at_the_end_does_not_matter(engine: Engine) {
    let (proxy, _backends) = with_routes(engine, [route(&["a.test."], "a"), route(&["*.b.test"], "b")]).await;
    assert_reached(&proxy, &[("a.test", "a"), ("x.b.test", "b")]).await;
    if engine == Engine::Envoy {
        // A client that follows the standard sends no dot, and Envoy takes the one that does by its word.
        return assert_reached(&proxy, &[("a.test.", "alert"), ("x.b.test.", "alert")]).await;
    }
    assert_reached(&proxy, &[("a.test.", "a"), ("x.b.test.", "b")]).await;
}

async fn a_thousand_names_are_told_apart(engine: Engine) {
    let names: Vec<String> = (0..1000).map(|i| format!("n{i}.test")).collect();
    let cluster_of = |i: usize| ["a", "b", "c"][i % 3];
    let routes: Vec<TlsRoute> =
        names.iter().enumerate().map(|(i, name)| route(&[name], cluster_of(i))).collect();
    let (proxy, _backends) = with_routes(engine, routes).await;
    for i in [0, 1, 2, 500, 501, 998, 999] {
        assert_reached(&proxy, &[(&names[i], cluster_of(i))]).await;
    }
}
