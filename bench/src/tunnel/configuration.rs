//! What each tunnel is told: where users connect, which backend is behind it, and keys made for this run.

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::json;

use crate::compare::names::PLAIN_BACKEND;

/// Where users connect for the backend; the tunnels to dead backends have the ports after it.
pub(crate) const USERS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7080);
/// Where the ends of a tunnel meet: ours at both, the others at one.
pub(crate) const CONTROL: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7333);
pub(crate) const DATA: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7334);
/// Where a long way to each of them begins.
pub(crate) const DELAYED: [(SocketAddrV4, SocketAddrV4); 2] = [
    (SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7433), CONTROL),
    (SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7434), DATA),
];

/// What is around a tunnel.
pub(crate) struct Setting<'a> {
    /// Backends that are dead, each behind a tunnel of its own beside that to the backend.
    pub(crate) dead: &'a [SocketAddr],
    /// Whether there is a long way between the ends.
    pub(crate) delayed: bool,
}

impl Setting<'_> {
    /// Where one end reaches the other.
    fn control(&self) -> SocketAddrV4 {
        if self.delayed { DELAYED[0].0 } else { CONTROL }
    }

    pub(crate) fn data(&self) -> SocketAddrV4 {
        if self.delayed { DELAYED[1].0 } else { DATA }
    }

    /// Where users connect, and what is behind it: the backend first.
    fn tunnels(&self) -> impl Iterator<Item = (SocketAddrV4, SocketAddr)> {
        let dead = self.dead.iter().enumerate().map(|(place, address)| (dead_users(place), *address));
        std::iter::once((USERS, SocketAddr::V4(PLAIN_BACKEND))).chain(dead)
    }
}

/// How rathole's ends speak to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Plain,
    Tls,
    Noise,
}

/// Where users of the tunnel to the dead backend at a place connect.
pub(crate) fn dead_users(place: usize) -> SocketAddrV4 {
    SocketAddrV4::new(*USERS.ip(), USERS.port() + 1 + place as u16)
}

pub(crate) fn causeway(program: &Path, setting: &Setting<'_>, dir: &Path) -> anyhow::Result<()> {
    // Keys are never overwritten; those of an earlier turn are as good.
    if !dir.join("authority.pem").is_file() {
        said(Command::new(program).args(["tunnel", "keys"]).arg(dir))?;
    }
    let tunnels: Vec<_> = setting
        .tunnels()
        .enumerate()
        .map(|(place, (users, target))| {
            json!({
                "id": place + 1, "name": format!("tunnel-{place}"), "protocol": "TCP",
                "port": {"fixed": users.port()}, "endpoints": [{"address": target}],
            })
        })
        .collect();
    let config = json!({
        "authority": dir.join("authority.pem"), "dial": {"control": setting.control(), "data": setting.data()}, "tunnels": tunnels,
    });
    write(dir, "tunnels.yaml", &format!("{config:#}\n"))
}

pub(crate) fn rathole(
    program: &Path,
    transport: Transport,
    setting: &Setting<'_>,
    dir: &Path,
) -> anyhow::Result<()> {
    let kind = match transport {
        Transport::Plain => "tcp",
        Transport::Tls => "tls",
        Transport::Noise => "noise",
    };
    let head = |role: &str, address: &str, at: SocketAddrV4| {
        format!(
            "[{role}]\n{address} = \"{at}\"\ndefault_token = \"bench\"\n\
             [{role}.transport]\ntype = \"{kind}\"\n[{role}.transport.tcp]\nnodelay = true\n"
        )
    };
    let (mut server, mut client) =
        (head("server", "bind_addr", CONTROL), head("client", "remote_addr", setting.control()));
    match transport {
        Transport::Plain => {}
        Transport::Tls => {
            certificate(dir)?;
            let _ = write!(
                server,
                "[server.transport.tls]\npkcs12 = \"{}\"\npkcs12_password = \"bench\"\n",
                dir.join("identity.pfx").display()
            );
            let _ = write!(
                client,
                "[client.transport.tls]\ntrusted_root = \"{}\"\nhostname = \"localhost\"\n",
                dir.join("certificate.pem").display()
            );
        }
        Transport::Noise => {
            let keys = said(Command::new(program).arg("--genkey"))?;
            let mut keys =
                keys.lines().map(str::trim).filter(|line| !line.is_empty() && !line.ends_with(':'));
            let mut key = || keys.next().context("rathole made no keys");
            let _ = write!(server, "[server.transport.noise]\nlocal_private_key = \"{}\"\n", key()?);
            let _ = write!(client, "[client.transport.noise]\nremote_public_key = \"{}\"\n", key()?);
        }
    }
    for (place, (users, target)) in setting.tunnels().enumerate() {
        let _ = write!(server, "[server.services.t{place}]\nbind_addr = \"{users}\"\n");
        let _ = write!(client, "[client.services.t{place}]\nlocal_addr = \"{target}\"\n");
    }
    write(dir, "server.toml", &server)?;
    write(dir, "client.toml", &client)
}

/// A certificate for localhost on the curve that ours is on, and the archive that rathole reads.
pub(crate) fn certificate(dir: &Path) -> anyhow::Result<()> {
    let openssl = |arguments: &str| {
        said(Command::new("openssl").current_dir(dir).args(arguments.split(' ')))
            .context("can't make a certificate with `openssl`")
    };
    openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem \
         -out certificate.pem -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
         -addext basicConstraints=critical,CA:FALSE",
    )?;
    openssl("pkcs12 -export -out identity.pfx -inkey key.pem -in certificate.pem -passout pass:bench")?;
    Ok(())
}

/// What a program that must succeed says.
fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("can't start {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {}", errors.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn write(dir: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = dir.join(name);
    std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rathole_is_told_of_every_tunnel_and_of_the_long_way() {
        let dir = tempfile::tempdir().unwrap();
        let dead: SocketAddr = "127.0.0.9:9".parse().unwrap();
        let setting = Setting { dead: &[dead], delayed: true };
        rathole(Path::new("/nowhere"), Transport::Plain, &setting, dir.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        let (server, client) = (read("server.toml"), read("client.toml"));
        assert!(server.contains("127.0.0.1:7080") && server.contains("127.0.0.1:7081"), "{server}");
        assert!(server.contains("127.0.0.1:7333") && client.contains("127.0.0.1:7433"), "{client}");
        assert!(client.contains(&PLAIN_BACKEND.to_string()) && client.contains("127.0.0.9:9"), "{client}");
    }
}
