//! The container runtime behind an object: the one that its controller uses, asked from here where that is possible.

use causeway_api::conditions::{ConditionType, find};
use causeway_containers::{Choice, Runtime};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::finding::Finding;
use crate::parts::container_runtime::ContainerRuntimeArg;

/// The runtime, and what is to be said of it.
///
/// The control plane's word counts: with a runtime that it can't reach nothing works, whoever else can. Without an answer
/// here, what is in the runtime is not looked at.
pub(super) async fn runtime(
    wanted: &ContainerRuntimeArg,
    conditions: &[Condition],
) -> (Option<Runtime>, Finding) {
    let condition = find(conditions, ConditionType::RuntimeAvailable);
    if let Some(condition) = condition.filter(|condition| condition.status == "False") {
        return (
            None,
            Finding::bad("no container runtime answers the control plane", condition.message.clone()),
        );
    }
    let choice = match (wanted.choice(), condition) {
        (Some(Choice::Auto), Some(condition)) => socket(&condition.message).unwrap_or(Choice::Auto),
        (Some(choice), _) => choice,
        (None, _) => return (None, Finding::skipped("the container runtime was not asked")),
    };
    match Runtime::connect(&choice).await {
        Ok(runtime) => {
            let said = format!("{} answers on {}", runtime.kind(), runtime.socket().display());
            (Some(runtime), Finding::good(said))
        }
        Err(error) => {
            (None, Finding::skipped(format!("the container runtime can't be asked from here: {error}")))
        }
    }
}

/// The socket that the control plane uses, of which its condition speaks (`Docker at SOCKET answers`).
fn socket(message: &str) -> Option<Choice> {
    let socket = message.split_once(" at ")?.1.strip_suffix(" answers")?;
    Some(Choice::Socket(socket.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_planes_own_runtime_is_asked() {
        assert_eq!(socket("Docker at /run/x.sock answers"), Some(Choice::Socket("/run/x.sock".into())));
        assert_eq!(socket("looking for a container runtime"), None);
    }
}
