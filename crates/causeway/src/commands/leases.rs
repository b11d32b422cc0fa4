//! `causeway leases`: who has which address, from the file of a DHCP server, whether it runs or not.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use causeway_dhcp::{Lease, State};
use causeway_ir::dhcp::hex;
use serde::Serialize;

use crate::parts::answer::{Answer, FormatArg};
use crate::parts::paint::{Paint, Tone};
use crate::parts::table::{Cell, table};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file that the server was given with --leases.
    #[arg(value_name = "FILE", default_value = "leases", env = "CAUSEWAY_LEASES")]
    file: PathBuf,
    /// Also show addresses that nobody has any more.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    format: FormatArg,
}

/// The answer.
#[derive(Serialize)]
struct Leases {
    leases: Vec<Shown>,
    #[serde(skip)]
    now: u64,
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    lease: Lease,
    active: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let all = causeway_dhcp::read(&args.file)?.into_iter();
    let shown = all.map(|lease| Shown { active: lease.is_active(now), lease });
    let mut leases: Vec<Shown> =
        shown.filter(|shown| args.all || shown.active || shown.lease.state == State::Declined).collect();
    leases.sort_by_key(|shown| shown.lease.address);
    args.format.print(&Leases { leases, now })?;
    Ok(ExitCode::SUCCESS)
}

impl Answer for Leases {
    fn text(&self, paint: Paint) -> String {
        if self.leases.is_empty() {
            return "no leases".to_owned();
        }
        let rows = self.leases.iter().map(|Shown { lease, active }| {
            let (tone, state) = match lease.state {
                State::Leased if *active => (Tone::Good, "leased"),
                State::Leased => (Tone::Neutral, "expired"),
                State::Released => (Tone::Neutral, "released"),
                State::Declined => (Tone::Bad, "declined"),
            };
            let left = lease.until.saturating_sub(self.now);
            let left = if left == 0 {
                "-".to_owned()
            } else {
                causeway_ir::duration::format(Duration::from_secs(left))
            };
            [
                lease.address.to_string().into(),
                Cell::toned(tone, state),
                left.into(),
                hex(&lease.hardware).into(),
                lease.hostname.as_deref().unwrap_or("-").into(),
                hex(&lease.client).into(),
            ]
        });
        table(paint, ["ADDRESS", "STATE", "FOR", "HARDWARE", "NAME", "CLIENT"], rows)
    }
}
