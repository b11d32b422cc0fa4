//! Settings of the kernel that a network namespace has for itself: that of the thread that writes them.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// Writes a setting of one interface. Interfaces' names may have dots.
pub(super) fn interface(family: Family, interface: &str, name: &str, value: &str) -> io::Result<()> {
    let family = if family == Family::V4 { "ipv4" } else { "ipv6" };
    match fs::write(Path::new("/proc/sys/net").join(family).join("conf").join(interface).join(name), value) {
        // A kernel without IPv6 has nothing to switch off.
        Err(error) if error.kind() == io::ErrorKind::NotFound && family == "ipv6" => Ok(()),
        other => other,
    }
}

/// What a setting of one interface is.
pub(super) fn read_interface(family: Family, interface: &str, name: &str) -> Option<String> {
    let family = if family == Family::V4 { "ipv4" } else { "ipv6" };
    let path = Path::new("/proc/sys/net").join(family).join("conf").join(interface).join(name);
    fs::read_to_string(path).ok().map(|value| value.trim().to_owned())
}

/// Writes a setting by its name, such as `net.ipv4.ip_forward`; those of other parts of the kernel are not the pod's own.
pub(super) fn write(name: &str, value: &str) -> io::Result<()> {
    let path = path(name).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("sysctl {name}: only those that begin with net. are the pod's own"),
        )
    })?;
    fs::write(path, value)
        .map_err(|error| io::Error::new(error.kind(), format!("sysctl {name}={value}: {error}")))
}

/// Where a setting is. With slashes, a name may have dots in its parts.
fn path(name: &str) -> Option<PathBuf> {
    let below = if name.contains('/') { name.to_owned() } else { name.replace('.', "/") };
    let below = Path::new(&below);
    let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    (below.starts_with("net") && is_plain).then(|| Path::new("/proc/sys").join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_of_the_network() {
        for (name, expected) in [
            ("net.ipv4.ip_forward", Some("/proc/sys/net/ipv4/ip_forward")),
            ("net/ipv4/conf/eth1.100/forwarding", Some("/proc/sys/net/ipv4/conf/eth1.100/forwarding")),
            ("kernel.core_pattern", None),
            ("net/../kernel/core_pattern", None),
            ("/net/ipv4/ip_forward", None),
            ("netfilter.x", None),
            ("", None),
        ] {
            assert_eq!(path(name).as_deref(), expected.map(Path::new), "{name}");
        }
    }
}
