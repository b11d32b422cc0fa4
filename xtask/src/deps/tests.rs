use super::*;

/// Stands for a dependency's default features.
const DEFAULT: &str = "default";

fn package(name: &str, dependencies: &[(&str, Option<&str>, &[&str])]) -> Package {
    Package {
        name: name.to_owned(),
        dependencies: dependencies
            .iter()
            .map(|&(name, kind, features)| Dependency {
                name: name.to_owned(),
                kind: kind.map(str::to_owned),
                features: features.iter().map(|&f| f.to_owned()).filter(|f| f != DEFAULT).collect(),
                uses_default_features: features.contains(&DEFAULT),
            })
            .collect(),
    }
}

fn workspace(subject: Package) -> Vec<Package> {
    let mut all: Vec<Package> =
        FENCES.iter().map(|f| f.name).chain([BINARY]).map(|n| package(n, &[])).collect();
    all.retain(|p| p.name != subject.name);
    all.push(subject);
    all
}

#[test]
fn refuses_forbidden_arrows() {
    type Case = (&'static str, (&'static str, Option<&'static str>, &'static [&'static str]), &'static str);
    let cases: &[Case] = &[
        ("causeway-api", ("tokio", None, &[]), "causeway-api must never see tokio"),
        ("causeway-api", ("kube-client", None, &[]), "must never see kube-client"),
        ("causeway-api", ("kube", None, &["derive", "client"]), "must not switch on kube's feature client"),
        ("causeway-api", ("causeway-ir", None, &[]), "causeway-api must not depend on causeway-ir"),
        ("causeway-ir", ("kube", None, &[]), "must never see kube"),
        ("causeway-ir", ("kube-core", None, &[]), "must never see kube-core"),
        ("causeway-ir", ("tokio", None, &[]), "must never see tokio"),
        ("causeway-base", ("causeway-api", None, &[]), "causeway-base must not depend on causeway-api"),
        ("causeway-base", ("tokio", None, &[]), "must never see tokio"),
        ("causeway-engine", ("causeway-api", None, &[]), "causeway-base, causeway-ir, causeway-link only"),
        ("causeway-engine", ("k8s-openapi", None, &[]), "must never see k8s-openapi"),
        ("causeway-link", ("causeway-ir", None, &[]), "of the workspace it may use causeway-base only"),
        ("causeway-tunnel", ("causeway-api", None, &[]), "must not depend on causeway-api"),
        ("causeway-xds", ("causeway-translate", None, &[]), "must not depend on causeway-translate"),
        ("causeway-agent", ("causeway-controllers", None, &[]), "must not depend on causeway-controllers"),
        ("causeway-controllers", ("causeway-apiserver", None, &[]), "must not depend on causeway-apiserver"),
        ("causeway-controllers", ("causeway-node", Some("dev"), &[]), "must not depend on causeway-node"),
        ("causeway-controllers", ("causeway-agent", None, &[]), "must not depend on causeway-agent"),
        ("causeway-node", ("causeway-testkit", None, &[]), "but for its tests"),
        ("causeway", ("causeway-testkit", None, &[]), "but for its tests"),
        (
            "causeway-apiserver",
            ("causeway-controllers", None, &[]),
            "must not depend on causeway-controllers",
        ),
        ("causeway-node", ("causeway-controllers", None, &[]), "must not depend on causeway-controllers"),
        ("causeway-node", ("causeway", None, &[]), "must not depend on causeway:"),
        ("causeway-new", ("serde", None, &[]), "causeway-new has no line in the table"),
    ];
    for &(name, dependency, expected) in cases {
        let problems = violations(&workspace(package(name, &[dependency])));
        assert_eq!(problems.len(), 1, "{name} -> {}: {problems:?}", dependency.0);
        assert!(problems[0].contains(expected), "{} does not say {expected:?}", problems[0]);
    }
}

#[test]
fn translate_never_sees_a_client() {
    let cases: &[(&str, &[&str])] = &[
        ("kube", &["derive", "client"]),
        ("kube", &["runtime"]),
        ("kube", &[DEFAULT]),
        ("kube-client", &[]),
        ("kube-runtime", &[]),
        ("tokio", &["sync"]),
        ("tokio-util", &[]),
        ("hyper-util", &[]),
        ("causeway-agent", &[]),
        ("causeway-controllers", &[]),
    ];
    for &(target, features) in cases {
        let problems = violations(&workspace(package("causeway-translate", &[(target, None, features)])));
        assert_eq!(problems.len(), 1, "{target} {features:?}: {problems:?}");
        assert!(problems[0].starts_with("causeway-translate must n"), "{}", problems[0]);
    }
}

#[test]
fn controllers_never_see_a_data_plane() {
    for target in ["engine", "netstack", "stowaway", "tunnel", "xds", "dns", "dhcp"] {
        for kind in [None, Some("dev"), Some("build")] {
            let target = format!("causeway-{target}");
            let controllers = package("causeway-controllers", &[(&target, kind, &[])]);
            let problems = violations(&workspace(controllers));
            if target == DATA_PLANE && kind == Some("dev") {
                // Tests may serve what controllers plan.
                assert!(problems.is_empty(), "{problems:?}");
                continue;
            }
            assert_eq!(problems.len(), 1, "{target} {kind:?}: {problems:?}");
            let expected = format!("causeway-controllers must not depend on {target}");
            assert!(problems[0].contains(&expected), "{}", problems[0]);
        }
    }
}

#[test]
fn allows_the_designed_arrows() {
    let cases: &[(&str, &str, Option<&str>)] = &[
        ("causeway-controllers", "causeway-api", None),
        ("causeway-controllers", "causeway-ir", None),
        ("causeway-controllers", "causeway-translate", None),
        ("causeway-controllers", "causeway-base", None),
        ("causeway-controllers", "causeway-apiserver", Some("dev")),
        ("causeway-controllers", "causeway-testkit", Some("dev")),
        ("causeway-translate", "kube", None),
        ("causeway-agent", "causeway-engine", None),
        ("causeway-tunnel", "causeway-link", None),
        ("causeway-node", "causeway-translate", None),
        ("causeway", "causeway-testkit", Some("dev")),
        ("xtask", "causeway-testkit", None),
        ("causeway-node", "causeway-apiserver", Some("dev")),
        ("causeway-engine", "causeway-link", None),
        ("causeway-api", "tokio", Some("dev")),
        ("causeway-api", "kube", None),
        ("causeway", "causeway-controllers", None),
    ];
    for &(name, target, kind) in cases {
        let problems = violations(&workspace(package(name, &[(target, kind, &["derive"])])));
        assert!(problems.is_empty(), "{name} -> {target}: {problems:?}");
    }
}

#[test]
fn this_workspace_keeps_its_arrows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let problems = violations(&read(root).unwrap().packages);
    assert!(problems.is_empty(), "{problems:#?}");
}
