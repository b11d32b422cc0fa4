//! Removing what an owner left behind when its process died before it could clean up.

use std::collections::BTreeMap;

use crate::labels::{CREATOR, INSTANCE, KIND, OWNER, PERSISTENT};
use crate::{ErrorKind, Identity, Result, Runtime};

/// What a sweep removed, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub containers: Vec<String>,
    pub networks: Vec<String>,
    /// Networks that are left over and stay, since containers use them.
    pub in_use: Vec<String>,
}

impl Runtime {
    /// Removes containers and networks of this instance, made for objects of this kind, whose owner is gone
    /// (`alive` is asked with its UID).
    ///
    /// Left alone: other instances' things, what is labelled persistent, what another living process made,
    /// and networks that are in use. What an owner that still exists had before a restart stays, to be adopted.
    ///
    /// # Errors
    /// When the runtime can't list or remove; what was removed before stays removed.
    pub async fn sweep(&self, instance: &str, kind: &str, alive: impl Fn(&str) -> bool) -> Result<Swept> {
        let mut swept = Swept::default();
        let ours = [(INSTANCE, instance), (KIND, kind)];
        for container in self.containers(&ours).await? {
            if is_left_over(&container.labels, &alive) {
                self.remove(&container.id).await?;
                swept.containers.push(container.name);
            }
        }
        for network in self.networks(&ours).await? {
            if !is_left_over(&network.labels, &alive) {
                continue;
            }
            match self.remove_network(&network.id).await {
                Ok(()) => swept.networks.push(network.name),
                Err(error) if error.kind() == ErrorKind::InUse => {
                    swept.in_use.push(network.name);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(swept)
    }
}

/// Whether what has these labels was made for an owner that is gone (`alive` is asked with its UID). What is labelled
/// persistent and what another living process made is not.
pub fn is_left_over(labels: &BTreeMap<String, String>, alive: &impl Fn(&str) -> bool) -> bool {
    if labels.get(PERSISTENT).is_some_and(|value| value == "true") {
        return false;
    }
    let made_by_another = labels
        .get(CREATOR)
        .and_then(|text| text.parse::<Identity>().ok())
        .is_some_and(|creator| creator.pid != std::process::id() as i32 && creator.is_alive());
    !made_by_another && labels.get(OWNER).is_some_and(|owner| !alive(owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn takes_only_what_a_dead_owner_left() {
        let alive = |owner: &str| owner == "living";
        assert!(is_left_over(&labels(&[(OWNER, "dead")]), &alive));
        assert!(!is_left_over(&labels(&[(OWNER, "living")]), &alive), "to be adopted");
        assert!(!is_left_over(&labels(&[]), &alive), "not made for anyone");
        assert!(!is_left_over(&labels(&[(OWNER, "dead"), (PERSISTENT, "true")]), &alive));
    }

    #[test]
    fn leaves_what_another_living_process_made() {
        let parent = Identity::of(rustix::process::getppid().unwrap().as_raw_nonzero().get()).unwrap();
        assert!(!is_left_over(&labels(&[(OWNER, "dead"), (CREATOR, &parent.to_string())]), &|_| false));
        let gone = Identity { start_time: parent.start_time + 1, ..parent };
        assert!(is_left_over(&labels(&[(OWNER, "dead"), (CREATOR, &gone.to_string())]), &|_| false));
    }
}
