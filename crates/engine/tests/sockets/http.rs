//! Requests.

mod answers;
mod backend;
mod changes;
mod corpus;
mod endpoints;
mod forwarding;
mod secured;
mod smuggling;
mod tunnels;
