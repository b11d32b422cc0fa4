//! Networks of a runtime: made, looked at, removed, and containers attached to them.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use bollard::models::{
    EndpointSettings, Ipam, IpamConfig, NetworkConnectRequest, NetworkCreateRequest,
    NetworkDisconnectRequest, NetworkInspect,
};
use bollard::query_parameters::ListNetworksOptions;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::container::spec::Attachment;
use crate::labels::filter;
use crate::runtime::{is_unsettled, plain_name, settled};
use crate::{Error, ErrorKind, Kind, Result, Runtime};

/// How long others of the same name may take to go.
const RIVALS: Duration = Duration::from_secs(2);

/// A network to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkSpec {
    pub name: String,
    /// The runtime's default (`bridge`) when left out.
    pub driver: Option<String>,
    /// IPv6 besides IPv4; a unique local range is chosen when `subnets` has none.
    pub ipv6: bool,
    /// Address ranges; the runtime chooses when there are none.
    pub subnets: Vec<Subnet>,
    /// No way out.
    pub internal: bool,
    /// Options of the driver.
    pub options: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
}

/// An address range of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// `10.1.0.0/24`, `fd00:1::/64`.
    pub range: String,
    pub gateway: Option<IpAddr>,
}

/// A network as the runtime has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    pub id: String,
    pub name: String,
    pub driver: String,
    pub ipv6: bool,
    pub internal: bool,
    pub subnets: Vec<Subnet>,
    pub labels: BTreeMap<String, String>,
    /// Running containers on it, sorted by name.
    pub containers: Vec<Attached>,
}

/// A container on a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    pub id: String,
    pub name: String,
    pub ipv4: Option<IpAddr>,
    pub ipv6: Option<IpAddr>,
}

impl Runtime {
    /// Makes a network.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] when the name is taken, [`ErrorKind::CouldNotAllocate`] when no addresses are left or they overlap.
    pub async fn create_network(&self, spec: &NetworkSpec) -> Result<Network> {
        let what = format!("create network {}", spec.name);
        plain_name("create network", &spec.name)?;
        // Docker before version 25 makes a second network of the same name without a word.
        match self.network(&spec.name).await {
            Ok(found) if found.name == spec.name => return Err(taken(what)),
            // The beginning of another one's id.
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let request = create_request(spec, self.kind());
        let created = self.call(what.as_str(), self.limits.call, self.docker.create_network(request)).await?;
        if self.kind() == Kind::Docker && !self.holds_its_name(&spec.name, &created.id).await? {
            self.remove_network(&created.id).await?;
            return Err(taken(what));
        }
        self.network(&created.id).await
    }

    /// Several processes may have made the same name at once. All but the oldest go; the oldest waits for that, and
    /// goes too if another does not, because that one did not see it and was told that the name is its own.
    async fn holds_its_name(&self, name: &str, id: &str) -> Result<bool> {
        let deadline = tokio::time::Instant::now() + RIVALS;
        loop {
            let filters = HashMap::from([("name".to_owned(), vec![name.to_owned()])]);
            let found = self.list_networks(filters).await?;
            let same: Vec<_> = found.iter().filter(|other| other.name.as_deref() == Some(name)).collect();
            let oldest = same.iter().min_by_key(|one| (one.created.as_deref(), one.id.as_deref()));
            if oldest.is_some_and(|oldest| oldest.id.as_deref() != Some(id)) {
                return Ok(false);
            }
            if same.len() <= 1 {
                return Ok(true);
            }
            if tokio::time::Instant::now() >= deadline {
                return Ok(false);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Looks a network up by name or id.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is none.
    pub async fn network(&self, name_or_id: &str) -> Result<Network> {
        let name = plain_name("inspect network", name_or_id)?;
        let look = || {
            self.call(
                format!("inspect network {name}"),
                self.limits.call,
                self.docker.inspect_network(name, None),
            )
        };
        settled(is_unsettled, look).await.map(Network::from)
    }

    /// Removes a network; one that is gone already is fine.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] while containers are on it.
    pub async fn remove_network(&self, name_or_id: &str) -> Result<()> {
        let mut name = plain_name("remove network", name_or_id)?;
        // Podman looks for the users of a network by its name: asked by id it removes one that is in use, and leaves the
        // rules of its containers' ports behind.
        let found;
        if self.kind() == Kind::Podman {
            found = match self.network(name).await {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                other => other?,
            };
            name = &found.name;
        }
        let removed = self
            .call(format!("remove network {name}"), self.limits.call, self.docker.remove_network(name))
            .await;
        match removed {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// The networks that carry all of these labels.
    ///
    /// # Errors
    /// When the runtime does not answer. One that goes meanwhile is left out.
    pub async fn networks(&self, labels: &[(&str, &str)]) -> Result<Vec<Network>> {
        let found = self.list_networks(filter(labels)).await?;
        let ids = found.into_iter().filter_map(|network| network.id);
        stream::iter(ids)
            .map(|id| async move {
                match self.network(&id).await {
                    Ok(network) => Ok(Some(network)),
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(error),
                }
            })
            .buffered(8)
            .try_filter_map(|network| async move { Ok(network) })
            .try_collect()
            .await
    }

    async fn list_networks(
        &self,
        filters: HashMap<String, Vec<String>>,
    ) -> Result<Vec<bollard::models::Network>> {
        let options = ListNetworksOptions { filters: Some(filters) };
        let list =
            || self.call("list networks", self.limits.call, self.docker.list_networks(Some(options.clone())));
        settled(is_unsettled, list).await
    }

    /// Attaches a container, running or not, to one more network.
    ///
    /// # Errors
    /// When one of the two is not there, or the address is taken.
    pub async fn attach(&self, container: &str, attachment: &Attachment) -> Result<()> {
        let network = plain_name("attach to network", &attachment.network)?;
        let request = NetworkConnectRequest {
            container: container.to_owned(),
            endpoint_config: Some(endpoint(attachment)),
        };
        self.call(
            format!("attach container {container} to network {network}"),
            self.limits.call,
            self.docker.connect_network(network, request),
        )
        .await
    }

    /// Takes a container off a network.
    ///
    /// # Errors
    /// When one of the two is not there.
    pub async fn detach(&self, container: &str, network: &str) -> Result<()> {
        let network = plain_name("detach from network", network)?;
        let request = NetworkDisconnectRequest { container: container.to_owned(), force: Some(true) };
        self.call(
            format!("detach container {container} from network {network}"),
            self.limits.call,
            self.docker.disconnect_network(network, request),
        )
        .await
    }
}

fn taken(what: String) -> Error {
    Error::invalid(what, "a network of this name exists").with_kind(ErrorKind::AlreadyExists)
}

/// A container's place on a network, as both runtimes take it.
pub(crate) fn endpoint(attachment: &Attachment) -> EndpointSettings {
    EndpointSettings {
        aliases: (!attachment.aliases.is_empty()).then(|| attachment.aliases.clone()),
        ..EndpointSettings::default()
    }
}

fn create_request(spec: &NetworkSpec, kind: Kind) -> NetworkCreateRequest {
    let mut config: Vec<IpamConfig> = spec
        .subnets
        .iter()
        .map(|subnet| IpamConfig {
            subnet: Some(subnet.range.clone()),
            gateway: subnet.gateway.map(|gateway| gateway.to_string()),
            ..IpamConfig::default()
        })
        .collect();
    // Docker before version 27 has no IPv6 ranges of its own to choose from.
    if spec.ipv6 && kind == Kind::Docker && !spec.subnets.iter().any(|subnet| subnet.range.contains(':')) {
        config.push(IpamConfig { subnet: Some(unique_local_range()), ..IpamConfig::default() });
    }
    NetworkCreateRequest {
        name: spec.name.clone(),
        driver: spec.driver.clone().or_else(|| Some("bridge".to_owned())),
        internal: Some(spec.internal),
        enable_ipv6: Some(spec.ipv6),
        ipam: (!config.is_empty()).then(|| Ipam { config: Some(config), ..Ipam::default() }),
        options: (!spec.options.is_empty()).then(|| spec.options.clone().into_iter().collect()),
        labels: Some(spec.labels.clone().into_iter().collect()),
        ..NetworkCreateRequest::default()
    }
}

/// A random /64 of fd00::/8 (RFC 4193).
fn unique_local_range() -> String {
    let mut bytes = [0_u8; 7];
    // All zeroes are a lawful range too, if ever the system has no random numbers to give.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    let hex: String = bytes.iter().fold("fd".to_owned(), |text, byte| text + &format!("{byte:02x}"));
    format!("{}:{}:{}:{}::/64", &hex[..4], &hex[4..8], &hex[8..12], &hex[12..])
}

impl From<NetworkInspect> for Network {
    fn from(found: NetworkInspect) -> Self {
        let mut containers: Vec<Attached> = found
            .containers
            .unwrap_or_default()
            .into_iter()
            .map(|(id, endpoint)| Attached {
                id,
                name: endpoint.name.unwrap_or_default(),
                ipv4: endpoint.ipv4_address.as_deref().and_then(address),
                ipv6: endpoint.ipv6_address.as_deref().and_then(address),
            })
            .collect();
        containers.sort_by(|a, b| a.name.cmp(&b.name));
        Self {
            id: found.id.unwrap_or_default(),
            name: found.name.unwrap_or_default(),
            driver: found.driver.unwrap_or_default(),
            ipv6: found.enable_ipv6.unwrap_or_default(),
            internal: found.internal.unwrap_or_default(),
            subnets: found
                .ipam
                .and_then(|ipam| ipam.config)
                .unwrap_or_default()
                .into_iter()
                .filter_map(|config| {
                    let gateway = config.gateway.as_deref().and_then(address);
                    Some(Subnet { range: config.subnet?, gateway })
                })
                .collect(),
            labels: found.labels.unwrap_or_default().into_iter().collect(),
            containers,
        }
    }
}

/// Runtimes write addresses with and without the length of the prefix, and nothing as "".
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    text.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_an_ipv6_range_where_docker_has_none() {
        let spec = NetworkSpec { name: "web".into(), ipv6: true, ..NetworkSpec::default() };
        let config = create_request(&spec, Kind::Docker).ipam.unwrap().config.unwrap();
        let range = config[0].subnet.clone().unwrap();
        assert!(range.starts_with("fd") && range.ends_with("::/64"), "{range}");
        assert!(range.trim_end_matches("/64").parse::<IpAddr>().is_ok(), "{range}");
        assert!(create_request(&spec, Kind::Podman).ipam.is_none(), "Podman chooses one itself");
    }

    #[test]
    fn keeps_the_range_that_was_asked_for() {
        let subnets = vec![Subnet { range: "fd00:9::/64".into(), gateway: None }];
        let spec = NetworkSpec { name: "web".into(), ipv6: true, subnets, ..NetworkSpec::default() };
        let config = create_request(&spec, Kind::Docker).ipam.unwrap().config.unwrap();
        assert_eq!(config.len(), 1);
    }

    #[test]
    fn reads_addresses_in_all_spellings() {
        assert_eq!(address("10.1.0.2/24"), "10.1.0.2".parse().ok());
        assert_eq!(address("fd00::2"), "fd00::2".parse().ok());
        assert_eq!(address(""), None);
    }
}
