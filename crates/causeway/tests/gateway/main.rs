//! Gateways of class `causeway`, through the whole product: as objects on one machine, and from files without a control
//! plane.

#![allow(clippy::unwrap_used, clippy::panic)]

mod backend;
mod commands;
mod files;
mod kinds;
mod load;
mod machine;
mod outages;
mod policies;
mod refusals;
