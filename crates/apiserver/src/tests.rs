//! The server's parts together, in one process.

mod rubbish;
mod specs;
