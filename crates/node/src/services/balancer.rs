//! Stands for the load balancer of a cloud: says in each Service of type LoadBalancer where it is reached from outside of this
//! machine, if anything of it is.

use std::{
    error::Error,
    net::{IpAddr, UdpSocket},
    time::Duration,
};

use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::reflector::Store,
};
use serde_json::json;

/// How often Services are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Writes the addresses of load balancers for ever.
pub(super) async fn run(client: &Client, services: &Store<Service>, listen_on: Option<IpAddr>) {
    if services.wait_until_ready().await.is_err() {
        return;
    }
    let address = listen_on.map(reached);
    loop {
        for service in services.state() {
            if is_told(&service, address) {
                continue;
            }
            let ingress = address.map(|address| json!([{"ip": address.to_string()}]));
            let status = json!({"status": {"loadBalancer": {"ingress": ingress}}});
            let api = Api::<Service>::namespaced(client.clone(), &service.namespace().unwrap_or_default());
            let written =
                api.patch_status(&service.name_any(), &PatchParams::default(), &Patch::Merge(&status)).await;
            if let Err(error) = written {
                tracing::debug!(
                    error = &error as &dyn Error,
                    "the address of a load balancer was not written"
                );
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether a Service says what is so.
fn is_told(service: &Service, address: Option<IpAddr>) -> bool {
    let is_balanced = service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer");
    let said = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let said: Vec<String> =
        said.iter().flat_map(|said| said.ingress.iter().flatten()).filter_map(|one| one.ip.clone()).collect();
    let wanted: Vec<String> = address.filter(|_| is_balanced).map(|at| at.to_string()).into_iter().collect();
    // Of other Services the API server takes it away by itself.
    !is_balanced || said == wanted
}

/// The address by which others reach what listens here.
fn reached(listen_on: IpAddr) -> IpAddr {
    if !listen_on.is_unspecified() {
        return listen_on;
    }
    // The one that this machine would use towards others; nothing is sent.
    let own = UdpSocket::bind((listen_on, 0)).and_then(|socket| {
        let far: IpAddr = if listen_on.is_ipv4() {
            [192, 0, 2, 1].into()
        } else {
            [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()
        };
        socket.connect((far, 9))?;
        socket.local_addr()
    });
    own.map_or(listen_on, |own| own.ip())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn service(type_: &str, said: Value) -> Service {
        let value =
            json!({"metadata": {"name": "a"}, "spec": {"type": type_}, "status": {"loadBalancer": said}});
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_load_balancers_are_told_and_only_once() {
        let address: Option<IpAddr> = Some("192.0.2.7".parse().unwrap());
        let told = json!({"ingress": [{"ip": "192.0.2.7"}]});
        for (service, address, is) in [
            (service("ClusterIP", json!({})), address, true),
            (service("LoadBalancer", json!({})), address, false),
            (service("LoadBalancer", told.clone()), address, true),
            (service("LoadBalancer", told), None, false),
            (service("LoadBalancer", json!({})), None, true),
        ] {
            assert_eq!(is_told(&service, address), is, "{service:?} {address:?}");
        }
    }

    #[test]
    fn every_address_is_reached_by_one() {
        let here: IpAddr = "127.0.0.5".parse().unwrap();
        assert_eq!(reached(here), here);
    }
}
