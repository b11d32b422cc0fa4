//! `causeway gateway --files`: no Kubernetes at all.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::port;
use causeway_testkit::server::{program, signal};
use serde_json::Value;

use crate::backend::{Authority, backend, curl};
use crate::load::Load;

/// A gateway that runs. Killed if it is dropped.
pub(crate) struct Gateway {
    child: Child,
    lines: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
}

impl Gateway {
    pub(crate) fn start(dir: &Path) -> Self {
        let mut child = Command::new(program())
            .args(["gateway", "--admin"])
            .arg(dir.join("admin.sock"))
            .arg("--files")
            .arg(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = std::sync::Arc::<std::sync::Mutex<Vec<String>>>::default();
        let (stderr, said) = (BufReader::new(child.stderr.take().unwrap()), lines.clone());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                said.lock().unwrap().push(line);
            }
        });
        Self { child, lines }
    }

    pub(crate) fn says(&self, word: &str) {
        eventually(word, PATIENCE, || self.lines.lock().unwrap().iter().any(|line| line.contains(word)));
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn gateway(http: u16, https: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: web}}
spec:
  gatewayClassName: causeway
  listeners:
  - {{name: http, port: {http}, protocol: HTTP}}
  - {{name: https, port: {https}, protocol: HTTPS, tls: {{certificateRefs: [{{name: site}}]}}}}
"
    )
}

/// A route, and an EndpointSlice that needs no Service.
fn route(name: &str, port: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: shop}}
spec:
  parentRefs: [{{name: web}}]
  rules: [{{backendRefs: [{{name: {name}, port: {port}}}]}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}}}
addressType: IPv4
ports: [{{port: {port}}}]
endpoints: [{{addresses: [127.0.0.1]}}]
"
    )
}

pub(crate) fn status(dir: &Path, object: &str) -> String {
    std::fs::read_to_string(dir.join("status").join(format!("{object}.yaml"))).unwrap_or_default()
}

/// The conditions in the status of an object, wherever in it they are: of the object, or of a listener of this name.
pub(crate) fn conditions(dir: &Path, object: &str, listener: Option<&str>) -> Vec<[String; 3]> {
    let said: Value = serde_saphyr::from_str(&status(dir, object)).unwrap_or_default();
    let said = &said["status"];
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let entries: Vec<&Value> = match listener {
        Some(name) => {
            said["listeners"].as_array().into_iter().flatten().filter(|l| l["name"] == name).collect()
        }
        None => ["parents", "ancestors"]
            .iter()
            .flat_map(|list| said[list].as_array().into_iter().flatten())
            .chain([said])
            .collect(),
    };
    let all = entries.into_iter().flat_map(|entry| entry["conditions"].as_array().into_iter().flatten());
    all.map(|one| ["type", "status", "reason"].map(|field| text(one, field))).collect()
}

#[test]
fn serves_files_follows_them_and_writes_statuses_beside_them() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (http, https) = (port::free(), port::free());
    let (one, other) = (backend("one"), backend("other"));
    let authority = Authority::new();
    std::fs::write(dir.join("gateway.yaml"), gateway(http, https)).unwrap();
    std::fs::write(dir.join("route.yaml"), route("one", one)).unwrap();
    std::fs::write(dir.join("secret.yaml"), authority.secret("site", "localhost", 7)).unwrap();
    let mut running = Gateway::start(dir);
    let url = format!("http://127.0.0.1:{http}/");
    eventually("it answers", PATIENCE, || curl(&[&url]).starts_with("one "));
    let ca = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), authority.pem()).unwrap();
    let secure = format!("https://localhost:{https}/");
    eventually("it answers with TLS", PATIENCE, || {
        curl(&["--cacert", ca.path().to_str().unwrap(), &secure]).starts_with("one ")
    });
    let socket = dir.join("admin.sock");
    let shown =
        |path: &str| curl(&["--unix-socket", socket.to_str().unwrap(), &format!("http://localhost{path}")]);
    eventually("it is ready", PATIENCE, || shown("/ready").starts_with("ready"));
    let metrics = shown("/metrics");
    assert!(metrics.contains("{gateway=\"default/web\"") && metrics.contains("# EOF"), "{metrics}");
    assert!(shown("/listeners").contains("\"default/web\":["), "{}", shown("/listeners"));
    eventually("the statuses are there", PATIENCE, || {
        let gateway = status(dir, "gateway.default.web");
        gateway.contains("Programmed")
            && gateway.contains("127.0.0.1")
            && status(dir, "httproute.default.shop").contains("Accepted")
    });

    // An edit under load.
    let load = Load::start(vec![url.clone()], &["one ", "other "]);
    std::fs::write(dir.join("route.yaml"), route("other", other)).unwrap();
    eventually("it leads elsewhere", PATIENCE, || curl(&[&url]).starts_with("other "));
    let bad = load.end();
    assert!(bad.is_empty(), "{} requests failed: {:?}", bad.len(), bad.first());

    // Files that make no sense: told with file and line, and what ran goes on.
    std::fs::write(dir.join("route.yaml"), route("other", other) + "---\nkind: [broken\n").unwrap();
    running.says("route.yaml:");
    assert!(curl(&[&url]).starts_with("other "));
    std::fs::write(dir.join("more.yaml"), "# nothing yet\n---\napiVersion: v1\nkind: Service\n").unwrap();
    running.says("more.yaml:3: metadata.name is missing");

    // A route whose target is gone says so in its status.
    let lost = route("other", other).replace("name: other, port", "name: nowhere, port");
    std::fs::write(dir.join("route.yaml"), lost).unwrap();
    eventually("the status says it", PATIENCE, || {
        status(dir, "httproute.default.shop").contains("BackendNotFound")
    });
    assert_eq!(curl(&[&url]).lines().last(), Some("500"));

    signal(running.child.id(), "TERM");
    assert!(running.child.wait().unwrap().success());
}

#[test]
fn a_port_that_is_taken_is_said_and_the_rest_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (http, https) = (port::free(), taken.local_addr().unwrap().port());
    let one = backend("one");
    std::fs::write(dir.join("all.yaml"), gateway(http, https) + "---\n" + &route("one", one)).unwrap();
    let authority = Authority::new();
    std::fs::write(dir.join("secret.yaml"), authority.secret("site", "localhost", 7)).unwrap();
    let running = Gateway::start(dir);
    running.says("another process listens there");
    eventually("the other port answers", PATIENCE, || {
        curl(&[&format!("http://127.0.0.1:{http}/")]).starts_with("one ")
    });
    eventually("the status says it", PATIENCE, || {
        status(dir, "gateway.default.web").contains("another process listens there")
    });
    drop(taken);
    eventually("it is taken once it is free", PATIENCE, || {
        !status(dir, "gateway.default.web").contains("another process listens there")
    });
}

/// Whoever runs programs with OpenTelemetry gives all of them its variables.
#[test]
fn variables_for_other_programs_refuse_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let ran = finish(
        Command::new(program())
            .args(["gateway", "--check", "--files"])
            .arg(dir.path())
            .env("OTEL_SERVICE_NAME", "shop")
            .env("OTEL_TRACES_SAMPLER_ARG", "endpoint=http://sampler:14250"),
    );
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn a_check_says_what_is_wrong_and_runs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let check = || finish(Command::new(program()).args(["gateway", "--check", "--files"]).arg(dir.path()));
    let both = gateway(8080, 8443);
    let good = both.lines().filter(|line| !line.contains("https")).map(|line| format!("{line}\n"));
    let good = good.collect::<String>() + "---\n" + &route("one", 9000);
    std::fs::write(dir.path().join("all.yaml"), &good).unwrap();
    let ran = check();
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    std::fs::write(
        dir.path().join("all.yaml"),
        good.replace("parentRefs: [{name: web}]", "parentRefs: [{name: no}]"),
    )
    .unwrap();
    std::fs::write(
        dir.path().join("bad.yaml"),
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: x}\nspec:\n  rules: 7\n",
    )
    .unwrap();
    let said = check();
    assert_ne!(said.code, Some(0));
    assert!(said.stderr.contains("bad.yaml:5: spec.rules"), "{}", said.stderr);
    assert!(!dir.path().join("status").exists());
}

#[test]
fn each_of_many_rules_on_one_path_and_of_many_expressions_has_its_own_requests() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let http = port::free();
    let rules = |name: &str, matched: &dyn Fn(usize) -> String| {
        let rule = |i| {
            let path = format!("{{type: ReplaceFullPath, replaceFullPath: /{name}/{i}}}");
            format!(
                "\n  - matches: [{{{}}}]\n    filters: [{{type: RequestRedirect, requestRedirect: {{path: {path}}}}}]",
                matched(i)
            )
        };
        let rules: String = (0..16).map(rule).collect();
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}}}\n\
             spec:\n  parentRefs: [{{name: web, sectionName: http}}]\n  rules:{rules}\n"
        )
    };
    let text = gateway(http, port::free())
        + &rules("header", &|i| format!("headers: [{{name: x-team, value: '{i}'}}]"))
        + &rules("name", &|i| format!("headers: [{{name: x-team-{i}, value: 'yes'}}]"))
        + &rules("query", &|i| format!("queryParams: [{{name: team, value: '{i}'}}]"))
        + &rules("expression", &|i| format!("path: {{type: RegularExpression, value: '/team{i}/[0-9]+'}}"));
    std::fs::write(dir.join("all.yaml"), text).unwrap();
    let _running = Gateway::start(dir);
    let told = |path: &str, header: &str| {
        let url = format!("http://127.0.0.1:{http}{path}");
        let said = curl(&["-H", header, "--write-out", "%{redirect_url}", &url]);
        // The query is kept.
        said.split('?').next().unwrap_or_default().to_owned()
    };
    eventually("the last route is served", PATIENCE, || told("/?team=15", "x: y").ends_with("/query/15"));
    for i in 0..16 {
        for (path, header, expected) in [
            ("/any".to_owned(), format!("X-Team: {i}"), format!("/header/{i}")),
            ("/any?team=1".to_owned(), format!("x-team-{i}: yes"), format!("/name/{i}")),
            (format!("/any?x=1&team={i}&team=77"), "x: y".to_owned(), format!("/query/{i}")),
            (format!("/team{i}/12?team=1"), "x-team: 1".to_owned(), format!("/expression/{i}")),
        ] {
            let said = told(&path, &header);
            assert!(said.ends_with(&expected), "{path} {header}: {said}");
        }
    }
}
