//! Causeway comes into a real cluster, is brought to other versions, and goes, by its own commands and by Helm.

#![allow(clippy::unwrap_used, clippy::panic)]

mod bed;
mod faults;
mod helm;
mod life;
mod openshift;
mod releases;
mod tenant;
