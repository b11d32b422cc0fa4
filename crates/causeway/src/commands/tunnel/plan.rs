//! The plan of a host end, in a file: read, checked, and made into what the host end is asked for.

use std::path::Path;

use anyhow::{Context, bail};
use causeway_ir::tunnel::{self, TunnelPlan, TunnelProtocol};
use causeway_link::{Port, Protocol, Tunnel};

/// Reads a plan, YAML or JSON. Paths in it are relative to the file.
pub(super) fn read(path: &Path) -> anyhow::Result<TunnelPlan> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("can't read the plan {}", path.display()))?;
    let mut plan: TunnelPlan = serde_saphyr::from_str(&text)
        .with_context(|| format!("{} is not the plan of a host end", path.display()))?;
    let problems = plan.validate();
    if !problems.is_empty() {
        let said: Vec<_> = problems.iter().map(ToString::to_string).collect();
        bail!("{}: {}", path.display(), said.join("; "));
    }
    if let Some(directory) = path.parent() {
        plan.authority = directory.join(&plan.authority);
    }
    Ok(plan)
}

/// What the host end is asked to carry.
pub(super) fn tunnels(plan: &TunnelPlan) -> Vec<Tunnel> {
    plan.tunnels.iter().map(tunnel).collect()
}

fn tunnel(tunnel: &tunnel::Tunnel) -> Tunnel {
    let millis = |period: causeway_ir::Period| u64::try_from(period.get().as_millis()).unwrap_or(u64::MAX);
    Tunnel {
        protocol: match tunnel.protocol {
            TunnelProtocol::Tcp => Protocol::Tcp,
            TunnelProtocol::Udp => Protocol::Udp,
        },
        port: match tunnel.port {
            tunnel::Port::Fixed(port) => Port::Fixed(port),
            tunnel::Port::Preferred(port) => Port::Preferred(port),
            tunnel::Port::Any => Port::Any,
        },
        allowed_sources: tunnel.allowed_sources.clone(),
        max_streams: tunnel.max_streams.get(),
        targets: tunnel.endpoints.iter().filter_map(|endpoint| endpoint.address.socket()).collect(),
        connect_timeout_millis: millis(tunnel.connect_timeout),
        idle_timeout_millis: tunnel.idle_timeout.map_or(0, millis),
        ..Tunnel::new(tunnel.id, tunnel.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_a_person_writes_it_and_its_mistakes_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan.yaml");
        let text = "authority: pair/authority.pem\ndial: {control: '127.0.0.1:1', data: '127.0.0.1:2'}\n\
                    tunnels: [{id: 1, name: dns, protocol: UDP, port: {fixed: 53}, endpoints: [{address: '127.0.0.1:53'}], idleTimeout: 5s}]";
        std::fs::write(&path, text).unwrap();
        let plan = read(&path).unwrap();
        assert_eq!(plan.authority, dir.path().join("pair/authority.pem"));
        let tunnel = tunnels(&plan).remove(0);
        assert_eq!((tunnel.protocol, tunnel.port), (Protocol::Udp, Port::Fixed(53)));
        assert_eq!((tunnel.targets.len(), tunnel.idle_timeout_millis), (1, 5000));
        std::fs::write(&path, text.replace("id: 1", "id: 0")).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("tunnels[0].id"));
    }
}
