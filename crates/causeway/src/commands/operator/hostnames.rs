//! What the operator is told of hostnames: where the gateways are, and what is done where there is no HostnameZone.

use std::time::Duration;

use causeway_api::{DnsProviderKind, IssuerKind, ZoneCertificates, ZoneDns, names};
use causeway_controllers::hostnames::Settings;

#[derive(Clone, Debug, clap::Args)]
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
    /// Without a HostnameZone and a domain: every namespace may ask for names in any domain, served by our own DNS server. Who
    /// comes first then says for the whole cluster in which domains names must be held.
    #[arg(long, conflicts_with = "domains")]
    hostname_any_domain: bool,
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
    /// How long a certificate of our own authority is good for; it is renewed after half of that, or two thirds
    /// where that is more than ten days.
    #[arg(long, env = "CAUSEWAY_CERTIFICATE_LIFETIME", default_value = "168h", value_parser = lifetime, value_name = "TIME")]
    certificate_lifetime: Duration,
    /// Say what would be done for hostnames, and do nothing: no claim, no certificate, no gateway, no record. The plan is logged,
    /// and once more whenever it changes.
    #[arg(long)]
    hostname_dry_run: bool,
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
        settings.local_lifetime = self.certificate_lifetime;
        settings.dry_run = self.hostname_dry_run;
        let world = &mut settings.world;
        world.edge_namespace = self.gateway_namespace;
        world.gateway_class = self.gateway_class;
        world.domains = self.domains;
        world.any_domain = self.hostname_any_domain;
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

/// Shorter ones would end while their successors are on their way to the gateways.
const SHORTEST: Duration = Duration::from_secs(10);

fn lifetime(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err("write a number and s, m, h or d, for example 12h".to_owned()),
    };
    let number: u64 =
        number.parse().map_err(|_| "write a number and s, m, h or d, for example 12h".to_owned())?;
    let lifetime = Duration::from_secs(number.saturating_mul(seconds));
    if lifetime < SHORTEST {
        return Err(format!("write at least {} s", SHORTEST.as_secs()));
    }
    Ok(lifetime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_a_number_and_a_unit() {
        assert_eq!(lifetime("168h"), Ok(Duration::from_hours(168)));
        assert_eq!(lifetime("90d"), Ok(Duration::from_hours(24 * 90)));
        for bad in ["", "h", "12", "1w", "-1h", "5s", "1.5h"] {
            assert!(lifetime(bad).is_err(), "{bad}");
        }
    }
}
