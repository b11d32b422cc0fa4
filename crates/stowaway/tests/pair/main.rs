//! Whole pairs in one process: hubs and laptops on ports of their own, carriers, real services on both sides.

#![allow(clippy::panic)]

mod carrier;
mod carries;
mod cluster;
mod crowd;
mod datagrams;
mod door;
mod heals;
mod keeps_out;
mod moves;
mod proxy;
mod reaches;
mod road;
mod rogue;
mod services;
mod wireguard;
