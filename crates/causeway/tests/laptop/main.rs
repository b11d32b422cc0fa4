//! A developer's machine, as people use it: connect, run, intercept, env, files, and everything that goes wrong. All through the
//! real program, against `causeway up`.

#![allow(clippy::unwrap_used, clippy::panic)]

mod connections;
mod containers;
mod environment;
mod errors;
mod image;
mod intercepts;
mod runs;
mod unprivileged;
mod world;
