//! HorizontalPodAutoscalers.

use super::kind::Kind;
use super::print;
use crate::resource::Resource;

pub fn kinds() -> Vec<Resource> {
    vec![
        Kind::new(
            "autoscaling",
            "v2",
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
        )
        .short(&["hpa"])
        .in_all()
        .status()
        .columns(print::AUTOSCALER, print::autoscaler)
        .build(),
    ]
}
