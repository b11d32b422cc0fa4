//! This very program: its file, to start more processes of it, and its image, to start pods of it.

use std::path::PathBuf;

use anyhow::Context;
use causeway_api::names;

pub(crate) fn path() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("can't find this program's own file")
}

/// The image of this version.
pub(crate) fn image() -> String {
    names::own_image(env!("CARGO_PKG_VERSION"))
}
