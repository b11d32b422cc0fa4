use std::time::Duration;

use jiff::SignedDuration;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::*;

const HOUR: Duration = Duration::from_hours(1);

fn peer(pki: &Pki, name: &str, group: &str) -> PeerCertificate {
    let pair = pki.client_certificate(name, &[group], HOUR).unwrap();
    let der = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
    PeerCertificate::from_verified_der(&der).unwrap()
}

#[test]
fn without_credentials_only_probes_and_version_have_a_user() {
    let (_, access) = server();
    for path in ["/livez", "/readyz", "/healthz", "/version"] {
        let user = access.authenticate(&HeaderMap::new(), None, path).unwrap();
        assert_eq!(user, User::new("system:anonymous", &["system:unauthenticated"]));
        let attributes = Attributes { verb: "get", path: Some(path), ..Attributes::default() };
        access.authorize(&user, &attributes).unwrap();
    }
    for path in ["/metrics", "/api", "/api/v1/pods", "/livez/../api"] {
        let error = access.authenticate(&HeaderMap::new(), None, path).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (401, "Unauthorized"), "{path}");
    }
}

#[test]
fn bad_credentials_are_refused_even_for_probes() {
    let (_, access) = server();
    let cases = ["Bearer nonsense", "Bearer a.b.c", "Basic YTpi", "Bearer"];
    for value in cases {
        let error = access.authenticate(&headers(&[("authorization", value)]), None, "/livez").unwrap_err();
        assert_eq!(error.code, 401, "{value}");
    }
}

#[test]
fn a_client_certificate_names_user_and_groups() {
    let (_, access) = server();
    let peer = peer(&Pki::ephemeral().unwrap(), "alice", "devs");
    let user = access.authenticate(&HeaderMap::new(), Some(&peer), "/api").unwrap();
    assert_eq!(user.name, "alice");
    assert_eq!(user.groups, ["devs", "system:authenticated"]);
    assert!(user.extra["authentication.kubernetes.io/credential-id"][0].starts_with("X509SHA256="));
}

#[test]
fn a_certificate_that_ran_out_on_an_open_connection_is_refused() {
    let (_, access) = server();
    let peer = peer(&Pki::ephemeral().unwrap(), "alice", "devs");
    let later = Timestamp::now() + 2 * HOUR;
    assert_eq!(access.identify(&HeaderMap::new(), Some(&peer), "/livez", later).unwrap_err().code, 401);
}

#[test]
fn a_service_account_token_proves_its_account() {
    let (_, access) = server();
    let token = robot_token(&access, json!({}));
    let user = access.authenticate(&bearer(&token), None, "/api").unwrap();
    assert_eq!(user.name, "system:serviceaccount:apps:robot");
    assert_eq!(user.uid, "sa-1");
    assert_eq!(
        user.groups,
        ["system:serviceaccounts", "system:serviceaccounts:apps", "system:authenticated"]
    );
    assert!(user.extra["authentication.kubernetes.io/credential-id"][0].starts_with("JTI="));
}

#[test]
fn a_token_ends_when_it_says() {
    let (_, access) = server();
    let headers = bearer(&robot_token(&access, json!({ "expirationSeconds": 600 })));
    let at = |seconds| {
        let now = Timestamp::now() + SignedDuration::from_secs(seconds);
        access.identify(&headers, None, "/api", now).is_ok()
    };
    assert!(at(595));
    assert!(!at(605));
    assert!(!at(-5), "a token is not valid before it was made");
}

#[test]
fn a_token_of_another_server_or_for_another_audience_is_refused() {
    let (_, access) = server();
    let (_, other) = server();
    let foreign = robot_token(&other, json!({}));
    assert_eq!(access.authenticate(&bearer(&foreign), None, "/api").unwrap_err().code, 401);
    let vault = robot_token(&access, json!({ "audiences": ["vault"] }));
    assert_eq!(access.authenticate(&bearer(&vault), None, "/api").unwrap_err().code, 401);
}

#[test]
fn a_token_with_another_signature_algorithm_is_refused() {
    let (_, access) = server();
    let token = robot_token(&access, json!({}));
    let payload = token.split('.').nth(1).unwrap();
    // {"alg":"none"} and {"alg":"HS256"}
    for header in ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJIUzI1NiJ9"] {
        let forged = format!("{header}.{payload}.");
        assert_eq!(access.authenticate(&bearer(&forged), None, "/api").unwrap_err().code, 401);
    }
}

#[test]
fn a_bound_token_dies_with_its_object() {
    let cases = [("Pod", "robot-0", "pods"), ("Secret", "keys", "secrets"), ("Node", "here", "nodes")];
    for (kind, name, plural) in cases {
        let (objects, access) = server();
        let reference = json!({ "kind": kind, "apiVersion": "v1", "name": name });
        let headers = bearer(&robot_token(&access, json!({ "boundObjectRef": reference })));
        access.authenticate(&headers, None, "/api").unwrap();
        objects.remove(plural, name);
        assert_eq!(access.authenticate(&headers, None, "/api").unwrap_err().code, 401, "{kind}");
    }
}

#[test]
fn a_token_does_not_pass_to_a_namesake_made_later() {
    let (objects, access) = server();
    let headers = bearer(&robot_token(&access, json!({})));
    let metadata = json!({ "name": "robot", "namespace": "apps", "uid": "sa-2" });
    objects.put("", "serviceaccounts", json!({ "metadata": metadata }));
    assert_eq!(access.authenticate(&headers, None, "/api").unwrap_err().code, 401);
}

#[test]
fn a_pod_being_deleted_keeps_its_token_for_a_minute() {
    let (objects, access) = server();
    let reference = json!({ "kind": "Pod", "apiVersion": "v1", "name": "robot-0" });
    let headers = bearer(&robot_token(&access, json!({ "boundObjectRef": reference })));
    let now = Timestamp::now();
    let mut pod = objects.object("", "pods", "apps", "robot-0").unwrap();
    pod["metadata"]["deletionTimestamp"] = json!(now.to_string());
    objects.put("", "pods", pod);
    let at = |seconds| access.identify(&headers, None, "/api", now + SignedDuration::from_secs(seconds));
    let user = at(30).unwrap();
    assert_eq!(user.extra["authentication.kubernetes.io/pod-uid"], ["pod-1"]);
    assert_eq!(user.extra["authentication.kubernetes.io/node-name"], ["here"]);
    assert_eq!(at(90).unwrap_err().code, 401);
}

#[test]
fn impersonation_needs_the_right_and_replaces_the_user() {
    let (objects, access) = server();
    let rules = json!([{ "apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"],
        "resourceNames": ["bob"] }]);
    rbac(&objects, role("", "as-bob", rules));
    rbac(&objects, bind("", "as-bob", "alice"));
    let peer = peer(&Pki::ephemeral().unwrap(), "alice", "devs");
    let ask = |pairs: &[(&str, &str)]| access.authenticate(&headers(pairs), Some(&peer), "/api");

    let bob = ask(&[("Impersonate-User", "bob")]).unwrap();
    assert_eq!((bob.name.as_str(), bob.groups), ("bob", vec!["system:authenticated".to_owned()]));

    let refusals = [
        (
            vec![("Impersonate-User", "carol")],
            "users \"carol\" is forbidden: User \"alice\" cannot impersonate \
            resource \"users\" in API group \"\" at the cluster scope",
        ),
        (
            vec![("Impersonate-User", "bob"), ("Impersonate-Group", "system:masters")],
            "groups \"system:masters\" is forbidden: User \"alice\" cannot impersonate resource \"groups\" in API \
            group \"\" at the cluster scope",
        ),
        (
            vec![("Impersonate-User", "system:serviceaccount:apps:robot")],
            "serviceaccounts \"robot\" is forbidden: User \"alice\" cannot impersonate resource \"serviceaccounts\" \
            in API group \"\" in the namespace \"apps\"",
        ),
        (
            vec![("Impersonate-User", "bob"), ("Impersonate-Uid", "7")],
            "uids.authentication.k8s.io \"7\" is forbidden: User \"alice\" cannot impersonate resource \"uids\" in \
            API group \"authentication.k8s.io\" at the cluster scope",
        ),
        (
            vec![("Impersonate-User", "bob"), ("Impersonate-Extra-Team", "x")],
            "userextras.authentication.k8s.io \"x\" is forbidden: User \"alice\" cannot impersonate resource \
            \"userextras/team\" in API group \"authentication.k8s.io\" at the cluster scope",
        ),
    ];
    for (pairs, message) in refusals {
        let error = ask(&pairs).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (403, message));
    }
    assert_eq!(ask(&[("Impersonate-Group", "devs")]).unwrap_err().code, 400);
}

#[test]
fn an_administrator_can_become_anyone() {
    let (_, access) = server();
    let peer = peer(&Pki::ephemeral().unwrap(), "root", SYSTEM_MASTERS);
    let ask = |pairs: &[(&str, &str)]| access.authenticate(&headers(pairs), Some(&peer), "/api").unwrap();

    let robot = ask(&[("Impersonate-User", "system:serviceaccount:apps:robot")]);
    assert_eq!(
        robot.groups,
        ["system:serviceaccounts", "system:serviceaccounts:apps", "system:authenticated"]
    );
    let nobody = ask(&[("Impersonate-User", "system:anonymous")]);
    assert_eq!(nobody.groups, ["system:unauthenticated"]);
    let full = ask(&[
        ("Impersonate-User", "bob"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-acme.com%2Fteam", "x"),
    ]);
    assert_eq!(full.groups, ["a", "b", "system:authenticated"]);
    assert_eq!(full.uid, "7");
    assert_eq!(full.extra["acme.com/team"], ["x"]);
}
