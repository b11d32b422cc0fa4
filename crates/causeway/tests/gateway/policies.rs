//! What is asked of requests beyond Gateway API, and sessions, from files and through the wire.

use std::fmt::Write as _;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::port;
use causeway_testkit::server::program;

use crate::backend::{backend, curl, serve, service};
use crate::files::{Gateway, status};

/// A Gateway with a route `web` of these rules, and these Services.
fn site(http: u16, rules: &str, services: &[(&str, u16)]) -> String {
    let mut text: String = services.iter().map(|(name, port)| service(name, *port)).collect();
    let _ = write!(
        text,
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: web}}
spec:
  gatewayClassName: causeway
  listeners: [{{name: http, port: {http}, protocol: HTTP}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: web}}
spec:
  parentRefs: [{{name: web}}]
  rules: {rules}
"
    );
    text
}

/// A policy for a rule of the route, or for the Gateway.
fn policy(name: &str, rule: Option<&str>, fields: &str) -> String {
    let target = match rule {
        Some(rule) => format!("{{kind: HTTPRoute, name: web, sectionName: {rule}}}"),
        None => "{kind: Gateway, name: web}".to_owned(),
    };
    format!(
        "---
apiVersion: causeway.dev/v1alpha1
kind: TrafficPolicy
metadata: {{name: {name}}}
spec: {{targetRefs: [{target}], {fields}}}
"
    )
}

/// A rule for paths below its name, with a backend.
fn rule(name: &str, backend: &str) -> String {
    format!(
        "{{name: {name}, matches: [{{path: {{value: /{name}}}}}], backendRefs: [{{name: {backend}, port: 80}}]}}"
    )
}

/// A server that takes all that it is sent, and says nothing; its port.
fn deaf() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut taken = [0; 4096];
                while stream.read(&mut taken).is_ok_and(|count| count > 0) {}
            });
        }
    });
    port
}

/// The status of an answer, which may follow a body without a line's end.
fn code(answer: &str) -> &str {
    let answer = answer.trim_end();
    answer.get(answer.len().saturating_sub(3)..).unwrap_or_default()
}

fn write(dir: &Path, file: &str, text: &str) {
    std::fs::write(dir.join(file), text).unwrap();
}

#[test]
fn limits_allow_lists_pages_answers_and_rewrites() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let http = port::free();
    let rules = [
        rule("upload", "deaf"),
        rule("limited", "one"),
        rule("inside", "one"),
        rule("users", "one"),
        "{name: health, matches: [{path: {value: /health}}]}".to_owned(),
    ];
    let services = [("one", backend("one")), ("deaf", deaf())];
    write(dir, "site.yaml", &site(http, &format!("[{}]", rules.join(", ")), &services));
    let policies = [
        policy(
            "edge",
            None,
            "trustedProxies: {from: [127.0.0.0/8]}, errorPages: [{statuses: [403, 404], body: <p>not here</p>}]",
        ),
        policy("upload", Some("upload"), "bodyLimit: 1Ki"),
        policy("limited", Some("limited"), "rateLimit: {requests: 2, per: 1h}"),
        policy("inside", Some("inside"), "allowedClients: [203.0.113.0/24]"),
        policy(
            "users",
            Some("users"),
            "pathRewrite: {pattern: '/users/([0-9]+)/(?<rest>.*)', replacement: '/${rest}/of/$1'}",
        ),
        policy("health", Some("health"), "directResponse: {status: 203, body: fine}"),
    ];
    write(dir, "policies.yaml", &policies.concat());
    let _running = Gateway::start(dir);
    let url = |path: &str| format!("http://127.0.0.1:{http}{path}");
    eventually("it answers by itself", PATIENCE, || curl(&[&url("/health")]) == "fine203\n");
    eventually("every policy is accepted", PATIENCE, || {
        ["edge", "upload", "limited", "inside", "users", "health"].iter().all(|name| {
            let said = status(dir, &format!("trafficpolicy.default.{name}"));
            said.contains("causeway.dev/v1alpha1") && said.contains("Accepted") && !said.contains("False")
        })
    });

    // Of a body whose length nobody tells, no more is taken than may be.
    let body = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(body.path(), "x".repeat(1 << 16)).unwrap();
    let body = format!("@{}", body.path().display());
    for head in ["Transfer-Encoding: chunked", "X-Length: told"] {
        let answer = curl(&["-H", "Expect:", "-H", head, "--data-binary", &body, &url("/upload")]);
        assert_eq!(code(&answer), "413", "{head}: {answer}");
    }
    let answers: Vec<_> = (0..3).map(|_| code(&curl(&[&url("/limited")])).to_owned()).collect();
    assert_eq!(answers, ["200", "200", "429"]);
    // Another client is not the one that asked too often.
    assert_eq!(code(&curl(&["-H", "X-Forwarded-For: 203.0.113.7", &url("/limited")])), "200");

    for (forwarded, expected) in [
        ("203.0.113.9", "200"),
        ("203.0.113.9, 127.0.0.5", "200"),
        ("203.0.113.9, 198.51.100.1", "403"),
        ("127.0.0.1", "403"),
    ] {
        let answer = curl(&["-H", &format!("X-Forwarded-For: {forwarded}"), &url("/inside")]);
        assert_eq!(code(&answer), expected, "{forwarded}: {answer}");
    }
    assert_eq!(curl(&[&url("/inside")]), "<p>not here</p>403\n");
    assert_eq!(curl(&[&url("/nowhere")]), "<p>not here</p>404\n");
    assert!(curl(&[&url("/users/7/a/b?q")]).starts_with("one GET /a/b/of/7?q "));
    assert!(curl(&[&url("/users/x/a")]).starts_with("one GET /users/x/a "));

    // What can't be carried out is said, and closes what it is for alone.
    write(dir, "policies.yaml", &policies.concat().replace("([0-9]+)", "([0-9]+"));
    eventually("the way is closed", PATIENCE, || code(&curl(&[&url("/users/7/a")])) == "500");
    eventually("its status says why", PATIENCE, || {
        status(dir, "trafficpolicy.default.users").contains("pathRewrite.pattern")
    });
    assert_eq!(curl(&[&url("/health")]), "fine203\n");
    let check = finish(Command::new(program()).args(["gateway", "--check", "--files"]).arg(dir));
    assert!(
        check.stderr.contains("TrafficPolicy default/users: Invalid: pathRewrite.pattern"),
        "{}",
        check.stderr
    );
}

#[test]
fn a_backend_stands_by_while_the_first_is_down_and_sessions_stay() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (http, first) = (port::free(), port::free());
    let shop = "{name: shop, matches: [{path: {value: /shop}}], \
                backendRefs: [{name: first, port: 80}, {name: second, port: 80}]}";
    let session = "{name: session, matches: [{path: {value: /session}}], sessionPersistence: {sessionName: stay}, \
                   backendRefs: [{name: second, port: 80}, {name: third, port: 80}]}";
    let services = [("first", first), ("second", backend("second")), ("third", backend("third"))];
    write(dir, "site.yaml", &site(http, &format!("[{shop}, {session}]"), &services));
    write(dir, "policies.yaml", &policy("shop", Some("shop"), "failover: {standby: [{name: second}]}"));
    let _running = Gateway::start(dir);
    let url = |path: &str| format!("http://127.0.0.1:{http}{path}");
    eventually("the second stands in", PATIENCE, || curl(&[&url("/shop")]).starts_with("second "));
    serve(TcpListener::bind(("127.0.0.1", first)).unwrap(), "first");

    // Meanwhile: who brings the cookie stays, who does not goes to both.
    let jar = tempfile::NamedTempFile::new().unwrap();
    let jar = jar.path().to_str().unwrap();
    let who = |answer: String| answer.split(' ').next().unwrap_or_default().to_owned();
    let own = who(curl(&["-c", jar, &url("/session")]));
    for _ in 0..10 {
        assert_eq!(who(curl(&["-b", jar, &url("/session")])), own);
    }
    for name in ["second", "third"] {
        eventually(name, PATIENCE, || who(curl(&[&url("/session")])) == name);
    }

    eventually("the first is back", PATIENCE, || curl(&[&url("/shop")]).starts_with("first "));
    for _ in 0..5 {
        assert!(curl(&[&url("/shop")]).starts_with("first "));
    }
}

#[test]
fn a_policy_that_can_not_be_read_closes_and_a_gateway_that_can_not_be_read_runs_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (http, one) = (port::free(), backend("one"));
    let rules = format!("[{}, {}]", rule("kept", "one"), rule("free", "one"));
    std::fs::write(dir.join("site.yaml"), site(http, &rules, &[("one", one)])).unwrap();
    std::fs::write(dir.join("policy.yaml"), policy("kept", Some("kept"), "allowedClients: [127.0.0.0/8]"))
        .unwrap();
    let running = Gateway::start(dir);
    let ask = |path: &str| curl(&[&format!("http://127.0.0.1:{http}/{path}"), "-w", "%{http_code}"]);
    eventually("it answers", PATIENCE, || ask("kept").starts_with("one "));
    // A letter too many, and the list would let everybody in.
    std::fs::write(dir.join("policy.yaml"), policy("kept", Some("kept"), "allowedClientss: [192.0.2.0/24]"))
        .unwrap();
    eventually("the rule is closed", PATIENCE, || ask("kept").ends_with("500"));
    running.says("spec.allowedClientss: there is no such field");
    eventually("its status says so", PATIENCE, || {
        status(dir, "trafficpolicy.default.kept").contains("there is no such field")
    });
    assert!(ask("free").starts_with("one "));
    std::fs::write(dir.join("policy.yaml"), policy("kept", Some("kept"), "allowedClients: [127.0.0.0/8]"))
        .unwrap();
    eventually("it is open again", PATIENCE, || ask("kept").starts_with("one "));
    // A Gateway is not taken down by a mistake in it.
    let wrong = site(http, &rules, &[("one", one)]).replace(&format!("port: {http}"), "port: -1");
    std::fs::write(dir.join("site.yaml"), wrong).unwrap();
    running.says("spec.listeners[0].port");
    eventually("it is told", PATIENCE, || status(dir, "gateway.default.web").contains("can't be read"));
    assert!(ask("free").starts_with("one "), "{}", ask("free"));
}

/// curl speaks through a tunnel as through any proxy: to the backend of the rule, whatever it asked for.
#[test]
fn a_tunnel_leads_to_the_backend_of_its_rule() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let http = port::free();
    let (inside, named) = (backend("inside"), backend("named"));
    let rules = "[{name: all, backendRefs: [{name: inside, port: 80}]}]";
    write(dir, "site.yaml", &site(http, rules, &[("inside", inside)]));
    let _running = Gateway::start(dir);
    let proxy = format!("http://127.0.0.1:{http}");
    let through = || curl(&["--proxytunnel", "--proxy", &proxy, &format!("http://127.0.0.1:{named}/a")]);
    eventually("it answers", PATIENCE, || curl(&[&proxy]).starts_with("inside GET / "));
    assert!(!through().contains("GET"), "nobody asked for tunnels: {}", through());
    write(dir, "policies.yaml", &policy("tunnels", Some("all"), "connect: true"));
    eventually("the tunnel is made", PATIENCE, || through().starts_with("inside GET /a "));
    let told = || status(dir, "trafficpolicy.default.tunnels").contains("Accepted");
    eventually("the policy says so", PATIENCE, told);
    assert!(curl(&[&proxy]).starts_with("inside GET / "), "other requests are what they were");
}
