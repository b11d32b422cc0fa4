//! Traefik. Its files are YAML, of which JSON is a part.

use std::path::Path;

use anyhow::Context;
use serde_json::{Map, Value, json};

use super::{Files, cluster};
use crate::http::certificates::{CHAIN, KEY};
use crate::http::setting::{GATEWAY, Route, Setting, Version};

pub(crate) const FILE: &str = "traefik.yml";
const DYNAMIC: &str = "dynamic.yml";

pub(crate) fn files(setting: &Setting, dir: &Path, certificates: &Path) -> Files {
    let timeouts = json!({"readTimeout": "0s", "idleTimeout": "1h"});
    let front = json!({
        "address": GATEWAY.to_string(),
        "transport": {"respondingTimeouts": timeouts},
    });
    let mut main = json!({
        "global": {"checkNewVersion": false, "sendAnonymousUsage": false},
        "log": {"level": "ERROR"},
        "entryPoints": {"front": front},
        "serversTransport": {"maxIdleConnsPerHost": 512},
        "providers": {"file": {"filename": dir.join(DYNAMIC), "watch": setting.changing}},
    });
    if setting.changing {
        // It waits for two seconds otherwise.
        main["providers"]["providersThrottleDuration"] = json!("100ms");
    }
    let routers = setting.routes.iter().enumerate().map(|(place, route)| {
        let mut router = json!({
            "rule": rule(route),
            "entryPoints": ["front"],
            "service": cluster(route.backend),
        });
        if setting.has_tls() {
            router["tls"] = json!({});
        }
        (format!("r{place}"), router)
    });
    let scheme = match setting.back {
        Version::Http1 => "http",
        Version::Http2 => "h2c",
    };
    let services = setting.backends.iter().enumerate().map(|(place, address)| {
        let servers = json!([{"url": format!("{scheme}://{address}")}]);
        (cluster(place), json!({"loadBalancer": {"servers": servers}}))
    });
    let mut dynamic = json!({"http": {
        "routers": routers.collect::<Map<String, Value>>(),
        "services": services.collect::<Map<String, Value>>(),
    }});
    if setting.has_tls() {
        let certificate = |name: &String| {
            let dir = certificates.join(name);
            json!({"certFile": dir.join(CHAIN), "keyFile": dir.join(KEY)})
        };
        dynamic["tls"] = json!({
            "certificates": setting.certificates.iter().map(certificate).collect::<Vec<_>>(),
            "options": {"default": {"minVersion": "VersionTLS13"}},
        });
    }
    vec![(FILE, main.to_string()), (DYNAMIC, dynamic.to_string())]
}

/// Makes a running one read its certificates again, which it does with the file that names them.
pub(crate) fn reload(dir: &Path) -> anyhow::Result<()> {
    let (file, beside) = (dir.join(DYNAMIC), dir.join("dynamic.next"));
    std::fs::copy(&file, &beside)?;
    std::fs::rename(beside, file).context("can't tell Traefik to look again")
}

fn rule(route: &Route) -> String {
    let path = format!("PathPrefix(`{}`)", route.prefix);
    match &route.host {
        Some(host) => format!("Host(`{host}`) && {path}"),
        None => path,
    }
}
