//! What the rules of HTTPRoutes and GRPCRoutes become.

use causeway_ir::http::{Filter, HttpAction, PathMatch, PathRewrite, Redirect, RedirectStatus, Scheme};

use super::*;

/// The rules of a route with these on port 80.
fn made(rules: &str) -> Vec<HttpRoute> {
    let picture = Scene::new([gateway(HTTP), http_route("web", &format!("rules: {rules}"))]).picture();
    assert_eq!(condition(picture.http("web"), "Accepted").0, "True", "{}", picture.http("web"));
    assert_eq!(condition(picture.http("web"), "PartiallyInvalid").0, "", "{}", picture.http("web"));
    picture.rules().to_vec()
}

/// One rule with these fields and a backend.
fn rule(fields: &str) -> HttpRoute {
    made(&format!("[{{{fields}, backendRefs: [{{name: web, port: 8080}}]}}]")).remove(0)
}

/// Why a single rule is refused.
fn refused(fields: &str) -> (String, Vec<HttpRoute>) {
    let rules = format!("rules: [{{{fields}, backendRefs: [{{name: web, port: 8080}}]}}]");
    let picture = Scene::new([gateway(HTTP), http_route("web", &rules)]).picture();
    let (status, reason) = condition(picture.http("web"), "Accepted");
    assert_eq!(status, "False", "{fields}");
    assert_eq!(picture.listener("http")["attachedRoutes"], 0, "{fields}");
    (reason.to_owned(), picture.rules().to_vec())
}

fn redirect(rule: &HttpRoute) -> &Redirect {
    match &rule.action {
        HttpAction::Redirect(redirect) => redirect,
        other => panic!("{other:?}"),
    }
}

#[test]
fn matches_of_every_type() {
    let found = rule(
        "matches: [
            {path: {type: Exact, value: /a}, method: PATCH, headers: [{name: X-A, value: '1'}, {name: x-a, value: '2'}], queryParams: [{name: q, value: '1'}]},
            {path: {value: /b/}, headers: [{type: RegularExpression, name: x, value: 'a+'}]},
            {path: {type: RegularExpression, value: '/c.*'}},
            {},
        ]",
    );
    let [exact, prefix, regex, any] = found.matches.as_slice() else { panic!("{found:?}") };
    assert!(matches!(&exact.path, Some(PathMatch::Exact(path)) if path.as_str() == "/a"));
    assert_eq!(exact.method.as_ref().unwrap().as_str(), "PATCH");
    // Of two for one name the first counts.
    assert_eq!((exact.headers.len(), exact.query.len()), (1, 1));
    assert!(exact.headers[0].value.is_match("1"));
    assert!(prefix.path.as_ref().unwrap().is_match("/b/c") && prefix.headers[0].value.is_match("aa"));
    assert!(regex.path.as_ref().unwrap().is_match("/cd"));
    assert_eq!(*any, causeway_ir::http::RequestMatch::default());
}

#[test]
fn headers_of_requests_and_answers_are_changed_by_rule_and_by_backend() {
    let found = made(
        "[{
            filters: [
                {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Set, value: a}], add: [{name: x-add, value: b}], remove: [x-gone]}},
                {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: x-back, value: c}]}},
            ],
            backendRefs: [
                {name: web, port: 8080, weight: 9, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: backend, value: web}]}}]},
                {name: api, port: 8080, filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}]},
            ],
        }]",
    );
    let [Filter::RequestHeaders(request), Filter::ResponseHeaders(answer)] = found[0].filters.as_slice()
    else {
        panic!("{:?}", found[0].filters)
    };
    assert_eq!((request.set[0].name.as_str(), request.add.len(), request.remove.len()), ("x-set", 1, 1));
    assert_eq!(answer.set[0].value, "c");
    let HttpAction::Forward(targets) = &found[0].action else { panic!("{:?}", found[0].action) };
    let [web, api] = targets.as_slice() else { panic!("{targets:?}") };
    assert_eq!((web.weight, api.weight), (9, 1));
    assert!(matches!(&web.filters[0], Filter::RequestHeaders(change) if change.add[0].value == "web"));
    assert!(matches!(&api.filters[0], Filter::Rewrite(rewrite)
        if matches!(&rewrite.path, Some(PathRewrite::Prefix(path)) if path.as_str() == "/new")));
}

#[test]
fn redirects_leave_the_port_that_clients_use_to_who_knows_it() {
    for (fields, expected) in [
        ("hostname: b.test", None),
        ("scheme: https", None),
        ("port: 8443", Some(8443)),
        ("scheme: https, port: 8443", Some(8443)),
    ] {
        let rules =
            format!("rules: [{{filters: [{{type: RequestRedirect, requestRedirect: {{{fields}}}}}]}}]");
        let picture = Scene::new([gateway(HTTP), http_route("web", &rules)]).picture();
        assert_eq!(redirect(&picture.requests().routes[0]).port, expected, "{fields}");
    }
}

#[test]
fn redirects_by_scheme_host_path_and_status() {
    for (status, expected) in [
        ("", RedirectStatus::Found),
        (", statusCode: 301", RedirectStatus::Moved),
        (", statusCode: 303", RedirectStatus::SeeOther),
        (", statusCode: 307", RedirectStatus::Temporary),
        (", statusCode: 308", RedirectStatus::Permanent),
    ] {
        let fields = format!(
            "{{scheme: https, hostname: b.test{status}, path: {{type: ReplaceFullPath, replaceFullPath: /x}}}}"
        );
        let found = made(&format!("[{{filters: [{{type: RequestRedirect, requestRedirect: {fields}}}]}}]"));
        let redirect = redirect(&found[0]);
        assert_eq!(redirect.status, expected);
        assert_eq!((redirect.scheme, redirect.host.as_deref()), (Some(Scheme::Https), Some("b.test")));
        assert!(matches!(&redirect.path, Some(PathRewrite::Full(path)) if path.as_str() == "/x"));
    }
}

#[test]
fn hosts_and_paths_are_rewritten() {
    let path = |kind: &str, field: &str, value: &str| {
        let found = rule(&format!(
            "matches: [{{path: {{value: /a}}}}], filters: [{{type: URLRewrite, urlRewrite: {{hostname: b.test, path: {{type: {kind}, {field}: '{value}'}}}}}}]"
        ));
        let [Filter::Rewrite(rewrite)] = found.filters.as_slice() else { panic!("{:?}", found.filters) };
        assert_eq!(rewrite.host.as_deref(), Some("b.test"));
        rewrite.path.clone().unwrap()
    };
    let text = |text: &str| causeway_ir::http::Path::parse(text).unwrap();
    assert_eq!(path("ReplaceFullPath", "replaceFullPath", "/one"), PathRewrite::Full(text("/one")));
    assert_eq!(path("ReplaceFullPath", "replaceFullPath", ""), PathRewrite::Full(text("/")));
    assert_eq!(path("ReplacePrefixMatch", "replacePrefixMatch", "/two/"), PathRewrite::Prefix(text("/two/")));
    assert_eq!(path("ReplacePrefixMatch", "replacePrefixMatch", ""), PathRewrite::Prefix(text("/")));
}

#[test]
fn mirrors_several_by_percent_and_by_fraction() {
    let found = rule(
        "filters: [
            {type: RequestMirror, requestMirror: {backendRef: {name: api, port: 8080}}},
            {type: RequestMirror, requestMirror: {backendRef: {name: api, port: 8080}, percent: 20}},
            {type: RequestMirror, requestMirror: {backendRef: {name: api, port: 8080}, fraction: {numerator: 25, denominator: 50}}},
            {type: RequestMirror, requestMirror: {backendRef: {name: api, port: 8080}, percent: 0}},
        ]",
    );
    let shares: Vec<_> = found
        .filters
        .iter()
        .map(|filter| match filter {
            Filter::Mirror(mirror) => (mirror.cluster.as_str(), mirror.per_hundred_thousand),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(shares, [("infra/api:8080", 100_000), ("infra/api:8080", 20_000), ("infra/api:8080", 50_000)]);
}

#[test]
fn a_mirror_to_nowhere_is_told_and_the_request_goes_its_way() {
    let rules = "rules: [{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: missing, port: 80}}}], backendRefs: [{name: web, port: 8080}]}]";
    let picture = Scene::new([gateway(HTTP), http_route("web", rules)]).picture();
    assert_eq!(condition(picture.http("web"), "ResolvedRefs"), ("False", "BackendNotFound"));
    assert_eq!(condition(picture.http("web"), "Accepted"), ("True", "Accepted"));
    assert!(picture.rules()[0].filters.is_empty());
    assert_eq!(targets(&picture.rules()[0]), [("infra/web:8080", 1)]);
}

#[test]
fn timeouts_and_retries() {
    let found = rule(
        "timeouts: {request: 1h10m, backendRequest: 500ms}, retry: {codes: [500, 503], attempts: 3, backoff: 20ms}",
    );
    let millis = |period: Option<causeway_ir::Period>| period.map(|period| period.get().as_millis());
    assert_eq!(millis(found.timeouts.request), Some(4_200_000));
    assert_eq!(millis(found.timeouts.attempt), Some(500));
    let retry = found.retry.unwrap();
    assert_eq!((retry.attempts.get(), retry.statuses.as_slice()), (3, [500, 503].as_slice()));
    assert_eq!(millis(retry.backoff), Some(20));
    let off = rule("timeouts: {request: 0s, backendRequest: 0s}, retry: {attempts: 0, codes: [500]}");
    assert_eq!((off.timeouts.request, off.timeouts.attempt, off.retry), (None, None, None));
    let once = rule("retry: {codes: [500]}").retry.unwrap();
    assert_eq!(once.attempts.get(), 1);
    let connections = rule("retry: {attempts: 3}").retry.unwrap();
    assert!(connections.statuses.is_empty());
}

#[test]
fn cors_with_its_wildcards() {
    let found = rule(
        "filters: [{type: CORS, cors: {allowOrigins: ['https://*.b.test', '*'], allowMethods: ['*', PUT], allowHeaders: ['*'], exposeHeaders: [X-Seen], allowCredentials: true, maxAge: 3600}}]",
    );
    let [Filter::Cors(cors)] = found.filters.as_slice() else { panic!("{:?}", found.filters) };
    assert_eq!(cors.allow_origins, ["https://*.b.test", "*"]);
    assert_eq!(
        cors.allow_methods.iter().map(causeway_ir::http::Method::as_str).collect::<Vec<_>>(),
        ["*", "PUT"]
    );
    assert_eq!((cors.allow_headers[0].as_str(), cors.expose_headers[0].as_str()), ("*", "x-seen"));
    assert!(cors.allow_credentials);
    assert_eq!(cors.max_age.unwrap().get().as_secs(), 3600);
    let found = rule("filters: [{type: CORS, cors: {allowOrigins: ['*']}}]");
    let [Filter::Cors(cors)] = found.filters.as_slice() else { panic!("{:?}", found.filters) };
    assert_eq!(cors.max_age.unwrap().get().as_secs(), 5);
}

#[test]
fn a_rule_that_leads_nowhere_answers_500() {
    for rules in
        ["[{}]", "[{backendRefs: []}]", "[{backendRefs: [{name: web, port: 8080, weight: 0}]}]", "[]"]
    {
        assert_eq!(made(rules).iter().map(answer).collect::<Vec<_>>(), [500], "{rules}");
    }
}

#[test]
fn rules_keep_their_names_and_order() {
    let found = made(
        "[{name: first, matches: [{path: {value: /a}}]}, {matches: [{path: {value: /b}}]}, {name: third, matches: [{path: {value: /c}}]}]",
    );
    let names: Vec<_> = found.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(
        names,
        ["HTTPRoute/infra/web#first@http", "HTTPRoute/infra/web#1@http", "HTTPRoute/infra/web#third@http"]
    );
}

#[test]
fn a_rule_with_a_name_is_the_same_route_wherever_it_stands_and_what_is_removed_lets_go_of_nothing() {
    let ws = "{name: ws, matches: [{path: {value: /ws}}]}";
    let rest = "{matches: [{path: {value: /}}]}";
    let label = |rules: &str| {
        let all = made(rules);
        all.iter().find(|rule| rule.name.contains("ws@")).map(|rule| rule.name.clone()).unwrap()
    };
    let last = label(&format!("[{rest}, {ws}]"));
    assert_eq!(label(&format!("[{ws}]")), last);
    assert_eq!(label(&format!("[{ws}, {rest}]")), last);
    let picture = Scene::new([gateway(HTTP), http_route("web", &format!("rules: [{ws}]"))]).picture();
    assert_eq!(picture.plan().on_removal, causeway_ir::OnRemoval::Keep);
}

#[test]
fn what_cannot_be_done_is_answered_with_500_and_told() {
    for (fields, reason) in [
        ("filters: [{type: ExternalAuth}]", "UnsupportedValue"),
        ("filters: [{type: Future}]", "UnsupportedValue"),
        ("filters: [{type: RequestHeaderModifier}]", "UnsupportedValue"),
        (
            "filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: 'a b', value: c}]}}]",
            "UnsupportedValue",
        ),
        (
            "filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: \"c\\r\\nd: e\"}]}}]",
            "UnsupportedValue",
        ),
        (
            "filters: [{type: RequestHeaderModifier, requestHeaderModifier: {remove: [Transfer-Encoding]}}]",
            "UnsupportedValue",
        ),
        ("filters: [{type: RequestRedirect, requestRedirect: {scheme: gopher}}]", "UnsupportedValue"),
        ("filters: [{type: RequestRedirect, requestRedirect: {statusCode: 200}}]", "UnsupportedValue"),
        ("filters: [{type: URLRewrite, urlRewrite: {hostname: '*.a.test'}}]", "UnsupportedValue"),
        (
            "filters: [{type: URLRewrite, urlRewrite: {hostname: a}}, {type: RequestRedirect, requestRedirect: {port: 1}}]",
            "IncompatibleFilters",
        ),
        (
            "filters: [{type: RequestMirror, requestMirror: {backendRef: {name: api, port: 8080}, percent: 101}}]",
            "UnsupportedValue",
        ),
        ("filters: [{type: CORS, cors: {allowMethods: ['G T']}}]", "UnsupportedValue"),
        (
            "matches: [{path: {type: Exact, value: /a}}], filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /b}}}]",
            "UnsupportedValue",
        ),
        ("timeouts: {request: 1 hour}", "UnsupportedValue"),
        ("retry: {codes: [200]}", "UnsupportedValue"),
    ] {
        let (found, rules) = refused(fields);
        assert_eq!(found, reason, "{fields}");
        assert_eq!(rules.iter().map(answer).collect::<Vec<_>>(), [500], "{fields}");
    }
    let of_backend = "backendRefs: [{name: web, port: 8080, filters: [{type: RequestMirror, requestMirror: {backendRef: {name: api, port: 8080}}}]}]";
    let picture =
        Scene::new([gateway(HTTP), http_route("web", &format!("rules: [{{{of_backend}}}]"))]).picture();
    assert_eq!(condition(picture.http("web"), "Accepted"), ("False", "UnsupportedValue"));
    assert_eq!(answer(&picture.rules()[0]), 500);
}

#[test]
fn what_cannot_be_matched_is_told() {
    for matches in [
        "{path: {value: a}}",
        "{path: {type: Exact, value: '/a//b'}}",
        "{path: {type: RegularExpression, value: '['}}",
        "{path: {type: RegularExpression, value: '(a{1000}){1000}'}}",
        "{path: {type: Glob, value: /a}}",
        "{headers: [{name: 'a b', value: c}]}",
        "{headers: [{name: a, type: RegularExpression, value: '('}]}",
        "{queryParams: [{name: a, type: Fuzzy, value: c}]}",
        "{method: 'G T'}",
    ] {
        let (reason, rules) = refused(&format!("matches: [{{path: {{value: /ok}}}}, {matches}]"));
        assert_eq!((reason.as_str(), rules.len()), ("UnsupportedValue", 0), "{matches}");
    }
}

fn grpc(rules: &str) -> Picture {
    let spec = format!("{{parentRefs: [{{name: gw}}], rules: {rules}}}");
    let grpc = service("infra", "grpc", "[{name: grpc, port: 8080}]", "10.0.0.4");
    Scene::new([gateway(HTTP), object("GRPCRoute", "infra", "calls", &spec)]).and(grpc).picture()
}

#[test]
fn calls_are_matched_by_service_and_method() {
    let method = |fields: &str| {
        let picture = grpc(&format!(
            "[{{matches: [{{method: {{{fields}}}}}], backendRefs: [{{name: grpc, port: 8080}}]}}]"
        ));
        picture.rules()[0].matches[0].path.clone()
    };
    let exact = method("service: a.Greeter, method: Hello").unwrap();
    assert!(exact.is_match("/a.Greeter/Hello") && !exact.is_match("/a.Greeter/Bye"));
    let service = method("service: a.Greeter").unwrap();
    assert!(service.is_match("/a.Greeter/Bye") && !service.is_match("/a.GreeterX/Bye"));
    let only = method("method: Hello").unwrap();
    assert!(only.is_match("/b.Any/Hello") && !only.is_match("/b.Any/HelloX"));
    let regex = method("type: RegularExpression, service: 'a\\..*', method: 'H.*|B.*'").unwrap();
    assert!(regex.is_match("/a.X/Bye") && !regex.is_match("/b.X/Bye"));
    assert_eq!(method("type: Exact"), None);
}

#[test]
fn calls_go_to_backends_in_http2_with_headers_filters_and_names() {
    let picture = grpc(
        "[{name: named, matches: [{headers: [{name: version, value: two}]}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: b}]}}], backendRefs: [{name: grpc, port: 8080, weight: 3}, {name: api, port: 8080}]}]",
    );
    let rule = &picture.rules()[0];
    assert_eq!(rule.name, "GRPCRoute/infra/calls#named@http");
    assert_eq!(rule.matches[0].headers[0].name.as_str(), "version");
    assert!(matches!(rule.filters[0], Filter::RequestHeaders(_)));
    assert_eq!(targets(rule), [("infra/grpc:8080 h2", 3), ("infra/api:8080 h2", 1)]);
    assert!(
        picture.plan().clusters.iter().all(|cluster| cluster.http_version == causeway_ir::HttpVersion::Http2)
    );
    let entry = picture.parent(RouteKind::Grpc, "infra", "calls", 0);
    assert_eq!(condition(entry, "Accepted"), ("True", "Accepted"));
}

#[test]
fn expressions_of_a_route_have_a_bounded_size_together() {
    // Nine hundred of these take ten megabytes.
    let match_ = |i: usize| format!("{{path: {{type: RegularExpression, value: '/{i}/[a-z]{{1,60}}'}}}}");
    let rule = |rule: usize| {
        let matches: Vec<String> = (0..60).map(|i| match_(rule * 60 + i)).collect();
        format!("{{matches: [{}], backendRefs: [{{name: web, port: 8080}}]}}", matches.join(", "))
    };
    let rules: Vec<String> = (0..15).map(rule).collect();
    let picture =
        Scene::new([gateway(HTTP), http_route("web", &format!("rules: [{}]", rules.join(", ")))]).picture();
    assert_eq!(condition(picture.http("web"), "PartiallyInvalid"), ("True", "UnsupportedValue"));
    assert!(message(picture.http("web"), "PartiallyInvalid").contains("take more memory than"));
    assert!(!picture.rules().is_empty() && picture.rules().len() < 15, "{}", picture.rules().len());
    // A usual number of usual ones is no matter.
    let few: Vec<String> = (0..60)
        .map(|i| format!("{{path: {{type: RegularExpression, value: '/{i}/[0-9]+(/.*)?'}}}}"))
        .collect();
    let few = format!("rules: [{{matches: [{}], backendRefs: [{{name: web, port: 8080}}]}}]", few.join(", "));
    let picture = Scene::new([gateway(HTTP), http_route("web", &few)]).picture();
    assert_eq!(condition(picture.http("web"), "PartiallyInvalid"), ("", ""));
}

#[test]
fn what_no_listener_takes_is_not_compiled() {
    let spec = "{parentRefs: [{name: gw, sectionName: none}], rules: [\
                {matches: [{path: {type: RegularExpression, value: '('}}], backendRefs: [{name: missing, port: 8080}]}]}";
    let picture = Scene::new([gateway(HTTP), object("HTTPRoute", "infra", "web", spec)]).picture();
    assert_eq!(condition(picture.http("web"), "Accepted"), ("False", "NoMatchingParent"));
    assert_eq!(condition(picture.http("web"), "ResolvedRefs"), ("False", "BackendNotFound"));
}
