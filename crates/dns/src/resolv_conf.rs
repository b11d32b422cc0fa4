//! The resolvers of the host, for a plan that names none.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use causeway_ir::dns::Upstream;

const PORT: u16 = 53;

/// Those that the file names and that are not this server itself; none if it can't be read.
pub(crate) fn read(path: &Path, binds: &[SocketAddr]) -> Vec<Upstream> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let addresses = parse(&text).map(|ip| SocketAddr::new(ip, PORT));
    let others = addresses.filter(|address| !binds.contains(address));
    others.map(|address| Upstream { address, tls_server_name: None, tls_ca_file: None }).collect()
}

fn parse(text: &str) -> impl Iterator<Item = IpAddr> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == "nameserver").then_some(())?;
        words.next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_c_library_reads() {
        let text =
            "# nameserver 9.9.9.9\nsearch lab\nnameserver 10.0.0.1\nnameserver\t::1 # here\nnameserver x\n";
        let found: Vec<String> = parse(text).map(|ip| ip.to_string()).collect();
        assert_eq!(found, ["10.0.0.1", "::1"]);
    }

    #[test]
    fn this_server_is_not_its_own_resolver() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("resolv.conf");
        fs::write(&path, "nameserver 10.0.0.1\nnameserver 10.0.0.2\n").unwrap();
        let found = read(&path, &["10.0.0.2:53".parse().unwrap()]);
        assert_eq!(found.iter().map(|u| u.address.to_string()).collect::<Vec<_>>(), ["10.0.0.1:53"]);
        assert!(read(Path::new("/does/not/exist"), &[]).is_empty());
    }
}
