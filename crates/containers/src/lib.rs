//! Docker and Podman through their socket: networks, images, containers, logs and events, with typed errors.
//!
//! This is a crate so that only it sees `bollard`, and because the controllers and the node both use it.
//! It knows nothing of Kubernetes. Every call has a time limit; nothing here waits for ever except
//! [`Runtime::wait`], [`Runtime::events`] and followed logs, which is their job.

#![warn(unreachable_pub)]

mod archive;
mod build;
mod choice;
pub mod client_image;
mod connect;
mod container;
mod error;
mod events;
mod exec;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod identity;
mod image;
mod inherited;
mod instance;
pub mod labels;
mod logs;
mod network;
mod runtime;
mod sweep;

pub use archive::File;
pub use build::{Build, BuildFile, Content};
pub use choice::{Choice, ChoiceError};
pub use connect::{Tried, Unreachable};
pub use container::spec::{Attachment, ContainerSpec, Mount, PortSpec, Protocol};
pub use container::{Address, Container, ContainerId, Published, State};
pub use error::{Cause, Error, ErrorKind};
pub use events::{ContainerAction, Event, Events, NetworkAction};
pub use exec::Executed;
pub use identity::Identity;
pub use image::Image;
pub use inherited::close_inherited;
pub use instance::instance;
pub use logs::{LogLine, LogOptions, Output};
pub use network::{Attached, Network, NetworkSpec, Subnet};
pub use runtime::{Info, Kind, Limits, Runtime};
pub use sweep::{Swept, is_left_over};

/// What most calls give back.
pub type Result<T, E = Error> = std::result::Result<T, E>;
