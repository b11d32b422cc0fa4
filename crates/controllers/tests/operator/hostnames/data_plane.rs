//! The engine with what the operator hands to the pods of `gw-01`, on the address of its Service.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use causeway_api::{GatewayPlan, Supply};
use causeway_engine::{Certificate, Certificates, Engine, Options};
use causeway_ir::{Name, Plan};
use causeway_translate::gateway_pod::{
    keys::{ENTRY, Keys},
    parts,
};
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::{Api, Client, api::ListParams};
use tokio::sync::watch;

use super::scene::EDGE;

/// Runs for as long as it is not dropped.
pub struct DataPlane {
    engine: Option<Engine>,
    following: tokio::task::JoinHandle<()>,
}

impl DataPlane {
    pub fn start(client: Client) -> Self {
        let (plans_tx, plans_rx) = watch::channel(None);
        let (certificates_tx, certificates_rx) = watch::channel(Arc::default());
        let options = Options { workers: 1, certificates: Some(certificates_rx), ..Options::default() };
        let engine = Engine::start(plans_rx, &options).unwrap();
        let following = tokio::spawn(async move {
            let mut running: Option<Arc<Plan>> = None;
            loop {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let Some((plan, certificates)) = read(&client).await else { continue };
                if running.as_deref() == Some(&plan) {
                    continue;
                }
                let plan = Arc::new(plan);
                // Those of the plan that still runs are needed until the next one does.
                let before = Arc::clone(&certificates_tx.borrow());
                let both = before.iter().chain(certificates.iter());
                let both: Certificates = both.map(|(name, one)| (name.clone(), Arc::clone(one))).collect();
                certificates_tx.send_replace(Arc::new(both));
                plans_tx.send_replace(Some(Arc::clone(&plan)));
                running = Some(plan);
            }
        });
        Self { engine: Some(engine), following }
    }

    pub async fn stop(mut self) {
        self.following.abort();
        if let Some(engine) = self.engine.take() {
            engine.shutdown().await;
        }
    }
}

async fn read(client: &Client) -> Option<(Plan, Certificates)> {
    let plans =
        Api::<GatewayPlan>::namespaced(client.clone(), EDGE).list(&ListParams::default()).await.ok()?;
    let plan = plans.items.into_iter().find(|plan| plan.spec.gateway == "gw-01")?;
    let supplies = Api::<Supply>::namespaced(client.clone(), EDGE).list(&ListParams::default()).await.ok()?;
    let texts: BTreeMap<String, String> = supplies
        .items
        .into_iter()
        .filter_map(|supply| supply.spec.plan)
        .map(|part| (part.digest, part.text))
        .collect();
    let wanted: Option<Vec<&str>> =
        plan.spec.parts.iter().map(|digest| texts.get(digest).map(String::as_str)).collect();
    let mut joined = parts::join(wanted?.into_iter()).ok()?;
    let services =
        Api::<Service>::namespaced(client.clone(), EDGE).list(&ListParams::default()).await.ok()?;
    let address = services.items.into_iter().find_map(|service| service.spec?.cluster_ip?.parse().ok())?;
    for listener in &mut joined.listeners {
        listener.bind.set_ip(address);
    }
    let secrets = Api::<Secret>::namespaced(client.clone(), EDGE);
    let mut certificates = Certificates::default();
    for name in &plan.spec.certificates {
        let secret = secrets.get_opt(name).await.ok()??;
        let Some(text) = secret.data.as_ref().and_then(|data| data.get(ENTRY)) else { continue };
        let keys = Keys::read(&text.0).ok()?;
        for (name, pair) in keys.certificates {
            let certificate = Certificate::from_pem(pair.certificate.as_bytes(), pair.key.as_bytes()).ok()?;
            certificates.insert(Name::parse(&name).ok()?, Arc::new(certificate));
        }
    }
    Some((joined, certificates))
}
