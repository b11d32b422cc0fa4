//! One address of an object, and what is known of the pod that has it.

use std::net::{IpAddr, SocketAddr};

use causeway_api::{ReplicaStatus, ServerReplica, conditions::Reason};
use causeway_translate::proxy::bare_address;

use super::{DeploymentState, PodState};

/// What a pod says of itself, whatever its kind.
pub(crate) trait Said {
    fn pod(&self) -> &str;
    fn observed_generation(&self) -> Option<i64>;
    fn running_generation(&self) -> Option<i64>;
    fn address(&self) -> Option<&str>;
    fn serving(&self) -> bool;
    fn listening(&self) -> &[String];
    fn attached(&self) -> Option<bool>;
    fn refused(&self) -> Option<&String>;
    fn trouble(&self) -> Option<&String>;
}

macro_rules! said {
    ($kind:ty) => {
        impl Said for $kind {
            fn pod(&self) -> &str {
                &self.name
            }

            fn observed_generation(&self) -> Option<i64> {
                self.observed_generation
            }

            fn running_generation(&self) -> Option<i64> {
                self.running_generation
            }

            fn address(&self) -> Option<&str> {
                self.address.as_deref()
            }

            fn serving(&self) -> bool {
                self.serving
            }

            fn listening(&self) -> &[String] {
                &self.listening
            }

            fn attached(&self) -> Option<bool> {
                self.attached
            }

            fn refused(&self) -> Option<&String> {
                self.refused.as_ref()
            }

            fn trouble(&self) -> Option<&String> {
                self.trouble.as_ref()
            }
        }
    };
}

said!(ReplicaStatus);
said!(ServerReplica);

/// Whether a pod serves this generation, or a newer one, and none refuses it.
pub(crate) fn is_taken<R: Said>(reports: &[R], generation: Option<i64>) -> bool {
    reports.iter().any(|said| said.serving() && said.observed_generation() >= generation)
        && reports.iter().all(|said| said.refused().is_none())
}

/// The addresses on the isolated network at which pods serve by their own word.
pub(crate) fn serving_addresses<R: Said>(reports: &[R]) -> Vec<IpAddr> {
    let serving = reports.iter().filter(|said| said.serving() && said.attached() == Some(true));
    serving.filter_map(|said| bare_address(said.address()?)).collect()
}

/// Whether a pod has shown that it serves: if the newest spec is refused, then an earlier one.
pub(crate) fn has_served<R: Said>(reports: &[R], pod: &str) -> bool {
    reports.iter().any(|said| {
        let serves = said.serving() || said.refused().is_some();
        said.pod() == pod && serves && said.trouble().is_none() && said.attached() != Some(false)
    })
}

/// One address of an object, and what is known of its pod.
pub(crate) struct Replica<'a, R> {
    /// Name of its Deployment.
    pub(crate) name: String,
    /// Its Deployment's number, counted from 0.
    pub(crate) index: usize,
    /// None on the pod network only.
    pub(crate) address: Option<String>,
    pod: Option<&'a str>,
    trouble: Option<&'a str>,
    pub(crate) report: Option<&'a R>,
}

impl<'a, R: Said> Replica<'a, R> {
    /// The replica of this Deployment, by those of `pods` and `reports` that are its.
    pub(crate) fn new(
        (index, name): (usize, String),
        address: Option<String>,
        pods: &'a [PodState],
        reports: &'a [R],
    ) -> Self {
        let pods = pods.iter().filter(|pod| pod.index == index && !pod.is_leaving);
        let report_of = |name: &str| reports.iter().find(|said| said.pod() == name);
        // While one pod replaces another both may be there: one that serves counts, or else one that reports.
        let pod = pods.max_by_key(|pod| report_of(&pod.name).map(Said::serving));
        Self {
            name,
            index,
            address,
            pod: pod.map(|pod| pod.name.as_str()),
            trouble: pod.and_then(|pod| pod.trouble.as_deref()),
            report: pod.and_then(|pod| report_of(&pod.name)),
        }
    }

    pub(crate) fn pod_name(&self) -> &str {
        self.pod.unwrap_or(&self.name)
    }

    /// Whether it took this generation of the spec.
    pub(crate) fn has_taken(&self, generation: i64) -> bool {
        self.report.is_some_and(|said| {
            said.observed_generation() >= Some(generation)
                && said.refused().is_none()
                && (said.serving() || said.trouble().is_some())
        })
    }

    /// Why it does not take this generation. Of a spec that was mended since, or of a process that has ended, it is no longer
    /// true.
    pub(crate) fn refuses(&self, generation: i64) -> Option<String> {
        let said = self.report.filter(|said| said.observed_generation() >= Some(generation))?;
        let why = said.refused().filter(|_| self.trouble.is_none())?;
        let of = said.running_generation().map(|running| format!(", that of generation {running}"));
        let of = of.unwrap_or_default();
        Some(format!("pod {} stays with its last good configuration{of}: {why}", self.pod_name()))
    }

    /// Whether it serves some generation of the spec, and nothing is in its way.
    pub(crate) fn serves(&self, deployments: &[DeploymentState]) -> bool {
        let is_available = deployments.iter().any(|state| state.index == self.index && state.is_available);
        let serves = self.report.is_some_and(|said| said.serving() && said.trouble().is_none());
        is_available && serves && self.listens() && self.trouble.is_none()
    }

    /// What keeps it from its work; `idle` is what a pod does that does nothing yet.
    pub(crate) fn waits_for(
        &self,
        deployments: &[DeploymentState],
        generation: i64,
        idle: &str,
    ) -> Option<(Reason, String)> {
        let name = &self.name;
        let starting = |message: String| Some((Reason::PodsStarting, message));
        let Some(deployment) = deployments.iter().find(|state| state.index == self.index) else {
            return Some((Reason::Progressing, format!("Deployment {name} is being made")));
        };
        if let Some(trouble) = self.trouble {
            return Some((Reason::PodsFailing, format!("pod {}: {trouble}", self.pod_name())));
        }
        if let (Some(refused), None) = (&deployment.refused, self.report) {
            return Some((Reason::PodsRefused, format!("Deployment {name} gets no pod: {refused}")));
        }
        let Some(pod) = self.pod else {
            return starting(format!("Deployment {name} has no pod yet"));
        };
        let Some(said) = self.report else {
            return starting(format!("pod {pod} has not reported yet"));
        };
        if let Some(trouble) = said.trouble() {
            return Some((Reason::NotReady, format!("pod {pod}: {trouble}")));
        }
        if said.observed_generation() < Some(generation) {
            let message = format!("pod {pod} has not read the latest change of the spec yet");
            return Some((Reason::Progressing, message));
        }
        if let Some(address) = &self.address
            && said.attached() != Some(false)
            && !self.listens()
        {
            return Some((Reason::Progressing, format!("pod {pod} does not listen on {address} yet")));
        }
        if !said.serving() {
            return Some((Reason::Progressing, format!("pod {pod} {idle} yet")));
        }
        (!deployment.is_available)
            .then(|| (Reason::PodsStarting, format!("Deployment {name} is not available yet")))
    }

    /// Whether it listens on its address of the spec, if it has one: one that is to be replaced may have an earlier one.
    fn listens(&self) -> bool {
        let Some(address) = &self.address else { return true };
        let address = bare_address(address);
        let listening = self.report.map_or(&[][..], Said::listening);
        let listening = listening.iter().filter_map(|text| text.parse::<SocketAddr>().ok());
        listening.map(|at| at.ip()).any(|ip| Some(ip) == address)
    }
}
