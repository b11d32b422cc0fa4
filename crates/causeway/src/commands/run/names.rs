//! The resolver of a process that sees the cluster: names of the cluster are asked for at its end, all others where this machine
//! asks.

mod message;

use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use causeway_base::lock::lock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use message::{A, AAAA, NO_ERROR, NO_SUCH_NAME, Question, SERVER_FAILURE, answered, refusal};

/// This machine, as a process that sees the cluster calls it.
pub(super) const THIS_MACHINE: &str = "host.causeway.internal";
/// How long another resolver may take before the next is asked.
const PATIENCE: Duration = Duration::from_secs(3);
const LONGEST: usize = u16::MAX as usize;

/// Finds the addresses of names in the cluster.
pub(super) trait Cluster: Send + Sync {
    /// The addresses of a name; none if there is no such name.
    fn resolve(&self, name: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send;
}

/// The resolver.
pub(super) struct Names<C> {
    cluster: C,
    /// The cluster's domain, `cluster.local`.
    domain: String,
    /// Where this machine asks.
    resolvers: Vec<SocketAddr>,
    /// The address that leads to this machine, if one does.
    machine: Option<IpAddr>,
    /// What this machine is called, which programs look up to find themselves.
    hostname: String,
    /// Addresses that the cluster has told, which lead there whatever is known of its networks.
    told: Mutex<Told>,
}

/// The addresses that were told last.
#[derive(Default)]
struct Told {
    known: HashSet<IpAddr>,
    order: VecDeque<IpAddr>,
}

impl Told {
    /// More than a process uses at a time.
    const MOST: usize = 16_384;

    fn add(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            if self.known.insert(*address) {
                self.order.push_back(*address);
            }
        }
        while self.order.len() > Self::MOST {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }
}

/// How a question came, and how its answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Datagram,
    Stream,
}

impl<C: Cluster> Names<C> {
    pub(super) fn new(cluster: C, domain: &str, resolvers: Vec<SocketAddr>, machine: Option<IpAddr>) -> Self {
        Self {
            cluster,
            domain: domain.to_owned(),
            resolvers,
            machine,
            hostname: hostname(),
            told: Mutex::default(),
        }
    }

    /// Whether the cluster has told this address for a name.
    pub(super) fn knows(&self, address: IpAddr) -> bool {
        lock(&self.told).known.contains(&address)
    }

    /// The answer to a message; none to what is no question.
    pub(super) async fn answer(&self, packet: &[u8], by: By) -> Option<Vec<u8>> {
        let Some(mut question) = Question::read(packet) else { return refusal(packet) };
        if by == By::Stream {
            question.room = LONGEST;
        }
        if question.name == THIS_MACHINE {
            return Some(match self.machine {
                Some(machine) => question.addresses(&[machine]),
                None => question.code(NO_SUCH_NAME),
            });
        }
        if question.name == self.hostname {
            return Some(question.addresses(&[Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]));
        }
        if self.is_of_cluster(&question.name) {
            return Some(match self.of_cluster(&question).await {
                Ok(Some(answer)) => answer,
                Ok(None) => question.code(NO_SUCH_NAME),
                Err(_) => question.code(SERVER_FAILURE),
            });
        }
        let outside = self.ask_outside(packet, by).await;
        let is_found = outside.as_ref().is_some_and(|answer| answered(packet, answer) == Some(NO_ERROR));
        if is_found {
            return outside;
        }
        // `web.shop` without the search list, or a name that only the cluster's own resolvers know.
        if let Ok(Some(answer)) = self.of_cluster(&question).await {
            return Some(answer);
        }
        outside.or_else(|| Some(question.code(SERVER_FAILURE)))
    }

    /// Whether nobody but the cluster can know it.
    fn is_of_cluster(&self, name: &str) -> bool {
        let below = |domain: &str| {
            name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        !name.contains('.') || below(&self.domain) || below("svc")
    }

    async fn of_cluster(&self, question: &Question<'_>) -> io::Result<Option<Vec<u8>>> {
        if !matches!(question.kind, A | AAAA) {
            // Only addresses can be asked for; that there is nothing else is no reason to say that there is no such name.
            return Ok(Some(question.addresses(&[])));
        }
        let found = self.cluster.resolve(&question.name).await?;
        lock(&self.told).add(&found);
        Ok((!found.is_empty()).then(|| question.addresses(&found)))
    }

    async fn ask_outside(&self, packet: &[u8], by: By) -> Option<Vec<u8>> {
        for resolver in &self.resolvers {
            let asked = async {
                match by {
                    By::Datagram => ask_datagram(*resolver, packet).await,
                    By::Stream => ask_stream(*resolver, packet).await,
                }
            };
            if let Ok(Ok(answer)) = timeout(PATIENCE, asked).await {
                return Some(answer);
            }
        }
        None
    }
}

fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().to_lowercase()
}

async fn ask_datagram(resolver: SocketAddr, packet: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr =
        if resolver.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(resolver).await?;
    socket.send(packet).await?;
    let mut buffer = vec![0; LONGEST];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if answered(packet, &buffer[..length]).is_some() {
            buffer.truncate(length);
            return Ok(buffer);
        }
    }
}

async fn ask_stream(resolver: SocketAddr, packet: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(resolver).await?;
    write_message(&mut stream, packet).await?;
    read_message(&mut stream).await?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// A message of a stream; none at its end.
pub(super) async fn read_message(
    stream: &mut (impl tokio::io::AsyncRead + Unpin),
) -> io::Result<Option<Vec<u8>>> {
    let length = match stream.read_u16().await {
        Ok(length) => length,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut message = vec![0; usize::from(length)];
    stream.read_exact(&mut message).await?;
    Ok(Some(message))
}

pub(super) async fn write_message(
    stream: &mut (impl tokio::io::AsyncWrite + Unpin),
    message: &[u8],
) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&[&length.to_be_bytes(), message].concat()).await
}

/// What a resolver's configuration says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ResolvConf {
    pub(super) resolvers: Vec<SocketAddr>,
    pub(super) search: Vec<String>,
}

impl ResolvConf {
    pub(super) fn read(path: &Path) -> Self {
        Self::parse(&std::fs::read_to_string(path).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let mut words = line.split(['#', ';']).next().unwrap_or_default().split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let address = words.next().and_then(|text| text.split('%').next()?.parse().ok());
                    found.resolvers.extend(address.map(|address: IpAddr| SocketAddr::new(address, 53)));
                }
                Some("search" | "domain") => found.search = words.map(ToOwned::to_owned).collect(),
                _ => {}
            }
        }
        if found.resolvers.is_empty() {
            // As the C library does.
            found.resolvers.push(SocketAddr::from((Ipv4Addr::LOCALHOST, 53)));
        }
        found
    }

    /// The configuration of a process that sees the cluster as a pod of this namespace does.
    pub(super) fn for_process(&self, resolver: IpAddr, namespace: &str, domain: &str) -> String {
        /// More the C library does not read.
        const MOST: usize = 32;
        let own = [format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()];
        let search: Vec<&str> = own
            .iter()
            .chain(&self.search)
            .filter(|name| *name != ".")
            .map(String::as_str)
            .take(MOST)
            .collect();
        format!(
            "# as pods of namespace {namespace} have it\nnameserver {resolver}\nsearch {}\noptions ndots:5\n",
            search.join(" ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::message::tests::question;
    use super::*;

    struct Known;

    impl Cluster for Known {
        async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            match name {
                "web.shop.svc.cluster.local" | "web" | "web.shop" => Ok(vec![[10, 0, 0, 7].into()]),
                "away.cluster.local" => Err(io::ErrorKind::NotConnected.into()),
                _ => Ok(Vec::new()),
            }
        }
    }

    /// A resolver outside that knows every name of example.com, and the code and last byte of an answer.
    async fn ask(name: &str, kind: u16, by: By) -> (u8, u8) {
        let outside = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = outside.local_addr().unwrap();
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            while let Ok((length, peer)) = outside.recv_from(&mut buffer).await {
                let asked = Question::read(&buffer[..length]).unwrap();
                let answer = if asked.name.ends_with("example.com") {
                    asked.addresses(&[[192, 0, 2, 9].into()])
                } else {
                    asked.code(NO_SUCH_NAME)
                };
                outside.send_to(&answer, peer).await.unwrap();
            }
        });
        let names = Names::new(Known, "cluster.local", vec![address], Some([169, 254, 0, 1].into()));
        let packet = question(name, kind);
        let answer = names.answer(&packet, by).await.unwrap();
        (answered(&packet, &answer).unwrap(), *answer.last().unwrap())
    }

    #[tokio::test]
    async fn names_of_the_cluster_and_of_the_world() {
        let datagram = By::Datagram;
        assert_eq!(ask("web.shop.svc.cluster.local", A, datagram).await, (NO_ERROR, 7));
        assert_eq!(ask("web", A, datagram).await, (NO_ERROR, 7));
        assert_eq!(ask("web.shop", A, datagram).await, (NO_ERROR, 7), "nobody else knows it");
        assert_eq!(ask("www.example.com", A, datagram).await, (NO_ERROR, 9));
        assert_eq!(ask(THIS_MACHINE, A, datagram).await, (NO_ERROR, 1));
        assert_eq!(ask(&hostname(), A, datagram).await, (NO_ERROR, 1), "its own loopback");
        assert_eq!(ask("none.shop.svc.cluster.local", A, datagram).await.0, NO_SUCH_NAME);
        assert_eq!(ask("none.test", A, datagram).await.0, NO_SUCH_NAME);
        assert_eq!(ask("away.cluster.local", A, datagram).await.0, SERVER_FAILURE);
        assert_eq!(ask("web.shop.svc.cluster.local", AAAA, By::Stream).await.0, NO_ERROR, "no such address");
        assert_eq!(ask("web.shop.svc.cluster.local", 33, datagram).await.0, NO_ERROR, "no such record");
    }

    #[test]
    fn addresses_that_were_told_are_remembered_for_a_while() {
        let mut told = Told::default();
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        told.add(&[address(1), address(1)]);
        told.add(&(2..=Told::MOST as u32 + 1).map(address).collect::<Vec<_>>());
        assert_eq!((told.known.len(), told.order.len()), (Told::MOST, Told::MOST));
        assert!(!told.known.contains(&address(1)) && told.known.contains(&address(2)));
    }

    #[test]
    fn a_resolver_configuration_is_read_and_written() {
        let read = ResolvConf::parse(
            "# x\nnameserver 10.0.0.2 # a\nnameserver fe80::1%eth0\nsearch corp.test lan\noptions x\n",
        );
        assert_eq!(read.resolvers, ["10.0.0.2:53".parse().unwrap(), "[fe80::1]:53".parse().unwrap()]);
        assert_eq!(ResolvConf::parse("").resolvers, ["127.0.0.1:53".parse().unwrap()]);
        let text = read.for_process([169, 254, 0, 1].into(), "shop", "cluster.local");
        assert!(
            text.ends_with(
                "nameserver 169.254.0.1\nsearch shop.svc.cluster.local svc.cluster.local cluster.local corp.test lan\noptions ndots:5\n"
            ),
            "{text}"
        );
    }
}
