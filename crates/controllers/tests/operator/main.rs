//! The operator against the embedded API server, in one process and without sockets.

mod cluster;
mod infra;
mod leader;
