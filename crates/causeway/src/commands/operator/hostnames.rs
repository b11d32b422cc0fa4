//! What the operator is told of hostnames: where the gateways are, and what is done where there is no HostnameZone.

use causeway_api::{DnsProviderKind, IssuerKind, ZoneCertificates, ZoneDns, names};
use causeway_controllers::hostnames::Settings;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Hostnames")]
pub(crate) struct HostnameArgs {
    /// Namespace of the gateways that hostnames are put on.
    #[arg(long, env = "GATEWAY_NAMESPACE", default_value = names::EDGE_NAMESPACE, value_name = "NAMESPACE")]
    gateway_namespace: String,
    /// GatewayClass of requests that name none, and whose HostnameZone names none.
    #[arg(long, env = "GATEWAY_CLASS_NAME", default_value = names::GATEWAY_CLASS, value_name = "CLASS")]
    gateway_class: String,
    /// Without a HostnameZone: a domain that every namespace may ask for names in; may be given several times.
    #[arg(long = "hostname-domain", env = "ALLOWED_DOMAINS", value_delimiter = ',', value_name = "DOMAIN")]
    domains: Vec<String>,
    /// Without a HostnameZone: who writes records.
    #[arg(long, env = "CAUSEWAY_HOSTNAME_DNS", value_enum, default_value = "local", value_name = "PROVIDER")]
    hostname_dns: DnsArg,
    /// Without a HostnameZone: who issues certificates.
    #[arg(
        long,
        env = "CAUSEWAY_HOSTNAME_ISSUER",
        value_enum,
        default_value = "local",
        value_name = "ISSUER"
    )]
    hostname_issuer: IssuerArg,
    /// Without a HostnameZone: the directory of an ACME issuer.
    #[arg(long, env = "CAUSEWAY_ACME_DIRECTORY", value_name = "URL")]
    acme_directory: Option<String>,
    /// Without a HostnameZone: the region of AWS.
    #[arg(long, env = "AWS_REGION", value_name = "REGION")]
    aws_region: Option<String>,
    /// Certificates on a gateway; more make another one.
    #[arg(long, default_value_t = 20, value_name = "N")]
    certificates_per_gateway: usize,
    /// Rules of routes on a gateway; more make another one.
    #[arg(long, default_value_t = 100, value_name = "N")]
    rules_per_gateway: usize,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum DnsArg {
    Local,
    Aws,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum IssuerArg {
    Local,
    Acme,
    Aws,
}

impl HostnameArgs {
    pub(crate) fn settings(self, namespace: &str) -> Settings {
        let mut settings = Settings { namespace: namespace.to_owned(), ..Settings::default() };
        let world = &mut settings.world;
        world.edge_namespace = self.gateway_namespace;
        world.gateway_class = self.gateway_class;
        world.domains = self.domains;
        world.most_certificates = self.certificates_per_gateway;
        world.most_rules = self.rules_per_gateway;
        world.dns = ZoneDns {
            provider: match self.hostname_dns {
                DnsArg::Local => DnsProviderKind::Local,
                DnsArg::Aws => DnsProviderKind::Aws,
            },
            region: self.aws_region.clone(),
            ..ZoneDns::default()
        };
        world.certificates = ZoneCertificates {
            issuer: match self.hostname_issuer {
                IssuerArg::Local => IssuerKind::Local,
                IssuerArg::Acme => IssuerKind::Acme,
                IssuerArg::Aws => IssuerKind::Aws,
            },
            directory: self.acme_directory,
            region: self.aws_region,
            ..ZoneCertificates::default()
        };
        settings
    }
}
