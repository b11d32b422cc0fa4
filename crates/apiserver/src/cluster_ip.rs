//! The addresses of Services: each gets one of its own in 127.0.0.0/8, so that it works on this machine without
//! any network set-up.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use causeway_base::lock::lock;
use causeway_base::random;
use causeway_base::well_known::{SERVICE_NETWORK, SERVICE_PREFIX};
use serde_json::{Value, json};

use crate::builtin::{ClusterIpWish, cluster_ip_wanted};
use crate::error::FieldError;
use crate::store::{GroupResource, Store};

/// The range without the network's own address, the API server's and the last one.
const FIRST: u32 = SERVICE_NETWORK.to_bits() + 2;
const LAST: u32 = SERVICE_NETWORK.to_bits() + (1 << (32 - SERVICE_PREFIX)) - 2;
/// How long an address stays taken while its Service is on its way to the store.
const RESERVATION: Duration = Duration::from_secs(30);

/// Gives out addresses that no stored Service has.
#[derive(Default)]
pub(crate) struct ClusterIps {
    reserved: Mutex<HashMap<IpAddr, Instant>>,
}

impl ClusterIps {
    /// Fills in `spec.clusterIP` and `spec.clusterIPs` as the Service wishes.
    pub(crate) fn assign(
        &self,
        store: &Store,
        service: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), FieldError> {
        let kept = old.map(|old| old["spec"]["clusterIP"].clone()).filter(Value::is_string);
        let address = match (cluster_ip_wanted(service), kept) {
            (ClusterIpWish::Allocate, Some(kept)) => kept,
            (ClusterIpWish::Allocate, None) => json!(self.next(store)?.to_string()),
            (ClusterIpWish::Fixed(ip), kept) => {
                if kept != Some(json!(ip.to_string())) {
                    self.take(store, ip)?;
                }
                json!(ip.to_string())
            }
            (ClusterIpWish::Headless, _) => json!("None"),
            (ClusterIpWish::None, _) => {
                if let Some(spec) = service["spec"].as_object_mut() {
                    spec.remove("clusterIP");
                    spec.remove("clusterIPs");
                }
                return Ok(());
            }
        };
        service["spec"]["clusterIP"] = address.clone();
        service["spec"]["clusterIPs"] = json!([address]);
        Ok(())
    }

    /// Lets go of the address of a Service that was only tried and will not be stored.
    pub(crate) fn give_back(&self, service: &Value) {
        let address = service["spec"]["clusterIP"].as_str().and_then(|text| text.parse::<IpAddr>().ok());
        if let Some(address) = address {
            lock(&self.reserved).remove(&address);
        }
    }

    fn next(&self, store: &Store) -> Result<IpAddr, FieldError> {
        let mut reserved = lock(&self.reserved);
        let taken = taken(store, &mut reserved);
        let free = candidates().find(|ip| !taken.contains(ip)).ok_or_else(|| {
            FieldError::forbidden("spec.clusterIPs", "failed to allocate a serviceIP: range is full")
        })?;
        reserved.insert(free, Instant::now());
        Ok(free)
    }

    fn take(&self, store: &Store, ip: IpAddr) -> Result<(), FieldError> {
        let mut reserved = lock(&self.reserved);
        let value = json!([ip.to_string()]);
        let in_range = matches!(ip, IpAddr::V4(v4) if (FIRST - 1..=LAST).contains(&u32::from(v4)));
        if !in_range {
            let range = format!("{}-{}", Ipv4Addr::from(FIRST), Ipv4Addr::from(LAST));
            let detail =
                format!("failed to allocate IP {ip}: the provided IP is not in the valid range {range}");
            return Err(FieldError::invalid("spec.clusterIPs", &value, detail));
        }
        if taken(store, &mut reserved).contains(&ip) {
            let detail = format!("failed to allocate IP {ip}: provided IP is already allocated");
            return Err(FieldError::invalid("spec.clusterIPs", &value, detail));
        }
        reserved.insert(ip, Instant::now());
        Ok(())
    }
}

/// Every address of the range once, beginning anywhere: two control planes on one machine rarely meet.
fn candidates() -> impl Iterator<Item = IpAddr> {
    let size = LAST - FIRST + 1;
    let start = random::below(u64::from(size)) as u32;
    (0..size).map(move |step| IpAddr::V4(Ipv4Addr::from(FIRST + (start + step) % size)))
}

fn taken(store: &Store, reserved: &mut HashMap<IpAddr, Instant>) -> HashSet<IpAddr> {
    reserved.retain(|_, since| since.elapsed() < RESERVATION);
    let services = store.list(&GroupResource::new("", "services"), None).items;
    services
        .iter()
        .filter_map(|service| service.value()["spec"]["clusterIP"].as_str()?.parse().ok())
        .chain(reserved.keys().copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_gets_an_address_of_its_own_and_keeps_it() {
        let (ips, store) = (ClusterIps::default(), Store::open(None).unwrap());
        let mut services = [json!({"spec": {"type": "ClusterIP"}}), json!({"spec": {"type": "ClusterIP"}})];
        for service in &mut services {
            ips.assign(&store, service, None).unwrap();
        }
        assert_eq!(services[0]["spec"]["clusterIPs"], json!([services[0]["spec"]["clusterIP"]]));
        assert_ne!(services[0]["spec"]["clusterIP"], services[1]["spec"]["clusterIP"]);
        let mut again = json!({"spec": {"type": "ClusterIP"}});
        ips.assign(&store, &mut again, Some(&services[0])).unwrap();
        assert_eq!(again["spec"]["clusterIP"], services[0]["spec"]["clusterIP"]);
    }

    #[test]
    fn a_wish_outside_the_range_or_taken_is_refused() {
        let (ips, store) = (ClusterIps::default(), Store::open(None).unwrap());
        let wish = |ip: &str| json!({"spec": {"type": "ClusterIP", "clusterIP": ip}});
        assert!(ips.assign(&store, &mut wish("10.0.0.1"), None).is_err());
        assert!(ips.assign(&store, &mut wish("127.96.3.4"), None).is_ok());
        assert!(ips.assign(&store, &mut wish("127.96.3.4"), None).is_err());
        ips.give_back(&wish("127.96.3.4"));
        assert!(ips.assign(&store, &mut wish("127.96.3.4"), None).is_ok(), "the one before was only tried");
    }
}
