//! The object that a command is about: `KIND/NAME` on the command line, its namespace, and how it is read.

use std::fmt::Debug;

use anyhow::anyhow;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, CustomResourceExt, Resource};
use serde::de::DeserializeOwned;

use super::cluster::ClusterArgs;
use super::refusal;

/// Where the object is; flatten it into a command's arguments, beside the name.
#[derive(Debug, clap::Args)]
pub(crate) struct ObjectArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Its namespace.
    #[arg(long, short, default_value = "default", value_name = "NAMESPACE")]
    pub(crate) namespace: String,
}

impl ObjectArgs {
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        self.cluster.client().await
    }

    /// The object of this name; `None` if there is none.
    pub(crate) async fn find<K>(&self, client: &Client, name: &str) -> anyhow::Result<Option<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(client.clone(), &self.namespace);
        api.get_opt(name).await.map_err(|error| {
            let what = format!("{} {}/{name}", K::kind(&()), self.namespace);
            anyhow!("can't read {what}: {}", refusal::words(&error))
        })
    }

    /// What to say when there is none.
    pub(crate) fn missing<K: Resource<DynamicType = ()>>(&self, name: &str) -> String {
        format!(
            "there is no {} {name} in namespace {}; `kubectl get {} -A` lists them",
            K::kind(&()),
            self.namespace,
            K::plural(&())
        )
    }
}

/// The name in `KIND/NAME`, if `KIND` is one of the names that kubectl takes for this kind.
pub(crate) fn name_of<K: CustomResourceExt>(text: &str) -> Option<&str> {
    let (kind, name) = text.split_once('/')?;
    let names = K::crd().spec.names;
    let known = [Some(names.plural), names.singular].into_iter().flatten();
    let mut known = known.chain(names.short_names.into_iter().flatten());
    (!name.is_empty() && known.any(|known| known.eq_ignore_ascii_case(kind))).then_some(name)
}

#[cfg(test)]
mod tests {
    use causeway_api::{ContainerNetworkTunnelProxy, ProxyServer};

    use super::*;

    #[test]
    fn takes_the_names_that_kubectl_takes() {
        for text in ["pxs/edge", "proxyserver/edge", "ProxyServer/edge", "proxyservers/edge"] {
            assert_eq!(name_of::<ProxyServer>(text), Some("edge"), "{text}");
        }
        for text in ["cntp/a", "containernetworktunnelproxy/a", "containernetworktunnelproxies/a"] {
            assert_eq!(name_of::<ContainerNetworkTunnelProxy>(text), Some("a"), "{text}");
        }
        for text in ["infra/edge", "proxyserver/", "edge", "/edge", ""] {
            assert_eq!(name_of::<ProxyServer>(text), None, "{text}");
        }
    }
}
