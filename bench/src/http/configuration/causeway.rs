//! Our plan.

use serde_json::{Value, json};

use super::{Files, cluster};
use crate::http::setting::{GATEWAY, Route, Setting, Version};

pub(crate) const FILE: &str = "plan.json";

pub(crate) fn files(setting: &Setting) -> Files {
    let routes: Vec<Value> = setting.routes.iter().enumerate().map(route).collect();
    let http = json!({"http": {"routes": routes}});
    let protocol = if setting.has_tls() {
        let names = &setting.certificates;
        let action = json!({"terminate": {"certificates": names, "then": http}});
        json!({"tls": {"routes": [{"name": "all", "serverNames": names, "action": action}]}})
    } else {
        http
    };
    let version = match setting.back {
        Version::Http1 => "1.1",
        Version::Http2 => "2",
    };
    let clusters: Vec<_> = setting
        .backends
        .iter()
        .enumerate()
        .map(|(place, address)| {
            let endpoints = json!([{"address": address.to_string()}]);
            json!({"name": cluster(place), "endpoints": endpoints, "httpVersion": version})
        })
        .collect();
    let listener = json!({"name": "front", "bind": GATEWAY.to_string(), "protocol": protocol});
    vec![(FILE, json!({"listeners": [listener], "clusters": clusters}).to_string())]
}

fn route((place, route): (usize, &Route)) -> Value {
    let hosts: Vec<_> = route.host.iter().collect();
    json!({
        "name": format!("r{place}"),
        "hosts": hosts,
        "matches": [{"path": {"prefix": route.prefix}}],
        "action": {"forward": cluster(route.backend)},
    })
}
