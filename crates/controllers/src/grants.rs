//! ReferenceGrants as controllers watch them.

pub(crate) use causeway_translate::grants::{Grants, Target, Users, advice, advice_for};

use crate::framework::{children::ChildKind, kinds::gateway};

/// The grants' kind; watched, never made. The older version is all that OpenShift 4.20 to 4.22 has.
pub(crate) const REFERENCE_GRANT: ChildKind = gateway("ReferenceGrant", "referencegrants", &["v1beta1"]);
