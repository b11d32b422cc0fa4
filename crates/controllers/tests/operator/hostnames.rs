//! Hostnames: what the operator makes of requests, against our own authority and a DNS zone in memory, and against real peers of
//! every other kind. The gateways' pods are played by the test.

mod acme;
mod alerts;
mod aws;
mod chaos;
mod data_plane;
mod drift;
mod faults;
mod kills;
mod lives;
mod many;
mod peers;
mod scene;
mod tenants;
