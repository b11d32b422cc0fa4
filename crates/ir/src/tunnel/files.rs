//! The files of a tunnel proxy's directory that the operator and the host end share. Nobody but their user may enter the
//! directory (mode 0700).

/// What to do, as JSON of [`super::TunnelPlan`]: written by the operator, followed by the host end.
pub const PLAN: &str = "plan.json";
/// The pair's authority, certificate and key: made by `causeway tunnel identity`, read by the host end.
pub const AUTHORITY: &str = "authority.pem";
/// An identity on its way into the client's container; it is gone once it is there.
pub const IDENTITY: &str = "container.pem";
/// Locked for as long as a host end runs, so that there is never a second one.
pub const LOCK: &str = "host.lock";
/// Who the host end is, written by itself.
pub const RECORD: &str = "host.json";
/// Where the host end answers.
pub const SOCKET: &str = "host.sock";
/// What the host end prints.
pub const OUTPUT: &str = "host.log";
/// What it printed before that.
pub const OLD_OUTPUT: &str = "host.log.old";
/// The uid of the object that all this is for.
pub const OWNER: &str = "owner";
