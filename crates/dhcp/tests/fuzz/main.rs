//! The fuzz targets without a fuzzer, from the seeds that the fuzzer has.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "../../fuzz/bodies/v4.rs"]
mod v4;
#[path = "../../fuzz/bodies/v6.rs"]
mod v6;

use causeway_testkit::fuzz::{drive, seeds};

const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz");

#[test]
fn bent_messages_of_dhcpv4_give_no_address_to_two() {
    drive("v4", &seeds(FUZZ, "v4"), v4::run);
}

#[test]
fn bent_messages_of_dhcpv6_give_no_address_to_two() {
    drive("v6", &seeds(FUZZ, "v6"), v6::run);
}
