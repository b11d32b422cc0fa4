//! What is in the Secrets and ConfigMaps that something refers to. Of all others only the metadata is seen, and no key of
//! anybody else is ever asked for: a watch of metadata tells when one of them is another, and then it alone is read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use causeway_base::lock::lock;
use causeway_translate::{
    gateway::{
        World,
        certificates::{Authorities, KeyPair},
        kinds::ObjectRef,
        picture::References,
    },
    gateway_pod::keys::Keys,
};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    core::{NamespaceResourceScope, PartialObjectMeta},
    runtime::{WatchStreamExt as _, reflector, watcher},
};
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use crate::framework::{children::pace, error::Error, overseer::Changes, report::chain};

/// How long the first list may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was read of both kinds.
#[derive(Default)]
pub(crate) struct Contents {
    secrets: Glance<Secret, KeyPair>,
    config_maps: Glance<ConfigMap, Authorities>,
}

impl Contents {
    /// The watches, which have to be polled.
    pub(crate) fn watch(&self, client: &Client) -> Vec<Changes> {
        vec![self.secrets.watch(client), self.config_maps.watch(client)]
    }

    /// Puts what was read last into a world.
    pub(crate) async fn fill(&self, world: &mut World) {
        world.secrets = self.secrets.known().await;
        world.config_maps = self.config_maps.known().await;
    }

    /// Reads what is referred to and not known as it is now. Of what can't be read, what was read last counts on; what never
    /// was is there with the reason.
    ///
    /// # Errors
    /// When it is not known what there is.
    pub(crate) async fn follow(&self, client: &Client, wanted: &References) -> Result<Followed, Error> {
        let secrets = self.secrets.follow(client, &wanted.secrets, KeyPair::read, no_pair).await?;
        let config_maps =
            self.config_maps.follow(client, &wanted.config_maps, Authorities::read, no_authorities).await?;
        Ok(Followed {
            differs: secrets.differs || config_maps.differs,
            unread: Unread {
                secrets: secrets.never_read,
                config_maps: config_maps.never_read,
                failure: secrets.failure.or(config_maps.failure),
            },
        })
    }
}

/// What became of reading what is referred to.
pub(crate) struct Followed {
    /// Whether something is another than before.
    pub(crate) differs: bool,
    /// What could not be read.
    pub(crate) unread: Unread,
}

/// What is referred to and can't be read.
#[derive(Default)]
pub(crate) struct Unread {
    /// Secrets that never were read.
    secrets: BTreeSet<ObjectRef>,
    /// ConfigMaps that never were read.
    config_maps: BTreeSet<ObjectRef>,
    /// Why the first one can't be, of all.
    failure: Option<Error>,
}

impl Unread {
    /// Whether pods that are given these were given something of what never was read.
    pub(crate) fn is_in(&self, given: impl FnOnce() -> Keys) -> bool {
        if self.secrets.is_empty() && self.config_maps.is_empty() {
            return false;
        }
        let Keys { certificates, authorities } = given();
        // A name that was too long does not tell all: then it may be.
        let has = |names: &str, at: &ObjectRef| {
            names.contains('~') || names.split(' ').any(|name| name == at.to_string())
        };
        let bundles = || authorities.keys().filter_map(|name| name.strip_prefix("ca/"));
        self.secrets.iter().any(|at| certificates.keys().any(|name| has(name, at)))
            || self.config_maps.iter().any(|at| bundles().any(|names| has(names, at)))
    }

    /// The whole.
    ///
    /// # Errors
    /// When something can't be read.
    pub(crate) fn into_result(self) -> Result<(), Error> {
        self.failure.map_or(Ok(()), Err)
    }
}

/// A Secret that can't be read.
fn no_pair(why: String) -> KeyPair {
    KeyPair { certificate: Vec::new(), key: Vec::new(), checked: Err(why) }
}

/// A ConfigMap that can't be read.
fn no_authorities(why: String) -> Authorities {
    Authorities { certificates: String::new(), problem: Some(why) }
}

/// The version of what could not be read: no object has it.
const NEVER_READ: &str = "";

/// What became of reading objects of one kind.
#[derive(Default)]
struct Glanced {
    differs: bool,
    never_read: BTreeSet<ObjectRef>,
    failure: Option<Error>,
}

type Store<K> = reflector::Store<PartialObjectMeta<K>>;

/// The metadata of all objects of a kind, and what is in some.
struct Glance<K: Resource<DynamicType = ()> + 'static, T> {
    /// Made anew for each term.
    store: std::sync::Mutex<Option<Store<K>>>,
    /// Those that something refers to.
    wanted: Arc<std::sync::Mutex<BTreeSet<ObjectRef>>>,
    /// By the version that was read; [`NEVER_READ`] for what could not be.
    known: Mutex<BTreeMap<ObjectRef, (String, Arc<T>)>>,
}

impl<K: Resource<DynamicType = ()> + 'static, T> Default for Glance<K, T> {
    fn default() -> Self {
        Self { store: std::sync::Mutex::default(), wanted: Arc::default(), known: Mutex::default() }
    }
}

impl<K, T: PartialEq> Glance<K, T>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    fn watch(&self, client: &Client) -> Changes {
        let (store, writer) = reflector::store::<PartialObjectMeta<K>>();
        *lock(&self.store) = Some(store);
        let api = Api::<PartialObjectMeta<K>>::all(client.clone());
        let wanted = Arc::clone(&self.wanted);
        watcher(api, watcher::Config::default())
            .backoff(pace())
            .modify(|object| {
                object.metadata.managed_fields = None;
                object.metadata.annotations = None;
                object.metadata.labels = None;
            })
            .reflect(writer)
            .touched_objects()
            .filter_map(move |item| {
                let at = |object: &PartialObjectMeta<K>| {
                    ObjectRef::new(object.namespace().unwrap_or_default(), object.name_any())
                };
                let is_wanted = item.as_ref().is_ok_and(|object| lock(&wanted).contains(&at(object)));
                std::future::ready((is_wanted || item.is_err()).then(|| item.map(drop)))
            })
            .boxed()
    }

    async fn known(&self) -> BTreeMap<ObjectRef, Arc<T>> {
        let known = self.known.lock().await;
        known.iter().map(|(at, (_, content))| (at.clone(), Arc::clone(content))).collect()
    }

    async fn follow(
        &self,
        client: &Client,
        wanted: &BTreeSet<ObjectRef>,
        read: fn(&K) -> T,
        unreadable: fn(String) -> T,
    ) -> Result<Glanced, Error> {
        let store = lock(&self.store).clone();
        let kind = if K::kind(&()) == "Secret" { "Secret" } else { "ConfigMap" };
        let not_synced = Error::NotSynced { kind, seconds: PATIENCE.as_secs() };
        let Some(store) = store else { return Err(not_synced) };
        match tokio::time::timeout(PATIENCE, store.wait_until_ready()).await {
            Ok(Ok(())) => {}
            _ => return Err(not_synced),
        }
        lock(&self.wanted).clone_from(wanted);
        let mut known = self.known.lock().await;
        let mut glanced = Glanced::default();
        known.retain(|at, _| wanted.contains(at));
        for at in wanted {
            let version = store
                .get(&reflector::ObjectRef::new(&at.name).within(&at.namespace))
                .and_then(|object| object.metadata.resource_version.clone());
            let Some(version) = version else {
                glanced.differs |= known.remove(at).is_some();
                continue;
            };
            if known.get(at).is_some_and(|(read, _)| *read == version) {
                continue;
            }
            let found = Api::<K>::namespaced(client.clone(), &at.namespace).get_opt(&at.name).await;
            let found = match found {
                Ok(found) => found,
                Err(source) => {
                    let error = Error::ReadContent { kind, name: at.to_string(), source };
                    if known.get(at).is_none_or(|(read, _)| read == NEVER_READ) {
                        let content = Arc::new(unreadable(format!("can't be read: {}", chain(&error))));
                        glanced.differs |= known.get(at).is_none_or(|(_, before)| *before != content);
                        known.insert(at.clone(), (NEVER_READ.to_owned(), content));
                        glanced.never_read.insert(at.clone());
                    }
                    glanced.failure.get_or_insert(error);
                    continue;
                }
            };
            let Some(found) = found else {
                glanced.differs |= known.remove(at).is_some();
                continue;
            };
            let content = Arc::new(read(&found));
            glanced.differs |= known.get(at).is_none_or(|(_, before)| *before != content);
            // What the watch has seen: if the object is newer by now, it is read once more.
            known.insert(at.clone(), (version, content));
        }
        Ok(glanced)
    }
}

#[cfg(test)]
mod tests {
    use causeway_translate::gateway_pod::keys::Pair;

    use super::*;

    fn at(name: &str) -> ObjectRef {
        ObjectRef::new("infra".to_owned(), name.to_owned())
    }

    fn unread(secrets: &[&str], config_maps: &[&str]) -> Unread {
        let all = |names: &[&str]| names.iter().map(|name| at(name)).collect();
        Unread { secrets: all(secrets), config_maps: all(config_maps), failure: None }
    }

    fn given(certificate: &str, authorities: &str) -> Keys {
        let pair = Pair { certificate: String::new(), key: String::new() };
        Keys {
            certificates: [(certificate.to_owned(), pair)].into(),
            authorities: [(authorities.to_owned(), String::new())].into(),
        }
    }

    #[test]
    fn pods_that_were_given_nothing_of_what_never_was_read_are_not_held_back() {
        let given = || given("infra/shop", "ca/infra/one infra/two");
        assert!(!unread(&[], &[]).is_in(|| panic!("nothing has to be known for that")));
        for (secrets, config_maps, is_in) in [
            (&["shop"][..], &[][..], true),
            (&["sho", "two"], &["shop"], false),
            (&[], &["two"], true),
            (&["other"], &["one"], true),
        ] {
            assert_eq!(unread(secrets, config_maps).is_in(given), is_in, "{secrets:?} {config_maps:?}");
        }
    }

    /// As the names in a plan are where those of objects make more than 253 letters.
    #[test]
    fn a_name_that_was_cut_may_be_that_of_any_object() {
        let long = "a".repeat(253);
        let cut = |text: &str| format!("{}~0123456789abcdef", &text[..230]);
        let secret = || given(&cut(&at(&long).to_string()), "ca/infra/one");
        assert!(unread(&[&long], &[]).is_in(secret));
        assert!(!unread(&[], &[&long]).is_in(secret));
        // The last of many is not told any more.
        let names: Vec<String> = (0..40).map(|i| at(&format!("authority-{i}")).to_string()).collect();
        let bundle = || given("infra/shop", &cut(&format!("ca/{}", names.join(" "))));
        assert!(unread(&[], &["authority-39"]).is_in(bundle));
        assert!(!unread(&["authority-39"], &[]).is_in(bundle));
    }
}
