//! `--require-grants`: whether a backend in another namespace needs that namespace's consent, for the operator and for
//! the proxies that it starts.

/// The flag; flatten it into a command's arguments.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct GrantsArg {
    /// A backend of a ProxyServer in another namespace needs a ReferenceGrant there. Without, whoever may create a
    /// ProxyServer may use it to reach every Service.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "true|false")]
    pub(crate) require_grants: bool,
}
