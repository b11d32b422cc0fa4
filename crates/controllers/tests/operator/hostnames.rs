//! Hostnames: what the operator makes of requests, against our own authority and a DNS zone in memory. The gateways' pods are played
//! by the test.

mod chaos;
mod lives;
mod many;
mod scene;
mod tenants;
