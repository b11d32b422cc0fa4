//! The cluster's end of all workstations: its pods, how it is reached, and what its pods are told. It is there for as long as there
//! is a Workstation.

mod desired;
mod entry;
mod install;
mod standing;

pub(crate) use self::{
    entry::Way,
    install::{Installed, Installer, trouble_of},
    standing::{Standing, is_ready},
};

/// The kind, in labels, of what belongs to it.
pub(crate) const OWNER_KIND: &str = "Stowaway";
