//! The names of a DHCP server's clients, on their way to a DNS server: a ConfigMap with an entry for each replica, which its
//! pod writes when something has changed, at most once a second, and twice a minute in any case; and which the DNS server's pod
//! watches.

use std::net::IpAddr;
use std::time::Duration;

use causeway_api::names;
use kube::Client;
use tokio::sync::watch;

use crate::followed::Entries;
use crate::own_entry::OwnEntry;

/// A ConfigMap takes a mebibyte in all, and two servers write in one.
const LARGEST: usize = 450_000;

/// A client by its name, and its address.
pub type Leased = (String, IpAddr);

/// Writes the newest names of a DHCP server's replica until the channel ends.
pub async fn publish(
    client: Client,
    namespace: String,
    server: String,
    replica: usize,
    leased_rx: watch::Receiver<Vec<Leased>>,
) {
    let entry = OwnEntry {
        client,
        namespace,
        config_map: names::lease_names_config_map(&server),
        key: replica.to_string(),
        rest: Duration::from_secs(1),
        again: Duration::from_secs(30),
    };
    entry.keep(leased_rx, |leased| write(leased)).await;
}

fn write(leased: &[Leased]) -> String {
    let mut text = String::new();
    for (name, address) in leased {
        let line = format!("{name} {address}\n");
        if text.len() + line.len() > LARGEST {
            tracing::warn!("too many clients have names: not all of them are handed to DNS");
            break;
        }
        text.push_str(&line);
    }
    text
}

/// The clients of all replicas.
pub(crate) fn read(entries: &Entries) -> Vec<Leased> {
    let line = |line: &str| {
        let (name, address) = line.split_once(' ')?;
        Some((name.to_owned(), address.trim().parse().ok()?))
    };
    entries.values().flat_map(|text| text.lines()).filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_were_written() {
        let leased: Vec<Leased> =
            vec![("a".into(), "10.0.0.1".parse().unwrap()), ("b".into(), "fd00::1".parse().unwrap())];
        let entries = [("1".to_owned(), write(&leased)), ("2".to_owned(), "rubbish\n".to_owned())].into();
        assert_eq!(read(&entries), leased);
        let many = vec![("n".repeat(60), "10.0.0.1".parse().unwrap()); 10_000];
        assert!(write(&many).len() <= LARGEST);
    }
}
