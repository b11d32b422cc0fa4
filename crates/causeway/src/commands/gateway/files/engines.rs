//! An engine for each Gateway of the files, on the addresses that it asks for or that the command was given.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use causeway_agent::Runner as _;
use causeway_base::lock::lock;
use causeway_engine::{AccessLog, Handle, Options};
use causeway_ir::Plan;
use causeway_translate::gateway::Picture;
use causeway_translate::gateway::kinds::ObjectRef;
use causeway_translate::gateway::picture::{GatewayPicture, RequestedAddress, rebind};
use causeway_translate::gateway::world::{Address, AddressKind, Observed};
use causeway_translate::gateway_pod::keys::Keys;
use tokio::sync::watch;

use super::super::Args;
use super::admin::Shown;
use crate::parts::keys::KeyStore;
use crate::parts::native::Native;
use crate::parts::output;
use crate::parts::plan_check::in_words;
use crate::parts::session_key;
use crate::parts::traces::TracesArg;

/// Every Gateway that runs.
pub(super) struct Engines {
    listen_on: Vec<IpAddr>,
    workers: usize,
    access_log: AccessLog,
    traces: TracesArg,
    session_key: Option<[u8; 32]>,
    running: BTreeMap<ObjectRef, Running>,
    shown: Shown,
}

/// A Gateway that runs.
struct Running {
    native: Native,
    handle: Handle,
    keys: KeyStore,
    /// What its plan names.
    named: Keys,
    plan_tx: watch::Sender<Option<Arc<Plan>>>, // files → engine
    generation: i64,
    addresses: Vec<IpAddr>,
    unusable: BTreeMap<String, String>,
    /// What was last known of it.
    seen: Observed,
}

impl Engines {
    pub(super) fn new(args: &Args) -> anyhow::Result<Self> {
        Ok(Self {
            listen_on: args.listen_on.clone(),
            workers: args.workers,
            access_log: args.access_log.log(),
            traces: args.traces.clone(),
            session_key: args.session_key.as_deref().map(session_key::read).transpose()?,
            running: BTreeMap::new(),
            shown: Shown::default(),
        })
    }

    /// Those that run, for whoever shows them.
    pub(super) fn shown(&self) -> Shown {
        Arc::clone(&self.shown)
    }

    /// Runs the Gateways of a picture, and no others. What runs for one that is not accepted any more, or that is nobody's,
    /// stays as it is.
    pub(super) async fn follow(&mut self, picture: &Picture) -> anyhow::Result<()> {
        let stays = |at: &ObjectRef| picture.gateways.contains_key(at) || picture.nobodys.contains(at);
        let gone: Vec<_> = self.running.keys().filter(|at| !stays(at)).cloned().collect();
        for at in gone {
            if let Some(running) = self.running.remove(&at) {
                output::line(format_args!("Gateway {at} is gone"));
                tokio::spawn(async move { running.native.drain().await });
            }
        }
        for (at, gateway) in &picture.gateways {
            if gateway.accepted {
                self.run(at, gateway).await?;
            }
        }
        let shown = self.running.iter().map(|(at, running)| (at.to_string(), running.handle.clone()));
        *lock(&self.shown) = shown.collect();
        Ok(())
    }

    async fn run(&mut self, at: &ObjectRef, gateway: &GatewayPicture) -> anyhow::Result<()> {
        let (addresses, unusable) = self.addresses(gateway);
        let plan = Arc::new(rebind(&gateway.plan, &addresses, |_, port| port));
        if !self.running.contains_key(at) {
            let running = self.start()?;
            self.running.insert(at.clone(), running);
        }
        let Some(running) = self.running.get_mut(at) else { return Ok(()) };
        let keys = Keys::from(gateway);
        // While the plan changes, both what it names and what the last one names must be there.
        let mut both = keys.clone();
        both.extend(std::mem::replace(&mut running.named, keys));
        running.keys.replace(&both);
        running.generation = gateway.generation;
        running.addresses = addresses;
        running.unusable = unusable;
        let is_same = running.plan_tx.borrow().as_deref() == Some(&*plan);
        if !is_same {
            running.plan_tx.send_replace(Some(Arc::clone(&plan)));
            running.handle.settled(&plan).await;
            announce(at, &running.handle);
        }
        if both != running.named {
            running.keys.replace(&running.named);
        }
        Ok(())
    }

    fn start(&self) -> anyhow::Result<Running> {
        let (keys, certificates_rx) = KeyStore::new();
        let (plan_tx, plan_rx) = watch::channel(None);
        let options = Options {
            workers: self.workers,
            access_log: self.access_log.clone(),
            // Counted for each Gateway.
            spans: self.traces.start()?.map(|(spans, _)| spans),
            certificates: Some(certificates_rx),
            session_key: self.session_key,
            ..Options::default()
        };
        let native = Native::start(plan_rx, &options, Vec::new())?;
        Ok(Running {
            handle: native.handle(),
            native,
            keys,
            named: Keys::default(),
            plan_tx,
            generation: 0,
            addresses: Vec::new(),
            unusable: BTreeMap::new(),
            seen: Observed::default(),
        })
    }

    /// Where a Gateway listens, and what of its wishes can't be had.
    fn addresses(&self, gateway: &GatewayPicture) -> (Vec<IpAddr>, BTreeMap<String, String>) {
        let (mut addresses, mut unusable) = (Vec::new(), BTreeMap::new());
        for asked in &gateway.addresses {
            match asked {
                RequestedAddress::This(Address { value, .. }) => {
                    if let Ok(address) = value.parse() {
                        addresses.push(address);
                    } else {
                        let why = "a name can't be listened on: write an address of this machine";
                        unusable.insert(value.clone(), why.to_owned());
                    }
                }
                RequestedAddress::Any(_) => addresses.extend(&self.listen_on),
            }
        }
        if gateway.addresses.is_empty() {
            addresses.clone_from(&self.listen_on);
        }
        addresses.sort();
        addresses.dedup();
        (addresses, unusable)
    }

    /// How every Gateway stands.
    pub(super) fn observed(&self) -> BTreeMap<ObjectRef, Observed> {
        self.running.iter().map(|(at, running)| (at.clone(), running.observed())).collect()
    }

    /// Whether one stands otherwise than when it was last asked here: a port that was taken is free, say.
    pub(super) fn have_changed(&mut self) -> bool {
        let mut differs = false;
        for running in self.running.values_mut() {
            let now = running.observed();
            differs |= now != running.seen;
            running.seen = now;
        }
        differs
    }

    /// Lets everything that is open end.
    pub(super) async fn drain(&self) {
        futures::future::join_all(self.running.values().map(|running| running.native.drain())).await;
    }
}

impl Running {
    fn observed(&self) -> Observed {
        let status = self.handle.status();
        let wanted = self.plan_tx.borrow().clone();
        let runs = match (&status.plan, &wanted) {
            (Some(runs), Some(wanted)) => Arc::ptr_eq(runs, wanted),
            _ => false,
        };
        let refused = status.refused.as_ref().map(|(_, problems)| in_words(problems));
        let failed: Vec<String> =
            status.listeners.iter().filter_map(|listener| listener.error.clone()).collect();
        let trouble = refused.or_else(|| (!failed.is_empty()).then(|| failed.join("; ")));
        let address = |address: &IpAddr| Address { kind: AddressKind::Ip, value: address.to_string() };
        Observed {
            addresses: self.addresses.iter().map(address).collect(),
            unusable: self.unusable.clone(),
            serving: runs && trouble.is_none(),
            running_generation: (runs && trouble.is_none()).then_some(self.generation),
            trouble,
            ..Observed::default()
        }
    }
}

fn announce(at: &ObjectRef, handle: &Handle) {
    let status = handle.status();
    for listener in &status.listeners {
        match (&listener.address, &listener.error) {
            (_, Some(error)) => output::note(format_args!("causeway: Gateway {at}: {error}; trying again")),
            (Some(address), None) => {
                output::line(format_args!("Gateway {at} listening on {address}"));
            }
            (None, None) => {}
        }
    }
    if let Some((_, problems)) = &status.refused {
        output::note(format_args!(
            "causeway: Gateway {at}: the new plan is refused and the last one runs on: {}",
            in_words(problems)
        ));
    }
}
