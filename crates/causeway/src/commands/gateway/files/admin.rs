//! `--admin`: what the engines of all Gateways show, together. `/metrics`, each with the label `gateway`, `/ready`, and as JSON
//! by Gateway `/config_dump`, `/clusters`, `/listeners` and `/connections`; and `/logging`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use causeway_base::lock::lock;
use causeway_engine::Handle;
use causeway_engine::admin::{METRICS_TYPE, metrics_text, with_logging};
use serde::Serialize;

/// The engines that run, by Gateway.
pub(super) type Shown = Arc<Mutex<BTreeMap<String, Handle>>>;

/// The paths.
pub(super) fn router(shown: &Shown) -> Router {
    let [metrics_of, ready_of, plans_of, clusters_of, listeners_of, connections_of] =
        [0; 6].map(|_| Arc::clone(shown));
    let router = Router::new()
        .route("/metrics", get(async move || metrics(&metrics_of)))
        .route("/ready", get(async move || ready(&ready_of)))
        .route(
            "/config_dump",
            get(async move || of_each(&plans_of, |handle| handle.status().plan.as_deref().cloned())),
        )
        .route("/clusters", get(async move || of_each(&clusters_of, Handle::clusters)))
        .route("/listeners", get(async move || of_each(&listeners_of, |handle| handle.status().listeners)))
        .route("/connections", get(async move || connections(&connections_of).await));
    with_logging(router, Arc::new(crate::parts::logging::change))
}

fn of_each<T: Serialize>(shown: &Shown, look: impl Fn(&Handle) -> T) -> Json<BTreeMap<String, T>> {
    Json(lock(shown).iter().map(|(gateway, handle)| (gateway.clone(), look(handle))).collect())
}

async fn connections(shown: &Shown) -> Response {
    let handles = lock(shown).clone();
    let mut all = BTreeMap::new();
    for (gateway, handle) in handles {
        all.insert(gateway, handle.connections().await);
    }
    Json(all).into_response()
}

fn ready(shown: &Shown) -> (StatusCode, String) {
    let shown = lock(shown);
    let missing = shown.iter().flat_map(|(gateway, handle)| {
        handle.status().missing().into_iter().map(move |what| format!("Gateway {gateway}: {what}"))
    });
    let missing: Vec<String> = missing.collect();
    if missing.is_empty() {
        return (StatusCode::OK, "ready\n".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", missing.join("; ")))
}

fn metrics(shown: &Shown) -> Response {
    let texts: Option<Vec<(String, String)>> =
        lock(shown).iter().map(|(gateway, handle)| Some((gateway.clone(), metrics_text(handle)?))).collect();
    match texts {
        Some(texts) => ([(header::CONTENT_TYPE, METRICS_TYPE)], merged(&texts)).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// One text of several, in which each family of metrics is told once, as the format wants it.
fn merged(texts: &[(String, String)]) -> String {
    let (mut families, mut places): (Vec<(&str, String)>, BTreeMap<&str, usize>) = Default::default();
    for (gateway, text) in texts {
        let mut place = 0;
        for line in text.lines().filter(|line| *line != "# EOF") {
            if let Some(head) = line.strip_prefix("# ") {
                let family = head.split(' ').nth(1).unwrap_or_default();
                let is_new = !places.contains_key(family);
                place = *places.entry(family).or_insert(families.len());
                if is_new {
                    families.push((family, String::new()));
                }
                // Help, type and unit are the same for all.
                if !families[place].1.lines().any(|known| known == line) {
                    let _ = writeln!(families[place].1, "{line}");
                }
            } else if let Some((_, family)) = families.get_mut(place) {
                let end = line.find(['{', ' ']).unwrap_or(line.len());
                let (name, rest) = line.split_at(end);
                let rest = match rest.strip_prefix('{') {
                    Some(labels) => format!(",{labels}"),
                    None => format!("}}{rest}"),
                };
                let _ = writeln!(family, "{name}{{gateway=\"{gateway}\"{rest}");
            }
        }
    }
    families.into_iter().map(|(_, text)| text).collect::<String>() + "# EOF\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_is_told_once_with_the_gateway_of_each_value() {
        let text = "# HELP a What.\n# TYPE a counter\na_total 1\n# HELP b B.\n# TYPE b gauge\nb{x=\"y z\"} 2\n# EOF\n";
        let both = merged(&[("n/one".to_owned(), text.to_owned()), ("n/two".to_owned(), text.to_owned())]);
        assert_eq!(
            both,
            "# HELP a What.\n# TYPE a counter\na_total{gateway=\"n/one\"} 1\na_total{gateway=\"n/two\"} 1\n# HELP b B.\n\
             # TYPE b gauge\nb{gateway=\"n/one\",x=\"y z\"} 2\nb{gateway=\"n/two\",x=\"y z\"} 2\n# EOF\n"
        );
        assert_eq!(merged(&[]), "# EOF\n");
    }
}
