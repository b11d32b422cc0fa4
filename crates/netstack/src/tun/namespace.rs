//! Into namespaces of one's own, with a TUN device as the only way out.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use ipnet::IpNet;
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use rustix::process::{getegid, geteuid};

use super::Settings;
use super::netlink::Netlink;

/// Moves this process, which must have one thread, into a user and a network namespace of its own, and makes the device
/// there. The user stays who it is; what becomes of the process has no rights that it had not before.
///
/// # Errors
/// When the machine does not allow such namespaces, or has no TUN devices; the text says what to do.
pub fn enter(settings: &Settings) -> io::Result<OwnedFd> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let mut flags = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET;
    if !settings.files.is_empty() {
        flags |= CloneFlags::CLONE_NEWNS;
    }
    unshare(flags).map_err(|error| forbidden(io::Error::from(error)))?;
    map("setgroups", "deny")?;
    map("uid_map", &format!("{user} {user} 1"))?;
    map("gid_map", &format!("{group} {group} 1"))?;
    set_up(settings)
}

/// Makes the device, and puts files in the place of others, in the namespaces that this process is in: for those who may, and
/// have made them by other means.
///
/// # Errors
/// As of [`enter`].
pub fn set_up(settings: &Settings) -> io::Result<OwnedFd> {
    put_files(settings)?;
    // It belongs to the network that it is opened in.
    let device = open()?;
    make(&device, &settings.name).map_err(|error| match error {
        Errno::PERM | Errno::ACCESS => forbidden(error.into()),
        error => said(error.into(), "making a TUN device"),
    })?;
    configure(settings).map_err(|error| said(error, "setting up the TUN device"))?;
    Ok(device)
}

fn map(file: &str, text: &str) -> io::Result<()> {
    fs::write(format!("/proc/self/{file}"), text).map_err(forbidden)
}

fn forbidden(error: io::Error) -> io::Error {
    said(
        error,
        "this machine does not allow user and network namespaces to everybody (see sysctl user.max_user_namespaces, \
         kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns); allow them, or use the proxy \
         instead",
    )
}

fn said(error: io::Error, text: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{text}: {error}"))
}

/// Puts files in the place of others, for this process and its children only.
fn put_files(settings: &Settings) -> io::Result<()> {
    if settings.files.is_empty() {
        return Ok(());
    }
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    for (file, place) in &settings.files {
        mount_bind(file, place).map_err(|error| {
            said(error.into(), &format!("putting {} in the place of {}", file.display(), place.display()))
        })?;
    }
    Ok(())
}

/// What the kernel is told of a device: its name and kind.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

fn open() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open("/dev/net/tun", flags, Mode::empty()).map_err(|error| match error {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => {
            said(error.into(), "this machine has no /dev/net/tun (modprobe tun); use the proxy instead")
        }
        Errno::PERM | Errno::ACCESS => {
            let text = "you may not open /dev/net/tun, which most machines let everybody (chmod 666); use the proxy instead";
            said(error.into(), text)
        }
        error => said(error.into(), "opening /dev/net/tun"),
    })
}

#[expect(unsafe_code, reason = "rustix has no function for this ioctl")]
fn make(device: &OwnedFd, name: &str) -> Result<(), Errno> {
    const TUNSETIFF: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<u32>(b'T', 202);
    const TUN_WITHOUT_PREFIX: u16 = 0x1001;
    let mut request = Request { name: [0; 16], flags: TUN_WITHOUT_PREFIX, rest: [0; 22] };
    for (place, byte) in request.name.iter_mut().zip(name.bytes().take(15)) {
        *place = byte;
    }
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which `Request` is as large as, and keeps nothing of it.
    unsafe { rustix::ioctl::ioctl(device, rustix::ioctl::Setter::<TUNSETIFF, Request>::new(request)) }
}

fn configure(settings: &Settings) -> io::Result<()> {
    let kernel = Netlink::open()?;
    kernel.set_up(kernel.index("lo")?, None)?;
    let index = kernel.index(&settings.name)?;
    kernel.set_up(index, Some(settings.mtu))?;
    for address in &settings.addresses {
        tolerate(*address, kernel.add_address(index, *address))?;
    }
    for route in &settings.routes {
        tolerate(*route, kernel.add_route(index, *route))?;
    }
    Ok(())
}

/// A machine without IPv6 goes without it.
fn tolerate(network: IpNet, result: io::Result<()>) -> io::Result<()> {
    let without = [Errno::OPNOTSUPP, Errno::ACCESS, Errno::AFNOSUPPORT, Errno::PERM];
    match result {
        Err(error)
            if network.addr().is_ipv6()
                && without.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) =>
        {
            Ok(())
        }
        other => other,
    }
}
