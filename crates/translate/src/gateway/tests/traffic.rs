//! What TrafficPolicies become, which of them counts, and what they hear; and sessions, which routes ask for themselves.

use causeway_ir::http::{
    CookieLifetime, ErrorPage, Filter, HttpAction, Page, PathRewrite, Persistence, PersistenceBy,
};

use super::*;

fn policy(name: &str, spec: &str) -> Value {
    object("TrafficPolicy", "infra", name, spec)
}

/// A Gateway with a listener, a route `web` with a named rule, and these.
fn scene(objects: impl IntoIterator<Item = Value>) -> Scene {
    let rules = "rules: [{name: first, backendRefs: [{name: web, port: 8080}, {name: api, port: 8080}]}]";
    Scene::new([gateway(HTTP), http_route("web", rules)]).and(objects)
}

impl Picture {
    fn policy(&self, name: &str) -> &Value {
        &self.traffic_policies[&ObjectRef::new("infra", name)].value
    }

    /// What a policy hears of its target of this place.
    fn end(&self, name: &str, place: usize) -> &Value {
        &self.policy(name)["ancestors"][place]
    }
}

/// The first of these pages.
fn said<'a>(plan: &'a Plan, said: &[ErrorPage]) -> &'a Page {
    plan.pages.iter().find(|page| page.name == said[0].page).expect("a plan has the pages that it names")
}

#[test]
fn a_page_is_in_the_plan_once_for_all_rules_that_say_it() {
    let rules: Vec<String> = (0..100)
        .map(|n| {
            format!("{{matches: [{{path: {{value: /{n}}}}}], backendRefs: [{{name: web, port: 8080}}]}}")
        })
        .collect();
    let spec = format!("{{parentRefs: [{{name: gw}}], rules: [{}]}}", rules.join(", "));
    let body = "sorry ".repeat(5000);
    let asked = format!(
        "{{targetRefs: [{{kind: HTTPRoute, name: web}}], errorPages: [{{statuses: [502, 503], body: {body}}}, {{statuses: [404], body: b}}]}}"
    );
    let picture = Scene::new([gateway(HTTP), object("HTTPRoute", "infra", "web", &spec)])
        .and([policy("pages", &asked)])
        .picture();
    assert_eq!(picture.rules().len(), 100);
    assert!(picture.rules().iter().all(|rule| rule.policies.error_pages.len() == 2));
    let plan = picture.plan();
    assert_eq!(plan.validate(), []);
    assert_eq!(plan.pages.len(), 2);
    let text = serde_json::to_string(plan).unwrap();
    assert!(text.len() < 100_000 && text.matches("sorry sorry").count() < 5000, "{} bytes", text.len());
}

#[test]
fn tunnels_are_made_where_the_nearest_policy_says_so() {
    let asked = |name: &str, target: &str, connect: &str| {
        policy(name, &format!("{{targetRefs: [{{{target}}}], connect: {connect}}}"))
    };
    let levels = [
        asked("a", "kind: Gateway, name: gw", "true"),
        asked("b", "kind: HTTPRoute, name: web", "false"),
        asked("c", "kind: HTTPRoute, name: web, sectionName: first", "true"),
    ];
    for (count, expected) in [(0, false), (1, true), (2, false), (3, true)] {
        let picture = scene(levels[..count].to_vec()).picture();
        assert_eq!(picture.rules()[0].policies.connect, expected, "{count}");
        for name in ["a", "b", "c"].iter().take(count) {
            assert_eq!(condition(picture.end(name, 0), "Accepted"), ("True", "Accepted"));
        }
    }
}

#[test]
fn every_field_becomes_what_it_says() {
    let picture = scene([
        policy(
            "gw",
            "{targetRefs: [{kind: Gateway, name: gw}], trustedProxies: {from: [10.0.0.0/8], header: Forwarded}, \
             errorPages: [{statuses: [404, 503], body: gone}]}",
        ),
        policy(
            "web",
            "{targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: web}], allowedClients: [192.0.2.0/24, '2001:db8::1'], \
             rateLimit: {requests: 5, per: 1m, burst: 9}, bodyLimit: 1Mi, pathRewrite: {pattern: '/a/(.*)', replacement: '/$1'}, \
             failover: {standby: [{name: api}]}}",
        ),
    ])
    .picture();
    for name in ["gw", "web"] {
        assert_eq!(condition(picture.end(name, 0), "Accepted"), ("True", "Accepted"));
        assert_eq!(condition(picture.policy(name), "Accepted"), ("True", "Accepted"));
    }
    let http = picture.requests();
    assert_eq!(http.trusted_proxies.as_ref().unwrap().from[0].to_string(), "10.0.0.0/8");
    let page = said(picture.plan(), &http.error_pages);
    assert_eq!((page.content_type.as_str(), page.body.as_str()), ("text/html; charset=utf-8", "gone"));
    let [rule] = picture.rules() else { panic!("{:?}", picture.rules()) };
    let policies = serde_json::to_value(&rule.policies).unwrap();
    let expected = json!({
        "allowedClients": ["192.0.2.0/24", "2001:db8::1/128"], "bodyLimit": "1Mi",
        "rateLimit": {"requests": 5, "per": "1m", "burst": 9},
    });
    // The pages are the port's, and not said again.
    assert_eq!(policies, expected);
    assert!(
        matches!(&rule.filters[..], [Filter::Rewrite(rewrite)] if matches!(rewrite.path, Some(PathRewrite::Regex(_))))
    );
    let HttpAction::Forward(targets) = &rule.action else { panic!("{rule:?}") };
    let order: Vec<_> = targets.as_slice().iter().map(|t| (t.cluster.as_str(), t.priority)).collect();
    assert_eq!(order, [("infra/web:8080", 0), ("infra/api:8080", 1)]);
    // It is looked who is there, where others wait for that.
    assert!(picture.plan().clusters.iter().all(|cluster| cluster.health_check.is_some()));
}

#[test]
fn a_rule_without_backends_can_be_answered_here() {
    let rules = "rules: [{name: health, matches: [{path: {value: /health}}]}, {backendRefs: [{name: web, port: 8080}]}]";
    let answer = policy(
        "health",
        "{targetRefs: [{kind: HTTPRoute, name: web, sectionName: health}], directResponse: {body: fine}}",
    );
    let picture = Scene::new([gateway(HTTP), http_route("web", rules), answer]).picture();
    let [health, rest] = picture.rules() else { panic!("{:?}", picture.rules()) };
    let HttpAction::Respond(response) = &health.action else { panic!("{health:?}") };
    assert_eq!((response.status, response.body.as_str()), (200, "fine"));
    assert_eq!(response.headers[0].value, "text/plain; charset=utf-8");
    assert_eq!(targets(rest).len(), 1);
}

#[test]
fn nobody_lifts_the_limits_of_others() {
    let gateway = "{targetRefs: [{kind: Gateway, name: gw}], allowedClients: [10.0.0.0/8, 192.0.2.0/24], \
                   rateLimit: {requests: 10, per: 1m}, bodyLimit: 1Mi}";
    let route = |fields: &str| {
        let spec = format!("{{targetRefs: [{{kind: HTTPRoute, name: web}}], {fields}}}");
        scene([policy("a", gateway), policy("b", &spec)]).picture()
    };
    let wider = route("allowedClients: [0.0.0.0/0, '::/0'], rateLimit: {requests: 1000}, bodyLimit: 1Gi");
    let policies = serde_json::to_value(&wider.rules()[0].policies).unwrap();
    let expected = json!({
        "allowedClients": ["10.0.0.0/8", "192.0.2.0/24"], "bodyLimit": "1Mi",
        "rateLimit": {"requests": 10, "per": "1m"},
    });
    assert_eq!(policies, expected);
    let narrower = route("allowedClients: [10.1.0.0/16], rateLimit: {requests: 1, per: 1h}, bodyLimit: 1Ki");
    let policies = serde_json::to_value(&narrower.rules()[0].policies).unwrap();
    let expected = json!({
        "allowedClients": ["10.1.0.0/16"], "bodyLimit": "1Ki", "rateLimit": {"requests": 1, "per": "1h"},
    });
    assert_eq!(policies, expected);
    // Whom each list names, and both together do not, is nobody.
    let apart = route("allowedClients: [172.16.0.0/12], directResponse: {body: hello}");
    assert_eq!(answer(&apart.rules()[0]), 403);
    assert_eq!(condition(apart.end("b", 0), "Accepted"), ("True", "Accepted"));
}

#[test]
fn the_nearest_target_counts_field_by_field() {
    let page = |name: &str, target: &str, page: &str, more: &str| {
        let pages = format!("errorPages: [{{statuses: [404], body: {page}}}]");
        policy(name, &format!("{{targetRefs: [{{{target}}}], {pages}{more}}}"))
    };
    let rewrite = |to: &str| format!(", pathRewrite: {{pattern: '/.*', replacement: /{to}}}");
    let levels = [
        page("a", "kind: Gateway, name: gw", "page1", &rewrite("a")),
        page("b", "kind: Gateway, name: gw, sectionName: http", "page2", &rewrite("b")),
        page("c", "kind: HTTPRoute, name: web", "page3", ""),
        page("d", "kind: HTTPRoute, name: web, sectionName: first", "page4", ""),
    ];
    for count in 1..=4 {
        let picture = scene(levels[..count].to_vec()).picture();
        let rule = &picture.rules()[0];
        let pages = if count > 2 { &rule.policies.error_pages } else { &picture.requests().error_pages };
        assert_eq!(said(picture.plan(), pages).body, format!("page{count}"));
        // What nobody says is not in the plan.
        assert_eq!(picture.plan().pages.len(), [1, 1, 2, 2][count - 1]);
        let [Filter::Rewrite(rewrite)] = &rule.filters[..] else { panic!("{:?}", rule.filters) };
        let Some(PathRewrite::Regex(rewrite)) = &rewrite.path else { panic!("{rewrite:?}") };
        assert_eq!(rewrite.with, if count > 1 { "/b" } else { "/a" });
        assert_eq!(condition(picture.end("a", 0), "Accepted").0, "True");
    }
}

#[test]
fn a_listener_set_is_between_its_listeners_and_the_gateway() {
    let mut gateway = gateway(HTTP);
    gateway["spec"]["allowedListeners"] = json!({"namespaces": {"from": "Same"}});
    let listeners = "[{name: more, port: 81, protocol: HTTP}]";
    let set = object(
        "ListenerSet",
        "infra",
        "set",
        &format!("{{parentRef: {{name: gw}}, listeners: {listeners}}}"),
    );
    let route =
        "{parentRefs: [{kind: ListenerSet, name: set}], rules: [{backendRefs: [{name: web, port: 8080}]}]}";
    let fields = "bodyLimit: 1Ki, rateLimit: {requests: 1}, errorPages: [{statuses: [404], body: page1}]";
    let picture = Scene::new([gateway, set, object("HTTPRoute", "infra", "web", route)])
        .and([
            policy(
                "a",
                &format!(
                    "{{targetRefs: [{{kind: Gateway, name: gw}}], {fields}, allowedClients: [10.0.0.0/8]}}"
                ),
            ),
            policy(
                "b",
                &format!("{{targetRefs: [{{kind: ListenerSet, name: set}}], {}}}", fields.replace('1', "2")),
            ),
            policy("c", "{targetRefs: [{kind: ListenerSet, name: set, sectionName: more}], bodyLimit: 3Ki}"),
        ])
        .picture();
    let http = requests(picture.plan(), 81);
    assert_eq!(said(picture.plan(), &http.error_pages).body, "page2");
    let policies = &http.routes[0].policies;
    assert_eq!(policies.body_limit.unwrap().to_string(), "1Ki");
    assert_eq!(policies.rate_limit.as_ref().unwrap().requests.get(), 1);
    assert_eq!(policies.allowed_clients.len(), 1);
    for name in ["a", "b", "c"] {
        assert_eq!(condition(picture.end(name, 0), "Accepted"), ("True", "Accepted"), "{name}");
    }
    // The other port has the Gateway's own.
    assert_eq!(said(picture.plan(), &requests(picture.plan(), 80).error_pages).body, "page1");
}

#[test]
fn of_equals_the_oldest_counts_and_the_other_is_told() {
    let target = "targetRefs: [{kind: HTTPRoute, name: web}]";
    let picture = scene([
        aged(2020, policy("old", &format!("{{{target}, bodyLimit: 1Ki}}"))),
        aged(2021, policy("lost", &format!("{{{target}, bodyLimit: 2Ki}}"))),
        aged(2022, policy("half", &format!("{{{target}, bodyLimit: 3Ki, rateLimit: {{requests: 3}}}}"))),
    ])
    .picture();
    let policies = &picture.rules()[0].policies;
    assert_eq!(policies.body_limit.unwrap().to_string(), "1Ki");
    assert_eq!(policies.rate_limit.as_ref().unwrap().requests.get(), 3);
    assert_eq!(condition(picture.end("old", 0), "Conflicted"), ("", ""));
    assert_eq!(condition(picture.end("lost", 0), "Accepted"), ("False", "Conflicted"));
    assert_eq!(condition(picture.policy("lost"), "Accepted"), ("False", "Conflicted"));
    assert!(
        message(picture.end("lost", 0), "Accepted").contains("bodyLimit is that of TrafficPolicy infra/old")
    );
    assert_eq!(condition(picture.end("half", 0), "Accepted"), ("True", "Accepted"));
    assert_eq!(condition(picture.end("half", 0), "Conflicted"), ("True", "Conflicted"));
}

#[test]
fn what_cannot_be_carried_out_is_told_with_its_field_and_closes_the_way() {
    for (field, words) in [
        (
            "allowedClients: [10.0.0.0/8, nowhere]",
            "allowedClients[1]: `nowhere` is not a network: write one like",
        ),
        ("allowedClients: []", "allowedClients: no network is in this list: leave the field out"),
        ("rateLimit: {requests: 0}", "rateLimit.requests: 0 lets nobody in: write 1 or more"),
        ("rateLimit: {requests: 1, per: 0s}", "rateLimit.per: `0s` is no time at all: write 1s"),
        ("rateLimit: {requests: 1, per: soon}", "rateLimit.per: "),
        ("bodyLimit: '0'", "bodyLimit: `0` lets no body through: write a size like 1Mi"),
        ("bodyLimit: 5M", "bodyLimit: `5M` is not an amount of memory: write a number and a unit"),
        (
            "errorPages: [{statuses: [200], body: x}]",
            "errorPages[0].statuses: 200 is not the status of an error: write 400 to 599",
        ),
        (
            "errorPages: [{statuses: [404], body: x}, {statuses: [404], body: z}]",
            "errorPages[1].statuses: 404 has a page already, errorPages[0]",
        ),
        (
            "errorPages: [{statuses: [404], contentType: \"a\\nb\", body: x}]",
            "errorPages[0].contentType: `a\\nb` is not a type",
        ),
        (
            "directResponse: {status: 100}",
            "directResponse.status: 100 is not the status of an answer: write 200 to 599",
        ),
        (
            "pathRewrite: {pattern: '(', replacement: /}",
            "pathRewrite.pattern: `(` is not a regular expression",
        ),
        (
            "pathRewrite: {pattern: '/(.*)', replacement: '/$2'}",
            "pathRewrite.replacement: the expression has no group `2`",
        ),
        (
            "pathRewrite: {pattern: '/(.*)', replacement: '$1'}",
            "pathRewrite.replacement: `$1` is not a path: it begins with /",
        ),
    ] {
        let picture =
            scene([policy("bad", &format!("{{targetRefs: [{{kind: HTTPRoute, name: web}}], {field}}}"))])
                .picture();
        assert_eq!(condition(picture.end("bad", 0), "Accepted"), ("False", "Invalid"), "{field}");
        let said = message(picture.end("bad", 0), "Accepted");
        assert!(said.starts_with(words), "{field}: {said}");
        assert_eq!(answer(&picture.rules()[0]), 500, "{field}");
    }
}

#[test]
fn what_makes_no_sense_for_a_target_is_told_and_changes_nothing() {
    for (spec, words) in [
        (
            "{targetRefs: [{kind: HTTPRoute, name: web}], trustedProxies: {from: [10.0.0.0/8]}}",
            "trustedProxies: is for whole Gateways",
        ),
        (
            "{targetRefs: [{kind: Gateway, name: gw}], failover: {standby: [{name: api}]}}",
            "failover: is for routes",
        ),
        (
            "{targetRefs: [{kind: HTTPRoute, name: web}], failover: {standby: [{name: nowhere}]}}",
            "failover.standby[0]: no backendRef of the target is Service infra/nowhere",
        ),
        ("{targetRefs: [{kind: HTTPRoute, name: web}]}", "it asks for nothing: write one of trustedProxies"),
        (
            "{targetRefs: [{kind: TCPRoute, name: web}], bodyLimit: 1Mi}",
            "targetRefs[0].kind: TCPRoute of group gateway.networking.k8s.io has no policies here: write Gateway",
        ),
        (
            "{targetRefs: [{group: apps, kind: Gateway, name: gw}], bodyLimit: 1Mi}",
            "targetRefs[0].kind: Gateway of group apps",
        ),
    ] {
        let picture = scene([policy("bad", spec)]).picture();
        assert_eq!(condition(picture.end("bad", 0), "Accepted"), ("False", "Invalid"), "{spec}");
        let said = message(picture.end("bad", 0), "Accepted");
        assert!(said.starts_with(words), "{spec}: {said}");
        assert_eq!(targets(&picture.rules()[0]).len(), 2, "{spec}");
        assert!(picture.rules()[0].policies.is_empty(), "{spec}");
    }
}

#[test]
fn a_target_that_is_not_there_or_not_ours_is_told_by_itself() {
    let others = object("Gateway", "infra", "theirs", "{gatewayClassName: other, listeners: []}");
    let far = "{targetRefs: [{kind: Gateway, name: gw}, {kind: Gateway, name: theirs}, {kind: HTTPRoute, name: nowhere}, \
               {kind: HTTPRoute, name: web, sectionName: second}, {kind: Gateway, name: gw, sectionName: https}], bodyLimit: 1Mi}";
    let picture = scene([others, policy("far", far)]).picture();
    let heard: Vec<_> = (0..5).map(|place| condition(picture.end("far", place), "Accepted").1).collect();
    assert_eq!(heard, ["Accepted", "TargetNotFound", "TargetNotFound", "TargetNotFound", "TargetNotFound"]);
    assert_eq!(picture.end("far", 3)["ancestorRef"]["sectionName"], "second");
    assert!(
        message(picture.end("far", 3), "Accepted")
            .ends_with("HTTPRoute infra/web has no rule named second; it has first")
    );
    assert_eq!(condition(picture.policy("far"), "Accepted"), ("False", "TargetNotFound"));
    assert!(picture.rules()[0].policies.body_limit.is_some());
    // A policy of another namespace is for what is there.
    let mut elsewhere = policy("far", far);
    elsewhere["metadata"]["namespace"] = json!("apps");
    assert!(scene([elsewhere]).picture().rules()[0].policies.is_empty());
}

#[test]
fn words_of_others_stay_and_the_same_is_not_said_twice() {
    let target = "{targetRefs: [{kind: Gateway, name: gw}], bodyLimit: 1Mi}";
    let mut object = policy("p", target);
    let foreign =
        json!({"ancestorRef": {"name": "x"}, "controllerName": "example.com/other", "conditions": []});
    object["status"] = json!({"ancestors": [foreign.clone()]});
    let picture = scene([object.clone()]).picture();
    assert_eq!(*picture.end("p", 0), foreign);
    assert_eq!(condition(picture.end("p", 1), "Accepted"), ("True", "Accepted"));
    object["status"] = picture.policy("p").clone();
    let again = scene([object]).picture();
    assert!(!again.traffic_policies[&ObjectRef::new("infra", "p")].changed);
}

#[test]
fn a_rules_own_rewrite_comes_first_and_its_redirect_stays() {
    let rules = "rules: [{filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /own}}}], \
                 backendRefs: [{name: web, port: 8080}]}]";
    let rewrite = policy(
        "r",
        "{targetRefs: [{kind: Gateway, name: gw}], pathRewrite: {pattern: '/.*', replacement: /other}}",
    );
    let picture = Scene::new([gateway(HTTP), http_route("web", rules), rewrite]).picture();
    let [Filter::Rewrite(rewrite)] = &picture.rules()[0].filters[..] else { panic!("{:?}", picture.rules()) };
    assert!(matches!(&rewrite.path, Some(PathRewrite::Full(path)) if path.as_str() == "/own"));
}

/// The session of the first of two rules that ask for this.
fn session(written: &str) -> Result<Persistence, String> {
    let rule = format!("{{sessionPersistence: {written}, backendRefs: [{{name: web, port: 8080}}]}}");
    let picture =
        Scene::new([gateway(HTTP), http_route("web", &format!("rules: [{rule}, {rule}]"))]).picture();
    let (status, _) = condition(picture.http("web"), "Accepted");
    if status == "False" {
        assert_eq!(answer(&picture.rules()[0]), 500);
        return Err(message(picture.http("web"), "Accepted").to_owned());
    }
    let [first, second] = picture.rules() else { panic!("{:?}", picture.rules()) };
    let (first, second) =
        (first.policies.persistence.clone().unwrap(), second.policies.persistence.clone().unwrap());
    assert_eq!(first.name == second.name, written.contains("sessionName"), "{first:?} {second:?}");
    Ok(first)
}

#[test]
fn sessions_are_kept_as_routes_ask_for_it() {
    let made = session("{}").unwrap();
    assert_eq!((made.by, made.lifetime), (PersistenceBy::Cookie, CookieLifetime::Session));
    let made = session(
        "{sessionName: shop, absoluteTimeout: 1h, idleTimeout: 10m, cookieConfig: {lifetimeType: Permanent}}",
    );
    let made = made.unwrap();
    assert_eq!((made.name.as_str(), made.lifetime), ("shop", CookieLifetime::Permanent));
    assert!(made.absolute_timeout.is_some() && made.idle_timeout.is_some());
    assert_eq!(session("{type: Header, sessionName: X-Shop}").unwrap().by, PersistenceBy::Header);
    for (written, words) in [
        ("{type: Query}", "sessionPersistence.type: Query is not known here: write Cookie or Header"),
        ("{sessionName: 'a b'}", "sessionPersistence.sessionName: `a b` is not the name"),
        ("{idleTimeout: soon}", "sessionPersistence.idleTimeout: "),
        ("{cookieConfig: {lifetimeType: Permanent}}", "lifetimeType: Permanent needs an absoluteTimeout"),
        (
            "{type: Header, absoluteTimeout: 1h, cookieConfig: {lifetimeType: Permanent}}",
            "leave cookieConfig out",
        ),
    ] {
        let said = session(written).unwrap_err();
        assert!(said.contains(words), "{written}: {said}");
    }
}
