//! Two ends in one process, over loopback.

#![allow(clippy::panic)]

mod clocks;
mod ends;
mod links;
mod misuse;
mod path;
mod streams;
