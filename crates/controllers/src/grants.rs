//! ReferenceGrants as controllers watch them.

pub(crate) use causeway_translate::grants::{Grants, Target, Users, advice, advice_for};

use crate::framework::children::ChildKind;

/// The grants' kind; watched, never made.
pub(crate) const REFERENCE_GRANT: ChildKind = ChildKind {
    group: "gateway.networking.k8s.io",
    version: "v1",
    kind: "ReferenceGrant",
    plural: "referencegrants",
};
