//! Two ends in one process, over loopback.

#![allow(clippy::unwrap_used, clippy::panic)]

mod clocks;
mod ends;
mod links;
mod misuse;
mod path;
mod streams;
