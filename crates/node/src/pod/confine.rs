//! What a process of Causeway's own image may be told. It runs as the user of the control plane and sees that user's
//! files, so whoever writes its pod must not be able to name them, or to have another program loaded into it.

use std::path::{Component, Path};

use super::{env::Environment, image::CannotRun, mounts::Mounts};
use crate::layout::PodDir;

/// The variables that Causeway's data planes read, beside those that the node sets. Others would mean something to the
/// loader, the allocator or a library at most.
const READ: [&str; 8] = [
    "CAUSEWAY_ECHO_NAME",
    "CAUSEWAY_LOG",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_SERVICE_NAME",
    "OTEL_TRACES_SAMPLER_ARG",
    "POD_IP",
    "POD_NAME",
    "POD_NAMESPACE",
];
/// Those that name files, which are in the pod's volumes as those of arguments are.
const FILES: [&str; 1] = ["SESSION_KEY_FILE"];

/// The environment of the process: what the node gives, unchanged, and of the pod's own what the program reads.
pub(super) fn environment(
    given: &Environment,
    built: Vec<(String, String)>,
    working_dir: &Path,
    dir: &PodDir,
    mounts: &Mounts,
) -> Vec<(String, String)> {
    let kept = built.into_iter().filter_map(|(name, value)| {
        if FILES.contains(&name.as_str()) {
            let file = mounts.rewrite(&value);
            return is_inside(&file, working_dir, dir, mounts).then_some((name, file));
        }
        READ.contains(&name.as_str()).then_some((name, value))
    });
    given.clone().into_entries().into_iter().chain(kept).collect()
}

/// Whether a path leads to the pod's directory or a volume of it, and nowhere else.
fn is_inside(value: &str, working_dir: &Path, dir: &PodDir, mounts: &Mounts) -> bool {
    let path = working_dir.join(value);
    let mut places = std::iter::once(dir.path()).chain(mounts.iter().map(|mount| &*mount.source));
    places.any(|place| path.strip_prefix(place).is_ok_and(|below| !climbs(below)))
}

/// The commands that serve whoever is on the network of an interface.
const OF_NETWORKS: [&str; 1] = ["dhcp"];

/// The commands that let whoever they are told of into all of the cluster and, on one machine, to the machine itself. Their
/// pods' volumes can tell them.
const OF_OPERATOR: [&str; 1] = ["stowaway"];

/// Refuses commands that would serve networks of the machine itself, which are for its user to serve, and those that are the
/// operator's, outside of its namespace.
pub(super) fn check_command(
    args: &[String],
    serves_networks: bool,
    namespace: &str,
    own_namespace: &str,
) -> Result<(), CannotRun> {
    match args.first() {
        Some(given) if OF_OPERATOR.contains(&given.as_str()) && namespace != own_namespace => {
            Err(CannotRun::Operator { given: given.clone(), namespace: own_namespace.to_owned() })
        }
        Some(given) if OF_NETWORKS.contains(&given.as_str()) && !serves_networks => {
            Err(CannotRun::Network { given: given.clone(), namespace: namespace.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Refuses arguments that lead to files outside of the pod's directory and its volumes. A `..` is refused whatever it seems
/// to lead to: below the root are links to the volumes, and behind a link it leads elsewhere than its text says.
pub(super) fn check_arguments(
    args: &[String],
    working_dir: &Path,
    dir: &PodDir,
    mounts: &Mounts,
) -> Result<(), CannotRun> {
    let is_inside = |value: &str| is_inside(value, working_dir, dir, mounts);
    match args.iter().find(|argument| !values(argument).all(is_inside)) {
        Some(argument) => Err(CannotRun::Path { argument: argument.clone() }),
        None => Ok(()),
    }
}

/// The parts of an argument that a command could take as a path: `PATH`, `--flag=PATH`, `-fPATH`.
fn values(argument: &str) -> impl Iterator<Item = &str> {
    let whole = (!argument.starts_with('-')).then_some(argument);
    let after_sign = argument.split_once('=').map(|(_, value)| value);
    let after_letter = (argument.starts_with('-') && !argument.starts_with("--"))
        .then(|| argument.char_indices().nth(2).map(|(at, _)| &argument[at..]))
        .flatten();
    [whole, after_sign, after_letter].into_iter().flatten()
}

/// Whether a path has a `..` in it.
fn climbs(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

#[cfg(test)]
mod tests {
    use super::super::mounts::Mount;
    use super::*;

    #[test]
    fn arguments_stay_in_the_pod() {
        let dir = PodDir::new(Path::new("/d"), "ns", "p", "u");
        let root = dir.root("c");
        let host = Mount { path: "/host".into(), source: "/srv/shared".into(), ..Mount::default() };
        let mounts = Mounts::new(vec![host]);
        let volume = dir.volume("v").display().to_string();
        for (argument, allowed) in [
            ("proxy", true),
            ("--listen=127.0.0.1:80", true),
            ("10.0.0.0/24", true),
            ("relative/file", true),
            ("-", true),
            ("--state-dir", true),
            (&volume, true),
            (&format!("--state-dir={volume}/x"), true),
            ("/srv/shared/x", true),
            ("/etc/passwd", false),
            ("--tls-key=/etc/passwd", false),
            ("-f/etc/passwd", false),
            ("-f=/etc/passwd", false),
            ("../../../../../../../etc/passwd", false),
            (&format!("{volume}/../../../../x"), false),
            ("/srv/shared/../secret", false),
            // What stays inside as a text, and would not where `m` is a link to a volume.
            ("m/../file", false),
            (&format!("{}/a/b/m/../../../../x", root.display()), false),
        ] {
            let checked = check_arguments(&[argument.to_owned()], &root, &dir, &mounts);
            assert_eq!(checked.is_ok(), allowed, "{argument}");
        }
    }

    #[test]
    fn what_is_the_operators_runs_in_its_namespace_alone() {
        let check = |command: &str, namespace: &str| {
            check_command(&[command.to_owned()], true, namespace, "causeway-system").is_ok()
        };
        assert!(check("stowaway", "causeway-system") && !check("stowaway", "shop"));
        assert!(check("carrier", "shop") && check("proxy", "shop"));
    }

    #[test]
    fn a_pod_can_not_set_what_the_node_gives_or_what_a_loader_reads() {
        let mut given = Environment::default();
        given.set("KUBECONFIG", "/d/own");
        given.set("HOME", "/d/root");
        let built = [
            ("KUBECONFIG", "/admin"),
            ("HOME", "/root"),
            ("LD_PRELOAD", "/x.so"),
            ("CAUSEWAY_DATA_DIR", "/x"),
            ("CAUSEWAY_LOG", "debug"),
            ("POD_IP", "127.128.0.1"),
            ("SESSION_KEY_FILE", "/run/session/key"),
        ];
        let dir = PodDir::new(Path::new("/d"), "ns", "p", "u");
        let volume = Mount { path: "/run/session".into(), source: dir.volume("session"), ..Mount::default() };
        let mounts = Mounts::new(vec![volume]);
        let lines = |built: &[(&str, &str)]| -> Vec<String> {
            let built = built.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let kept = environment(&given, built, &dir.root("c"), &dir, &mounts);
            kept.iter().map(|(name, value)| format!("{name}={value}")).collect()
        };
        let key = format!("SESSION_KEY_FILE={}", dir.volume("session").join("key").display());
        assert_eq!(
            lines(&built),
            ["KUBECONFIG=/d/own", "HOME=/d/root", "CAUSEWAY_LOG=debug", "POD_IP=127.128.0.1", &key]
        );
        for elsewhere in ["/etc/shadow", "/run/session/../../../../x"] {
            let lines = lines(&[("SESSION_KEY_FILE", elsewhere)]);
            assert_eq!(lines, ["KUBECONFIG=/d/own", "HOME=/d/root"], "{elsewhere}");
        }
    }
}
