//! `causeway routes KIND/NAME`: where each port and name of a proxy leads, or each host and path of a Gateway. Needs nothing
//! but the API server.

mod gateway;
mod proxy;

use std::process::ExitCode;

use causeway_api::ProxyServer;

use crate::parts::answer::FormatArg;
use crate::parts::gateway::name_of as gateway_name;
use crate::parts::object::{self, ObjectArgs};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to look at: proxy/NAME or gateway/NAME; a NAME alone is a proxy's.
    #[arg(value_name = "KIND/NAME", value_parser = target)]
    target: Target,
    #[command(flatten)]
    object: ObjectArgs,
    #[command(flatten)]
    format: FormatArg,
}

/// The object to look at, by its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Proxy(String),
    Gateway(String),
}

fn target(text: &str) -> Result<Target, String> {
    // `proxy` is our word for it, which kubectl may take for another kind.
    let short = text.strip_prefix("proxy/").unwrap_or(text);
    let bare = (!short.is_empty() && !short.contains('/')).then_some(short);
    let proxy = object::name_of::<ProxyServer>(text).or(bare).map(|name| Target::Proxy(name.to_owned()));
    let gateway = || gateway_name(text).map(|name| Target::Gateway(name.to_owned()));
    proxy.or_else(gateway).ok_or_else(|| "write proxy/NAME or gateway/NAME".to_owned())
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    match &args.target {
        Target::Proxy(name) => proxy::run(name, &args.object, &args.format).await,
        Target::Gateway(name) => gateway::run(name, &args.object, &args.format).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_is_a_proxys() {
        for text in ["edge", "proxy/edge", "proxyserver/edge", "pxs/edge"] {
            assert_eq!(target(text), Ok(Target::Proxy("edge".into())), "{text}");
        }
        for text in ["gateway/web", "gateways/web", "gtw/web"] {
            assert_eq!(target(text), Ok(Target::Gateway("web".into())), "{text}");
        }
        for text in ["proxy/", "infra/edge", "gateway/", ""] {
            assert!(target(text).is_err(), "{text}");
        }
    }
}
