//! What several commands are composed of.

pub mod container_runtime;
pub mod data_dir;
pub mod logging;
pub mod observe;
pub mod plan_file;
pub mod pod_logs;
pub mod services;
pub mod tunnel_log;
pub mod unix_socket;
