//! How a stored object changes: JSON, merge and strategic merge patches, server-side apply, and the bookkeeping of
//! who owns which field that every write carries. Pure functions of documents and schema; the time is passed in.

mod apply;
mod fields;
#[cfg(test)]
mod fixtures;
mod json;
mod last_applied;
mod managed;
mod strategic;
mod typed;

pub(crate) use apply::{apply, untypable};
pub(crate) use json::{json_patch, merge_patch};
pub(crate) use managed::{Manager, Operation, keep_times_if_unchanged, track_update};
pub(crate) use strategic::strategic_merge;
