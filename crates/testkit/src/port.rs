//! Ports for programs that have to be told one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// A port that nothing listens on, and that the kernel gives only to a program that asks for it by number.
pub fn free() -> u16 {
    taken().1
}

/// A port that the returned listener holds on every address, below those that the kernel chooses from.
pub fn taken() -> (TcpListener, u16) {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test programs run at the same time; each begins elsewhere.
    let first = 12_000 + (std::process::id() % 200) as u16 * 100;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % 100;
        let on = |address: IpAddr| TcpListener::bind((address, port));
        let bound = on(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| on(Ipv4Addr::UNSPECIFIED.into()));
        if let Ok(listener) = bound {
            return (listener, port);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_differ() {
        let (listener, held) = taken();
        let port = free();
        assert_ne!(port, held);
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, held)).is_err());
        drop(listener);
    }
}
