//! Our own DNS server, with zones that are kept in memory.

use std::sync::Mutex;

use causeway_providers::dns::{Kind, Progress, Records};
use causeway_providers::local::{Dns, Shelf, Stored};
use causeway_providers::{Error, Name};
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};

use crate::{behaves, name};

struct Memory(Mutex<(Stored, u64)>);

impl Shelf for &Memory {
    fn load<'a>(&'a self, domain: &'a Name) -> BoxFuture<'a, Result<(Stored, String), Error>> {
        if *domain != name("lab.test") {
            let error = Error::ZoneNotFound { zone: domain.to_string(), at: "memory".into() };
            return ready(Err(error)).boxed();
        }
        let (stored, version) = self.0.lock().unwrap().clone();
        ready(Ok((stored, version.to_string()))).boxed()
    }

    fn save<'a>(
        &'a self,
        _domain: &'a Name,
        stored: &'a Stored,
        version: &'a str,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        let mut kept = self.0.lock().unwrap();
        let is_current = kept.1.to_string() == version;
        if is_current {
            *kept = (stored.clone(), kept.1 + 1);
        }
        ready(Ok(is_current)).boxed()
    }

    fn served<'a>(&'a self, _: &'a Name, _: &'a Stored) -> BoxFuture<'a, Result<Progress, Error>> {
        ready(Ok(Progress::Settled)).boxed()
    }
}

#[tokio::test]
async fn does_what_every_provider_does() {
    let mut stored = Stored::default();
    let foreign = stored.names.entry(name("foreign.lab.test")).or_default();
    foreign.records.insert(Kind::A, Records::A(["192.0.2.77".parse().unwrap()].into(), 60));
    let memory = Memory(Mutex::new((stored, 0)));
    let dns = |instance: &str| Dns::new(instance.into(), &memory);
    behaves(&dns("one"), &dns("two"), false).await;
    let kept = memory.0.lock().unwrap().0.clone();
    assert_eq!(kept.names.len(), 1, "{kept:?}");
    let text = serde_json::to_string(&kept).unwrap();
    assert_eq!(serde_json::from_str::<Stored>(&text).unwrap(), kept, "it is kept as text");
}
