//! What the status of every object says, made of what was found out about it.

mod gateway;
mod listeners;
mod policies;
mod routes;
mod traffic;

pub(super) use gateway::{standing, status as gateway_status};
pub(super) use listeners::set_status;
pub(super) use policies::policy_statuses;
pub(super) use routes::route_status;
pub(super) use traffic::traffic_statuses;
