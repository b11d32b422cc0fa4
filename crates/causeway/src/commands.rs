//! One module per command: its arguments and what it does.

pub mod completions;
pub mod demo;
pub mod doctor;
pub mod down;
pub mod echo;
pub mod engine;
pub mod logs;
pub mod operator;
pub mod proxy;
pub mod routes;
pub mod status;
pub mod tunnel;
pub mod up;
pub mod xds;
