//! The kinds that are there without any CRD: their schemas, names, columns and behaviour.

pub mod definitions;
mod list_types;
