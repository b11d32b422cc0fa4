//! What a `ContainerNetwork` asks for, with every default filled in. The API server checks most of it; an object that
//! got past an older one is told the same.

use causeway_api::{ContainerNetwork, NetworkMode};
use causeway_ir::Problem;
use kube::ResourceExt;

/// The API's limit for names of networks.
const NAME_LIMIT: usize = 128;

/// A spec that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Valid {
    /// The network's name in the runtime.
    pub(crate) name: String,
    /// How long it lives.
    pub(crate) mode: NetworkMode,
    /// Whether IPv6 is asked for.
    pub(crate) ipv6: bool,
}

/// Reads a spec, or says what is wrong with it.
pub(crate) fn validate(object: &ContainerNetwork) -> Result<Valid, Problem> {
    let problem =
        |message: &str| Problem { path: "spec.networkName".to_owned(), message: message.to_owned() };
    let mode = object.spec.effective_mode();
    let name = match &object.spec.network_name {
        Some(name) => name.clone(),
        None if mode == NetworkMode::Session => made_up(object),
        None => {
            return Err(problem("only mode session can do without: write the name of the runtime's network"));
        }
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.len() > NAME_LIMIT
        || !name.chars().all(plain)
        || !name.starts_with(|c: char| c.is_ascii_alphanumeric())
    {
        return Err(problem(
            "a network's name has at most 128 letters, digits, underscores, dots and dashes, the first a letter or digit",
        ));
    }
    Ok(Valid { name, mode, ipv6: object.spec.ipv6 })
}

/// A name that this object always has and no other one ever.
fn made_up(object: &ContainerNetwork) -> String {
    let uid: String = super::uid(object).chars().take(8).collect();
    let room = NAME_LIMIT - "causeway--".len() - 8;
    let name = object.name_any();
    format!("causeway-{}-{uid}", &name[..name.len().min(room)])
}

#[cfg(test)]
mod tests {
    use causeway_api::ContainerNetworkSpec;

    use super::*;

    fn object(name: &str, spec: ContainerNetworkSpec) -> ContainerNetwork {
        let mut object = ContainerNetwork::new(name, spec);
        object.metadata.uid = Some("0a1b2c3d-0000-4000-8000-000000000000".to_owned());
        object
    }

    fn spec(name: Option<&str>, mode: NetworkMode) -> ContainerNetworkSpec {
        ContainerNetworkSpec {
            network_name: name.map(str::to_owned),
            mode,
            ..ContainerNetworkSpec::default()
        }
    }

    #[test]
    fn a_session_has_a_name_made_up_that_fits() {
        let valid = validate(&object("web", spec(None, NetworkMode::Session))).unwrap();
        assert_eq!(valid.name, "causeway-web-0a1b2c3d");
        let long = validate(&object(&"n".repeat(253), spec(None, NetworkMode::Session))).unwrap();
        assert_eq!(long.name.len(), NAME_LIMIT);
        assert!(long.name.ends_with("-0a1b2c3d"));
    }

    #[test]
    fn the_other_modes_need_a_name() {
        for mode in [NetworkMode::Persistent, NetworkMode::Existing, NetworkMode::Cleanup] {
            let problem = validate(&object("web", spec(None, mode))).unwrap_err();
            assert_eq!(problem.path, "spec.networkName", "{mode:?}");
            assert_eq!(validate(&object("web", spec(Some("blue"), mode))).unwrap().name, "blue");
        }
        let older = ContainerNetworkSpec { persistent: Some(true), ..spec(None, NetworkMode::Session) };
        assert!(validate(&object("web", older)).is_err(), "persistent: true wins over the mode");
    }

    #[test]
    fn a_name_that_no_runtime_takes_is_refused() {
        for name in ["", "-web", "a b", "a/b", "a,b", "é", &"n".repeat(129)] {
            assert!(validate(&object("web", spec(Some(name), NetworkMode::Session))).is_err(), "{name}");
        }
    }
}
