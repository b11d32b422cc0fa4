//! One module per command: its arguments and what it does.

pub(crate) mod clean;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod dhcp;
pub(crate) mod dns;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod echo;
pub(crate) mod engine;
pub(crate) mod gateway;
pub(crate) mod infra;
pub(crate) mod leases;
pub(crate) mod logs;
pub(crate) mod operator;
pub(crate) mod proxy;
pub(crate) mod routes;
pub(crate) mod status;
pub(crate) mod tunnel;
pub(crate) mod up;
pub(crate) mod version;
pub(crate) mod xds;
