//! Why a pod does not run, as its own state says it.

use k8s_openapi::api::core::v1::Pod;

/// What keeps a pod from starting that time alone does not mend.
pub(crate) fn of(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let statuses = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    for container in statuses {
        let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
        let Some(waiting) = waiting else { continue };
        let reason = waiting.reason.as_deref().unwrap_or_default();
        let message = waiting.message.as_deref().unwrap_or_default();
        match reason {
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
                return Some(format!("its image {} can't be had ({reason}: {message})", container.image));
            }
            "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
                return Some(format!("its container can't be made ({reason}: {message})"));
            }
            "CrashLoopBackOff" => {
                let ended = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
                let code = ended.map(|ended| ended.exit_code).unwrap_or_default();
                return Some(format!("it ends again and again, with exit code {code}"));
            }
            _ => {}
        }
    }
    let conditions = status.conditions.iter().flatten();
    conditions
        .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
        .find_map(|condition| condition.message.as_ref().map(|why| format!("no node takes it: {why}")))
}

/// Whether it is what a container runtime says of an image.
pub(crate) fn is_of_image(pod: &Pod) -> bool {
    of(pod).is_some_and(|why| why.starts_with("its image "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_pass_by_itself_is_told() {
        let with = |state: serde_json::Value| -> Pod {
            serde_json::from_value(json!({"metadata": {}, "status": {"containerStatuses": [{
                "name": "x", "image": "reg/x:1", "imageID": "", "ready": false, "restartCount": 3, "state": state,
                "lastState": {"terminated": {"exitCode": 2}},
            }]}}))
            .unwrap()
        };
        let pulled = with(json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}}));
        assert_eq!(of(&pulled).unwrap(), "its image reg/x:1 can't be had (ImagePullBackOff: no such host)");
        assert!(is_of_image(&pulled));
        let crashing = with(json!({"waiting": {"reason": "CrashLoopBackOff"}}));
        assert_eq!(of(&crashing).unwrap(), "it ends again and again, with exit code 2");
        assert_eq!(of(&with(json!({"waiting": {"reason": "ContainerCreating"}}))), None);
        assert_eq!(of(&with(json!({"running": {}}))), None);
    }
}
