//! The host end of a tunnel proxy, which is a process of its own: it outlives the operator, and the next operator adopts
//! it. What both sides agree on is in [`causeway_ir::tunnel`]; the process itself is `causeway tunnel host`.

mod control;
mod ending;
mod follower;
mod program;
mod record;

pub(super) use control::Control;
pub(super) use ending::end;
use ending::end_if_idle;
pub(super) use follower::{Follower, Seen};
pub use program::HostProgram;
pub use record::Record;
