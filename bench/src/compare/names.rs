//! The server names of a run, the backend of each, and a genuine ClientHello for any of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use anyhow::Context;
use rustls::pki_types::ServerName;

/// Backends behind the server names.
pub(crate) const BACKENDS: u8 = 16;
const BACKEND_PORT: u16 = 9100;

/// Where the plain listener leads.
pub(crate) const PLAIN_BACKEND: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 10), BACKEND_PORT);

/// Where the same backend is found on every address of its namespace.
pub(crate) const EVERYWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 9101);

/// The backends behind server names.
pub(crate) fn backends() -> Vec<SocketAddrV4> {
    (0..BACKENDS).map(|i| SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 11 + i), BACKEND_PORT)).collect()
}

pub(crate) struct Name {
    pub(crate) name: String,
    /// A place in `backends`.
    pub(crate) backend: usize,
}

/// Names and their hellos.
pub(crate) struct Names {
    list: Vec<Name>,
    backends: Vec<SocketAddrV4>,
    /// A ClientHello for each length of name, and where in it the name stands.
    hellos: HashMap<usize, (Vec<u8>, usize)>,
}

impl Names {
    /// One name for each backend, and `extra` more that share the backends.
    pub(crate) fn new(extra: usize) -> anyhow::Result<Self> {
        let backends = backends();
        let base = (0..backends.len()).map(|i| Name { name: format!("s{i}.bench.test"), backend: i });
        let more = (0..extra).map(|i| Name {
            name: format!("app-{i:06}.team-{:02}.apps.bench.test", i % 97),
            backend: i % backends.len(),
        });
        let list: Vec<Name> = base.chain(more).collect();
        let config = Arc::new(client_config()?);
        let mut hellos = HashMap::new();
        for Name { name, .. } in &list {
            if let Entry::Vacant(entry) = hellos.entry(name.len()) {
                let hello = hello(&config, name)?;
                let place = hello.windows(name.len()).position(|window| window == name.as_bytes());
                entry.insert((hello, place.context("a ClientHello without its name")?));
            }
        }
        Ok(Self { list, backends, hellos })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Name> {
        self.list.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The backend that the name at a place leads to.
    pub(crate) fn backend(&self, place: usize) -> SocketAddrV4 {
        self.backends[self.list[place % self.list.len()].backend]
    }

    /// Appends the ClientHello of the name at a place.
    pub(crate) fn write_hello(&self, place: usize, out: &mut Vec<u8>) {
        let name = &self.list[place % self.list.len()].name;
        let (hello, at) = &self.hellos[&name.len()];
        let start = out.len() + at;
        out.extend_from_slice(hello);
        out[start..start + name.len()].copy_from_slice(name.as_bytes());
    }
}

fn client_config() -> anyhow::Result<rustls::ClientConfig> {
    let roots = rustls::RootCertStore::empty();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn hello(config: &Arc<rustls::ClientConfig>, name: &str) -> anyhow::Result<Vec<u8>> {
    let name = ServerName::try_from(name.to_owned())?;
    let mut client = rustls::ClientConnection::new(Arc::clone(config), name)?;
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_hello_of_its_own() {
        let names = Names::new(200).unwrap();
        assert_eq!(names.len(), 216);
        for (place, name) in names.iter().enumerate() {
            let mut hello = b"before".to_vec();
            names.write_hello(place, &mut hello);
            let mut acceptor = rustls::server::Acceptor::default();
            acceptor.read_tls(&mut &hello[b"before".len()..]).unwrap();
            let accepted = acceptor.accept().unwrap().unwrap();
            assert_eq!(accepted.client_hello().server_name(), Some(name.name.as_str()));
        }
    }
}
