//! Which containers this node can run, and as what: Causeway's own image is the binary itself.

use std::path::{Path, PathBuf};

use crate::config::CommandPolicy;

/// Why a container cannot run here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotRun {
    #[error(
        "image {image} is not Causeway's own ({own}); running other images needs Docker or Podman, which this version does not use yet"
    )]
    Image { image: String, own: String },
    #[error(
        "exec: {command:?}: executable file not found: the image holds only the program \"causeway\"; leave command out, or begin it with \"causeway\""
    )]
    Command { command: String },
}

impl CannotRun {
    /// The reason of the container's waiting state.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Image { .. } => "UnsupportedImage",
            Self::Command { .. } => "CreateContainerError",
        }
    }
}

/// The image without tag and digest.
pub fn repository(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    match image.rsplit_once(':') {
        // A colon before a slash belongs to the registry's port.
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

/// Checks that an image is Causeway's own.
pub fn check(image: &str, own: &str) -> Result<(), CannotRun> {
    if repository(image) == own {
        return Ok(());
    }
    Err(CannotRun::Image { image: image.to_owned(), own: own.to_owned() })
}

/// The program and arguments of a command line; without a command the image's entrypoint, the binary itself.
pub fn resolve(
    program: &Path,
    policy: CommandPolicy,
    command: &[String],
    args: &[String],
) -> Result<(PathBuf, Vec<String>), CannotRun> {
    let Some((first, rest)) = command.split_first() else {
        return Ok((program.to_owned(), args.to_vec()));
    };
    let arguments = rest.iter().chain(args).cloned().collect();
    if first == "causeway" || first.ends_with("/causeway") {
        return Ok((program.to_owned(), arguments));
    }
    match policy {
        CommandPolicy::Any => Ok((PathBuf::from(first), arguments)),
        CommandPolicy::OwnBinary => Err(CannotRun::Command { command: first.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_digests_do_not_matter() {
        for image in [
            "causeway.dev/causeway",
            "causeway.dev/causeway:0.1",
            "causeway.dev/causeway@sha256:ab",
            "causeway.dev/causeway:1@sha256:ab",
        ] {
            assert_eq!(check(image, "causeway.dev/causeway"), Ok(()), "{image}");
        }
        assert_eq!(repository("localhost:5000/x"), "localhost:5000/x");
        let error = check("nginx:1", "causeway.dev/causeway").unwrap_err();
        assert!(error.to_string().contains("nginx:1") && error.to_string().contains("Docker"), "{error}");
    }

    #[test]
    fn only_the_binary_can_be_a_command() {
        let program = Path::new("/opt/causeway");
        let run = |command: &[&str], args: &[&str]| {
            let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
            resolve(program, CommandPolicy::OwnBinary, &owned(command), &owned(args))
        };
        assert_eq!(run(&[], &["proxy"]).unwrap(), (program.into(), vec!["proxy".to_owned()]));
        assert_eq!(
            run(&["/usr/bin/causeway", "dns"], &["-v"]).unwrap(),
            (program.into(), vec!["dns".into(), "-v".into()])
        );
        assert!(run(&["sh", "-c"], &["true"]).is_err());
        assert!(run(&["/bin/notcauseway"], &[]).is_err());
    }
}
