//! `causeway infra grant`: the consent that an Infra needs of other namespaces, as objects to be applied by their owners.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Context, bail};
use causeway_api::{Infra, ProxyServer, names};
use kube::{Client, ResourceExt};

use crate::parts::object::ObjectArgs;
use crate::parts::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the ReferenceGrants that an Infra needs of other namespaces.
    Grant {
        /// The Infra.
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        object: ObjectArgs,
    },
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Command::Grant { name, object } = args.command;
    let client = object.client().await?;
    let Some(infra) = object.find::<Infra>(&client, &name).await? else {
        bail!(object.missing::<Infra>(&name));
    };
    let proxy = object.find::<ProxyServer>(&client, &format!("{name}-proxy")).await?;
    let grants = grants(&infra, proxy.as_ref());
    if grants.is_empty() {
        output::note(format_args!(
            "causeway: Infra {name} uses nothing of other namespaces, and needs no grant"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let version = version(&client).await?;
    let texts: Vec<String> = grants.iter().map(|grant| grant.text(&object.namespace, version)).collect();
    output::line(texts.join("---\n").trim_end());
    Ok(ExitCode::SUCCESS)
}

/// What one namespace has to let others use.
#[derive(Debug, PartialEq, Eq)]
struct Grant {
    namespace: String,
    name: String,
    /// Who uses it.
    kinds: &'static [&'static str],
    group: &'static str,
    kind: &'static str,
    /// One of that kind; all of them if there is none.
    target: Option<String>,
}

/// The Services of the control plane, and the network.
fn grants(infra: &Infra, proxy: Option<&ProxyServer>) -> Vec<Grant> {
    let own = infra.namespace().unwrap_or_default();
    let components = infra.spec.infra_components.clone().unwrap_or_default();
    let mut targets: BTreeSet<String> = BTreeSet::new();
    match (proxy, components.proxy) {
        (Some(proxy), _) => {
            targets.extend(proxy.spec.backends.iter().map(|backend| backend.target_namespace.clone()));
        }
        (None, Some(proxy)) if proxy.enabled => {
            let derived = || format!("{own}-{}", infra.name_any());
            targets.insert(proxy.control_plane_namespace.unwrap_or_else(derived));
        }
        (None, _) => {}
    }
    targets.remove(&own);
    let services = targets.into_iter().map(|namespace| Grant {
        namespace,
        name: format!("causeway-{own}-proxies"),
        kinds: &["ProxyServer"],
        group: "",
        kind: "Service",
        target: None,
    });
    let network = &infra.spec.network_config;
    let written = &network.network_attachment_definition;
    let (namespace, name) = match written.split_once('/') {
        Some((namespace, name)) => (namespace.to_owned(), name.to_owned()),
        None => {
            (network.network_attachment_namespace.clone().unwrap_or_else(|| own.clone()), written.clone())
        }
    };
    let attachment = (namespace != own).then(|| Grant {
        namespace,
        name: format!("causeway-{own}-{name}"),
        kinds: &["DHCPServer", "DNSServer", "ProxyServer"],
        group: "k8s.cni.cncf.io",
        kind: "NetworkAttachmentDefinition",
        target: Some(name),
    });
    services.chain(attachment).collect()
}

impl Grant {
    fn text(&self, from: &str, version: &str) -> String {
        let Self { namespace, name, kinds, group, kind, target } = self;
        let user = |kind: &&str| {
            format!("    - group: {}\n      kind: {kind}\n      namespace: {from}\n", names::GROUP)
        };
        let users = kinds.iter().map(user).collect::<Vec<_>>().concat();
        let target = target.as_ref().map(|name| format!("      name: {name}\n")).unwrap_or_default();
        format!(
            "apiVersion: gateway.networking.k8s.io/{version}\nkind: ReferenceGrant\nmetadata:\n  name: {name}\n  \
             namespace: {namespace}\nspec:\n  from:\n{users}  to:\n    - group: \"{group}\"\n      kind: {kind}\n{target}"
        )
    }
}

/// The version of ReferenceGrants that the cluster has.
async fn version(client: &Client) -> anyhow::Result<&'static str> {
    for version in ["v1", "v1beta1"] {
        match client.list_api_group_resources(&format!("gateway.networking.k8s.io/{version}")).await {
            Ok(found) if found.resources.iter().any(|found| found.name == "referencegrants") => {
                return Ok(version);
            }
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error).context("can't ask what the cluster knows"),
        }
    }
    bail!("this cluster has no ReferenceGrants: install the definitions of the Gateway API first")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_of_other_namespaces_needs_a_grant_there() {
        let infra: Infra = serde_json::from_value(json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "Infra",
            "metadata": { "name": "west", "namespace": "clusters" },
            "spec": {
                "networkConfig": {
                    "cidr": "10.0.0.0/24", "gateway": "10.0.0.1", "networkAttachmentDefinition": "networks/vlan",
                },
                "infraComponents": { "dns": { "baseDomain": "example.com" }, "proxy": {} },
            },
        }))
        .unwrap();
        let mut without = infra.clone();
        without.spec.infra_components.as_mut().unwrap().proxy.as_mut().unwrap().enabled = false;
        assert_eq!(grants(&without, None).len(), 1, "a proxy that is switched off uses no Services");
        let found = grants(&infra, None);
        let places: Vec<_> = found.iter().map(|grant| (grant.namespace.as_str(), grant.kind)).collect();
        assert_eq!(places, [("clusters-west", "Service"), ("networks", "NetworkAttachmentDefinition")]);
        let text = found[1].text("clusters", "v1beta1");
        let read: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read["apiVersion"], "gateway.networking.k8s.io/v1beta1");
        assert_eq!(read["spec"]["from"][0]["kind"], "DHCPServer");
        assert_eq!(read["spec"]["to"][0]["name"], "vlan");
    }
}
