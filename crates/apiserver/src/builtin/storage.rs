//! PersistentVolumeClaims.

use super::kind::Kind;
use super::print;
use crate::resource::Resource;

pub fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
            .short(&["pvc"])
            .status()
            .columns(print::CLAIM, print::claim)
            .build(),
    ]
}
