//! What several commands are composed of: the flags they share, and the things behind those flags.

pub(crate) mod access_log;
pub(crate) mod cluster;
pub(crate) mod container_runtime;
pub(crate) mod data_dir;
pub(crate) mod grants;
pub(crate) mod logging;
pub(crate) mod object;
pub(crate) mod open_files;
pub(crate) mod output;
pub(crate) mod own_program;
pub(crate) mod plan_file;
pub(crate) mod proxy_server;
pub(crate) mod table;
pub(crate) mod termination;
pub(crate) mod unix_socket;
