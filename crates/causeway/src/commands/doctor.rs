//! `causeway doctor KIND/NAME`: the checks that a person would make to find what is wrong with an object, in the order in
//! which one thing causes the next. Each line says what was checked and, if it failed, what to do. The exit code is 1 if
//! something is wrong.

mod conditions;
mod finding;
mod gateway;
mod hostname;
mod infra;
mod network;
mod proxy;
mod runtime;
mod tunnel;
mod vantage;

use std::process::ExitCode;

use causeway_api::{
    ContainerNetwork, ContainerNetworkTunnelProxy, GatewayHostnameRequest, Infra, ProxyServer, names,
};
use kube::{Client, CustomResourceExt, Resource};

use crate::parts::answer::FormatArg;
use crate::parts::container_runtime::ContainerRuntimeArg;
use crate::parts::gateway::name_of as gateway_name;
use crate::parts::object::{self, ObjectArgs};
use crate::parts::operator_lease;
use finding::{Finding, Report};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to look at: proxy/NAME, gateway/NAME, hostname/NAME, cntp/NAME, containernetwork/NAME or infra/NAME; a NAME alone is
    /// a proxy's.
    #[arg(value_name = "KIND/NAME", value_parser = target)]
    target: Target,
    #[command(flatten)]
    object: ObjectArgs,
    /// Do not send connections through it.
    #[arg(long)]
    no_probes: bool,
    #[command(flatten)]
    container_runtime: ContainerRuntimeArg,
    #[command(flatten)]
    format: FormatArg,
}

/// The object to look at, by its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Proxy(String),
    Tunnel(String),
    Network(String),
    Infra(String),
    Gateway(String),
    Hostname(String),
}

fn target(text: &str) -> Result<Target, String> {
    fn of<K: CustomResourceExt>(text: &str, target: fn(String) -> Target) -> Option<Target> {
        object::name_of::<K>(text).map(|name| target(name.to_owned()))
    }
    // `proxy` is our word for it, which kubectl may take for another kind.
    let short = text.strip_prefix("proxy/").unwrap_or(text);
    let bare = (!short.is_empty() && !short.contains('/')).then(|| Target::Proxy(short.to_owned()));
    bare.or_else(|| of::<ProxyServer>(text, Target::Proxy))
        .or_else(|| of::<ContainerNetworkTunnelProxy>(text, Target::Tunnel))
        .or_else(|| of::<ContainerNetwork>(text, Target::Network))
        .or_else(|| of::<Infra>(text, Target::Infra))
        .or_else(|| of::<GatewayHostnameRequest>(&text.replacen("hostname/", "ghr/", 1), Target::Hostname))
        .or_else(|| gateway_name(text).map(|name| Target::Gateway(name.to_owned())))
        .ok_or_else(|| {
            "write proxy/NAME, gateway/NAME, hostname/NAME, cntp/NAME, containernetwork/NAME or infra/NAME"
                .to_owned()
        })
}

/// What the checks of every kind need.
struct Examination<'a> {
    client: Client,
    object: &'a ObjectArgs,
    probes: bool,
    container_runtime: &'a ContainerRuntimeArg,
}

impl Examination<'_> {
    /// Says that there is no such object, and where others are.
    fn missing<K: Resource<DynamicType = ()>>(&self, name: &str) -> Finding {
        Finding::bad(
            format!("there is no {} {}/{name}", K::kind(&()), self.object.namespace),
            format!(
                "create it, or say its namespace with -n; `kubectl get {} -A` lists them",
                K::plural(&())
            ),
        )
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let examination = Examination {
        client: args.object.client().await?,
        object: &args.object,
        probes: !args.no_probes,
        container_runtime: &args.container_runtime,
    };
    let (kind, name, mut findings) = match &args.target {
        Target::Proxy(name) => ("ProxyServer", name, proxy::examine(&examination, name).await?),
        Target::Tunnel(name) => {
            ("ContainerNetworkTunnelProxy", name, tunnel::examine(&examination, name).await?)
        }
        Target::Network(name) => ("ContainerNetwork", name, network::examine(&examination, name).await?),
        Target::Gateway(name) => ("Gateway", name, Box::pin(gateway::examine(&examination, name)).await?),
        Target::Hostname(name) => {
            ("GatewayHostnameRequest", name, Box::pin(hostname::examine(&examination, name)).await?)
        }
        Target::Infra(name) => ("Infra", name, Box::pin(infra::examine(&examination, name)).await?),
    };
    if let Some(trouble) = operator_lease::trouble(&examination.client, names::NAMESPACE).await {
        // What all else in the cluster depends on comes first.
        let cure =
            "start it again, or see what it logs; until then edits of specs change nothing in the status";
        findings.insert(0, Finding::bad(trouble, cure));
    }
    let report = Report::new(kind, &args.object.namespace, name, findings);
    args.format.print(&report)?;
    Ok(if report.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_every_kind_that_we_run() {
        assert_eq!(target("edge"), Ok(Target::Proxy("edge".into())));
        assert_eq!(target("proxyserver/edge"), Ok(Target::Proxy("edge".into())));
        assert_eq!(target("cntp/a"), Ok(Target::Tunnel("a".into())));
        assert_eq!(target("ctrnet/a"), Ok(Target::Network("a".into())));
        assert_eq!(target("gateway/a"), Ok(Target::Gateway("a".into())));
        assert_eq!(target("hostname/a"), Ok(Target::Hostname("a".into())));
        assert_eq!(target("ghr/a"), Ok(Target::Hostname("a".into())));
        assert_eq!(target("infra/a"), Ok(Target::Infra("a".into())));
        for text in ["pod/a", "cntp/", ""] {
            assert!(target(text).unwrap_err().contains("cntp/NAME"), "{text}");
        }
    }
}
