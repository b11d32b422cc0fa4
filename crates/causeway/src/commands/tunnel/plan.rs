//! The plan of a host end, in a file: read and checked.

use std::path::Path;

use anyhow::{Context, bail};
use causeway_ir::tunnel::TunnelPlan;

use crate::parts::plan_file;

/// Reads a plan that a person wrote, YAML or JSON. Paths in it are relative to the file.
pub(super) fn read(path: &Path) -> anyhow::Result<TunnelPlan> {
    read_with(path, |text| {
        plan_file::parse(path, text)?.with_context(|| {
            format!("{} is empty, which is not a plan: write at least authority and dial", path.display())
        })
    })
}

/// Reads a plan that an operator wrote, which may be of another version.
pub(super) fn read_given(path: &Path) -> anyhow::Result<TunnelPlan> {
    read_with(path, |text| {
        TunnelPlan::of_any_version(text)
            .with_context(|| format!("{} is not the plan of a host end", path.display()))
    })
}

fn read_with(
    path: &Path,
    parse: impl FnOnce(&str) -> anyhow::Result<TunnelPlan>,
) -> anyhow::Result<TunnelPlan> {
    let mut plan = parse(&plan_file::of_file(path)?)?;
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use causeway_ir::tunnel::{Port, TunnelProtocol};

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
        let tunnel = &plan.tunnels[0];
        assert_eq!((tunnel.protocol, tunnel.port), (TunnelProtocol::Udp, Port::Fixed(53)));
        assert_eq!((tunnel.endpoints.len(), tunnel.idle_timeout()), (1, Duration::from_secs(5)));
        let json = serde_json::to_string(&plan).unwrap().replacen('{', r#"{"tomorrow":1,"#, 1);
        std::fs::write(&path, &json).unwrap();
        assert_eq!(read_given(&path).unwrap(), plan);
        assert!(
            format!("{:#}", read(&path).unwrap_err()).contains("tomorrow"),
            "a person's mistake is named"
        );
        std::fs::write(&path, text.replace("id: 1", "id: 0")).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("tunnels[0].id"));
        for (half, words) in [
            ("", "is empty, which is not a plan"),
            ("authority: pair/authority.pem\ntunnels:\n", ":2: tunnels: there is no value"),
            ("authority: a\ndataLinks: 2\n", ":2: dataLinks: there is no such field"),
        ] {
            std::fs::write(&path, half).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
