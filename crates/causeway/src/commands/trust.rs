//! `causeway trust`: the certificate of our own authority, which clients are told to trust.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use causeway_api::names;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;

use crate::parts::kube_context::ContextArgs;
use crate::parts::output;
use crate::parts::refusal;

/// Where the operator puts what everybody may know of our own authority.
pub(crate) const AUTHORITY: &str = "causeway-local-ca";
const CERTIFICATE: &str = "ca.crt";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write it into this file, and say how to use it. Without, it is printed.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Namespace of the gateways.
    #[arg(long, default_value = names::EDGE_NAMESPACE, value_name = "NAMESPACE")]
    gateway_namespace: String,
    #[command(flatten)]
    context: ContextArgs,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let cluster = args.context.cluster().await?;
    let certificate = certificate(&cluster.client, &args.gateway_namespace).await?;
    let Some(file) = args.file else {
        output::line(certificate.trim_end());
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::write(&file, &certificate).with_context(|| format!("can't write {}", file.display()))?;
    let path = file.display();
    output::line(format_args!(
        "{path} has the certificate of this control plane's own authority. To trust it:"
    ));
    output::line(format_args!("  curl --cacert {path} https://…"));
    output::line(format_args!(
        "  Debian, Ubuntu: sudo cp {path} /usr/local/share/ca-certificates/causeway.crt && sudo update-ca-certificates"
    ));
    output::line(format_args!("  Fedora, RHEL:   sudo trust anchor {path}"));
    output::line(format_args!(
        "  macOS:          sudo security add-trusted-cert -d -r trustRoot -k /Library/Keychains/System.keychain {path}"
    ));
    output::line(
        "Whoever has its key can then speak for any name to this machine: trust it where you try things out.",
    );
    Ok(ExitCode::SUCCESS)
}

/// The certificate, as PEM.
pub(crate) async fn certificate(client: &kube::Client, namespace: &str) -> anyhow::Result<String> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found = match maps.get_opt(AUTHORITY).await {
        Ok(found) => found,
        Err(error) => bail!("can't read ConfigMap {namespace}/{AUTHORITY}: {}", refusal::advice(&error)),
    };
    let certificate = found.and_then(|map| map.data?.remove(CERTIFICATE));
    certificate.with_context(|| {
        "there is no authority of our own yet: it is made with the first certificate that is asked of issuer local".to_owned()
    })
}
