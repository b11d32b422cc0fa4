//! What a ContainerNetwork leads to.

mod faults;
mod leftovers;
mod modes;
mod outside;
