//! What the API server of this process answers to requests for logs: of pods from the node's files, of tunnel proxies
//! from the journals of their controller.

mod pods;
mod tunnels;

pub(super) use pods::PodLogFiles;
pub(super) use tunnels::TunnelJournals;
