use super::*;

fn root() -> User {
    User::new("root", &[SYSTEM_MASTERS, AUTHENTICATED])
}

#[test]
fn self_access_reviews_answer_can_i() {
    let (objects, access) = server();
    rbac(&objects, bind("apps", "view", "alice"));
    let alice = User::new("alice", &[AUTHENTICATED]);
    let ask = |user: &User, verb: &str| {
        let attributes = json!({ "verb": verb, "resource": "pods", "namespace": "apps" });
        let body = json!({ "spec": { "resourceAttributes": attributes } });
        access.review(user, ReviewKind::SelfSubjectAccessReview, None, body).unwrap()
    };
    let yes = ask(&alice, "list");
    assert_eq!(yes["kind"], "SelfSubjectAccessReview");
    assert_eq!(yes["apiVersion"], "authorization.k8s.io/v1");
    assert_eq!(yes["spec"]["resourceAttributes"]["verb"], "list");
    assert_eq!(
        yes["status"],
        json!({ "allowed": true,
            "reason": "RBAC: allowed by RoleBinding \"alice-view/apps\" of ClusterRole \"view\" to User \"alice\"" })
    );
    assert_eq!(ask(&alice, "delete")["status"], json!({ "allowed": false }));
    assert_eq!(ask(&root(), "delete")["status"], json!({ "allowed": true }));

    let body = json!({ "spec": { "nonResourceAttributes": { "verb": "get", "path": "/apis" } } });
    let answer = access.review(&alice, ReviewKind::SelfSubjectAccessReview, None, body).unwrap();
    assert_eq!(answer["status"]["allowed"], true);
}

#[test]
fn access_reviews_ask_about_others() {
    let (objects, access) = server();
    rbac(&objects, bind("apps", "view", "alice"));
    let attributes = json!({ "verb": "list", "resource": "pods", "namespace": "apps" });
    let ask = |kind, ns, spec: Value| access.review(&root(), kind, ns, json!({ "spec": spec }));
    let spec = json!({ "user": "alice", "resourceAttributes": attributes });
    let answer = ask(ReviewKind::SubjectAccessReview, None, spec.clone()).unwrap();
    assert_eq!(answer["status"]["allowed"], true);
    let answer = ask(ReviewKind::LocalSubjectAccessReview, Some("apps"), spec.clone()).unwrap();
    assert_eq!(answer["status"]["allowed"], true);
    let error = ask(ReviewKind::LocalSubjectAccessReview, Some("other"), spec).unwrap_err();
    assert_eq!(error.code, 422);
    assert!(error.message.contains("must match metadata.namespace"), "{}", error.message);
    let error = ask(ReviewKind::SubjectAccessReview, None, json!({ "user": "a" })).unwrap_err();
    assert!(
        error
            .message
            .contains("exactly one of nonResourceAttributes or resourceAttributes must be specified"),
        "{}",
        error.message
    );
    let error = ask(ReviewKind::SubjectAccessReview, None, json!({ "resourceAttributes": {} })).unwrap_err();
    assert!(error.message.contains("at least one of user or group must be specified"), "{}", error.message);
}

#[test]
fn rules_reviews_list_what_a_user_may_do() {
    let (objects, access) = server();
    rbac(&objects, bind("apps", "view", "alice"));
    let alice = User::new("alice", &[AUTHENTICATED]);
    let kind = ReviewKind::SelfSubjectRulesReview;
    let answer = access.review(&alice, kind, None, json!({ "spec": { "namespace": "apps" } })).unwrap();
    let status = &answer["status"];
    assert_eq!(status["incomplete"], false);
    let resources = status["resourceRules"].as_array().unwrap();
    let has = |resource: &str| {
        resources.iter().any(|r| r["resources"].as_array().unwrap().contains(&json!(resource)))
    };
    assert!(has("selfsubjectaccessreviews") && has("pods") && has("infras"));
    assert!(!status["nonResourceRules"].as_array().unwrap().is_empty());
    let error = access.review(&alice, kind, None, json!({})).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (400, "no namespace on request"));
}

#[test]
fn subject_reviews_say_who_i_am() {
    let (_, access) = server();
    let mut robot = User::service_account("apps", "robot", "sa-1");
    robot.extra.insert("k".to_owned(), vec!["v".to_owned()]);
    let answer = access.review(&robot, ReviewKind::SelfSubjectReview, None, json!({})).unwrap();
    assert_eq!(
        answer,
        json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {},
            "status": { "userInfo": {
                "username": "system:serviceaccount:apps:robot", "uid": "sa-1",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:apps"],
                "extra": { "k": ["v"] },
            } },
        })
    );
}

#[test]
fn token_reviews_check_token_and_audience() {
    let (_, access) = server();
    let token = robot_token(&access, json!({ "audiences": ["vault", "other"] }));
    let ask = |spec: Value| {
        access.review(&root(), ReviewKind::TokenReview, None, json!({ "spec": spec })).unwrap()["status"]
            .clone()
    };
    let good = ask(json!({ "token": token, "audiences": ["vault"] }));
    assert_eq!(good["authenticated"], true);
    assert_eq!(good["user"]["username"], "system:serviceaccount:apps:robot");
    assert_eq!(good["audiences"], json!(["vault"]));
    let bad = ask(json!({ "token": token }));
    assert!(bad.get("authenticated").is_none());
    assert!(bad["error"].as_str().unwrap().contains("is invalid for the target audiences"), "{bad}");
    assert_eq!(ask(json!({ "token": "nonsense" }))["error"], "invalid bearer token");
}

#[test]
fn token_requests_are_answered_in_full() {
    let (_, access) = server();
    let body = json!({ "spec": { "expirationSeconds": 7200 } });
    let answer = access.request_token("apps", "robot", body).unwrap();
    assert_eq!(answer["kind"], "TokenRequest");
    assert_eq!(answer["metadata"]["name"], "robot");
    assert_eq!(answer["metadata"]["namespace"], "apps");
    assert_eq!(answer["spec"]["audiences"], json!([token::ISSUER]));
    let ends: Timestamp = answer["status"]["expirationTimestamp"].as_str().unwrap().parse().unwrap();
    let seconds = ends.duration_since(Timestamp::now()).as_secs();
    assert!((7190..=7200).contains(&seconds), "{seconds}");
}

#[test]
fn bad_token_requests_are_refused() {
    let (_, access) = server();
    let pod = |name: &str, uid: &str| json!({ "boundObjectRef": { "kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid } });
    let cases = [
        (json!({ "expirationSeconds": 599 }), 422, "may not specify a duration less than 10 minutes"),
        (
            json!({ "expirationSeconds": 1_i64 << 33 }),
            422,
            "may not specify a duration larger than 2^32 seconds",
        ),
        (pod("absent", ""), 404, "pods \"absent\" not found"),
        (pod("robot-0", "pod-9"), 409, "does not match the UID in record"),
        (
            json!({ "boundObjectRef": { "kind": "ConfigMap", "apiVersion": "v1", "name": "x" } }),
            400,
            "cannot bind token to object of type",
        ),
    ];
    for (spec, code, message) in cases {
        let error = access.request_token("apps", "robot", json!({ "spec": spec })).unwrap_err();
        assert_eq!(error.code, code, "{}", error.message);
        assert!(error.message.contains(message), "{}", error.message);
    }
    let error = access.request_token("apps", "absent", json!({})).unwrap_err();
    assert_eq!(error.message, "serviceaccounts \"absent\" not found");
}

#[test]
fn a_token_is_not_bound_to_a_pod_of_another_account() {
    let (objects, access) = server();
    let metadata = json!({ "name": "other", "namespace": "apps", "uid": "sa-9" });
    objects.put("", "serviceaccounts", json!({ "metadata": metadata }));
    let reference = json!({ "kind": "Pod", "apiVersion": "v1", "name": "robot-0" });
    let body = json!({ "spec": { "boundObjectRef": reference } });
    assert_eq!(access.request_token("apps", "other", body).unwrap_err().code, 400);
}

#[test]
fn review_kinds_are_found_by_their_path() {
    for kind in ReviewKind::ALL {
        assert_eq!(ReviewKind::find(kind.group(), kind.plural()), Some(kind));
    }
    assert_eq!(ReviewKind::find("authorization.k8s.io", "tokenreviews"), None);
}
