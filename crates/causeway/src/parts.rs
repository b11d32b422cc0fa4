//! What several commands are composed of: the flags they share, and the things behind those flags.

pub(crate) mod access_log;
pub(crate) mod admin_socket;
pub(crate) mod answer;
pub(crate) mod certificates;
pub(crate) mod cluster;
pub(crate) mod connection;
pub(crate) mod container_runtime;
pub(crate) mod data_dir;
pub(crate) mod dhcp_client;
pub(crate) mod dns_question;
pub(crate) mod door;
pub(crate) mod ending;
pub(crate) mod env_format;
pub(crate) mod follow;
pub(crate) mod gateway;
pub(crate) mod grants;
pub(crate) mod installation;
pub(crate) mod keys;
pub(crate) mod kube_context;
pub(crate) mod lease_list;
pub(crate) mod logging;
pub(crate) mod native;
pub(crate) mod network_namespace;
pub(crate) mod object;
pub(crate) mod open_files;
pub(crate) mod operator_lease;
pub(crate) mod output;
pub(crate) mod own_program;
pub(crate) mod paint;
pub(crate) mod plan_check;
pub(crate) mod plan_file;
pub(crate) mod plan_pod;
pub(crate) mod pod_ports;
pub(crate) mod pod_trouble;
pub(crate) mod progress;
pub(crate) mod proxy_server;
pub(crate) mod refusal;
pub(crate) mod seen;
pub(crate) mod server_pod;
pub(crate) mod session_key;
pub(crate) mod strangers;
pub(crate) mod table;
pub(crate) mod target;
pub(crate) mod termination;
#[cfg(feature = "otlp")]
pub(crate) mod traces;
#[cfg(not(feature = "otlp"))]
#[path = "parts/no_traces.rs"]
pub(crate) mod traces;
// No test builds the program without the feature: here it is held to what is used of it.
#[cfg(all(test, feature = "otlp"))]
mod no_traces;
pub(crate) mod tunnel_figures;
pub(crate) mod unix_socket;
