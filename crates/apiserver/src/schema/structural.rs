//! The rules that make a schema structural, so that pruning and defaulting know every field: checked when a CRD is
//! written.
