//! WireGuard as others meet it: `wireguard-go` with the kernel's TCP, in a network namespace with a cable to this one. Needs
//! root and what `scripts/test-deps.sh` installs.

#![allow(clippy::unwrap_used, clippy::panic)]

mod lossy;
mod machine;
mod pages;
