//! Hostnames on one machine, as a user meets them: `causeway up`, kubectl, dig's questions and curl.

#![allow(clippy::unwrap_used, clippy::panic)]

mod documents;
mod faults;
mod providers;
mod publish;
mod rehearsal;
mod renewal;
mod tenants;
mod world;
