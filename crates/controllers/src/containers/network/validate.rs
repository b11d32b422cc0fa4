//! What a `ContainerNetwork` asks for, with every default filled in. The API server checks most of it; an object that
//! got past an older one is told the same.

use causeway_api::{ContainerNetwork, NetworkMode};
use causeway_ir::Problem;
use ipnet::IpNet;
use kube::ResourceExt;

/// What runtimes list as networks and are none: the host's own, on which every port of a container is one of the host, and
/// nothing.
const NO_NETWORKS: [&str; 2] = ["host", "none"];
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
    /// Its range of addresses; none leaves that to the runtime.
    pub(crate) subnet: Option<IpNet>,
}

/// Reads a spec, or says what is wrong with it.
pub(crate) fn validate(object: &ContainerNetwork) -> Result<Valid, Problem> {
    let problem = |message: &str| at("networkName", message);
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
    if NO_NETWORKS.contains(&name.as_str()) {
        return Err(problem(
            "host and none are no networks that containers share: name another, or leave it out in mode session",
        ));
    }
    let subnet = object.spec.subnet.as_deref().map(|text| subnet(text, object.spec.ipv6)).transpose()?;
    Ok(Valid { name, mode, ipv6: object.spec.ipv6, subnet })
}

fn subnet(text: &str, ipv6: bool) -> Result<IpNet, Problem> {
    let problem = |message: &str| at("subnet", message);
    let subnet: IpNet = text.parse().map_err(|_| {
        problem("must be a network in CIDR notation, for example 172.30.0.0/24 or fd00:30::/64")
    })?;
    if subnet.addr() != subnet.network() {
        return Err(problem(&format!("has host bits set: write {}", subnet.trunc())));
    }
    if subnet.addr().is_ipv6() && !ipv6 {
        return Err(problem("is of IPv6: set ipv6 to true as well"));
    }
    Ok(subnet)
}

fn at(field: &str, message: &str) -> Problem {
    Problem { path: format!("spec.{field}"), message: message.to_owned() }
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

    #[test]
    fn the_network_of_the_host_is_refused() {
        for name in ["host", "none"] {
            let problem = validate(&object("web", spec(Some(name), NetworkMode::Existing))).unwrap_err();
            assert!(problem.to_string().contains("no networks that containers share"), "{problem}");
        }
    }

    #[test]
    fn a_subnet_is_a_network_of_a_family_that_is_carried() {
        let of = |subnet: &str, ipv6| {
            let spec = ContainerNetworkSpec {
                subnet: Some(subnet.into()),
                ipv6,
                ..spec(None, NetworkMode::Session)
            };
            validate(&object("web", spec)).map(|valid| valid.subnet.unwrap().to_string())
        };
        assert_eq!(of("172.30.0.0/24", false).unwrap(), "172.30.0.0/24");
        assert_eq!(of("fd00:30::/64", true).unwrap(), "fd00:30::/64");
        assert!(of("172.30.0.7/24", false).unwrap_err().to_string().contains("write 172.30.0.0/24"));
        assert!(of("fd00:30::/64", false).unwrap_err().to_string().contains("set ipv6"));
        assert_eq!(of("rubbish", false).unwrap_err().path, "spec.subnet");
    }
}
