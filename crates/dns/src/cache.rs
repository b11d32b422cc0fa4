//! What other resolvers answered, as long as it may be kept and some time beyond, within a bound of memory. What was not
//! asked for since the last round goes first.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex};

use causeway_base::lock::lock;
use causeway_ir::dns::Cache as Settings;

use crate::quick_hasher::QuickState;
use crate::wire::flag;
use crate::wire::query::Query;
use crate::wire::reply::Reply;

const SHARDS: usize = 64;
/// What an answer costs beside its own bytes.
const OVERHEAD: usize = 160;
/// An answer is asked for again when so much of its time is left, a tenth, if it was used since.
const PREFETCH: u64 = 10;

/// Whose answer it is: name, type, and what the client wants of signatures.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key(Arc<[u8]>);

impl Key {
    pub(crate) fn of(query: &Query<'_>) -> Self {
        let mut bytes = [0; 258];
        Self(key(query, &mut bytes).into())
    }
}

/// Writes a key without allocation.
fn key<'b>(query: &Query<'_>, bytes: &'b mut [u8; 258]) -> &'b [u8] {
    let name = query.name.as_bytes();
    bytes[..name.len()].copy_from_slice(name);
    bytes[name.len()..name.len() + 2].copy_from_slice(&query.kind.to_be_bytes());
    let checks = u8::from(query.flags & flag::CD != 0);
    bytes[name.len() + 2] = checks << 1 | u8::from(query.wants_dnssec());
    &bytes[..name.len() + 3]
}

pub(crate) struct Cache {
    shards: Vec<Mutex<Shard>>,
    spread: QuickState,
    /// Bytes for each shard.
    room: usize,
    settings: Settings,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<Arc<[u8]>, Entry, QuickState>,
    /// Every key once, the oldest first.
    order: VecDeque<Arc<[u8]>>,
    bytes: usize,
}

struct Entry {
    reply: Arc<Reply>,
    stored: u64,
    expires: u64,
    /// Until then it is better than nothing.
    gone: u64,
    /// Since the last round of those that look for room.
    used: bool,
    /// Somebody asks again already.
    refreshing: bool,
}

/// What the cache has.
pub(crate) enum Lookup<T> {
    /// Something that is still good; `refresh` if it should be asked for again now.
    Fresh {
        found: T,
        refresh: bool,
    },
    /// Something that is past its time, but better than nothing.
    Stale(Arc<Reply>),
    Nothing,
}

impl Cache {
    pub(crate) fn new(settings: &Settings) -> Self {
        let room = usize::try_from(settings.size.bytes()).unwrap_or(usize::MAX) / SHARDS;
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, spread: QuickState::default(), room, settings: settings.clone() }
    }

    fn shard(&self, key: &[u8]) -> &Mutex<Shard> {
        &self.shards[self.spread.hash_one(key) as usize % SHARDS]
    }

    /// Looks for an answer; `found` uses one that is good, with its age in seconds.
    pub(crate) fn find<T>(
        &self,
        query: &Query<'_>,
        millis: u64,
        found: impl FnOnce(&Reply, u32) -> T,
    ) -> Lookup<T> {
        let mut bytes = [0; 258];
        let key = key(query, &mut bytes);
        let mut shard = lock(self.shard(key));
        let Some(entry) = shard.entries.get_mut(key) else { return Lookup::Nothing };
        if millis < entry.expires {
            let left = entry.expires - millis;
            let hot = entry.used && left * PREFETCH < entry.expires - entry.stored;
            let refresh = hot && self.settings.prefetch && !entry.refreshing;
            entry.refreshing |= refresh;
            entry.used = true;
            // It may have been stored after the clock was read.
            let age = (millis.saturating_sub(entry.stored) / 1000) as u32;
            return Lookup::Fresh { found: found(&entry.reply, age), refresh };
        }
        if millis < entry.gone {
            return Lookup::Stale(Arc::clone(&entry.reply));
        }
        Lookup::Nothing
    }

    /// Keeps an answer for as long as it says, at most as long as the plan says.
    pub(crate) fn insert(&self, key: &Key, reply: &Arc<Reply>, millis: u64) {
        let ttl = u64::from(reply.ttl).min(self.settings.max_ttl.as_secs());
        let size = OVERHEAD + key.0.len() + reply.size();
        let mut shard = lock(self.shard(&key.0));
        if ttl == 0 || size > self.room {
            // What was kept is no longer what is answered.
            if let Some(old) = shard.entries.get_mut(&key.0) {
                (old.expires, old.gone) = (0, 0);
            }
            return;
        }
        let expires = millis + ttl * 1000;
        let gone = expires + self.settings.stale.as_millis() as u64;
        let reply = Arc::clone(reply);
        let entry = Entry { reply, stored: millis, expires, gone, used: false, refreshing: false };
        shard.bytes += size;
        if let Some(old) = shard.entries.insert(Arc::clone(&key.0), entry) {
            shard.bytes -= OVERHEAD + key.0.len() + old.reply.size();
        } else {
            shard.order.push_back(Arc::clone(&key.0));
        }
        while shard.bytes > self.room {
            shard.make_room();
        }
    }

    /// Longest time that an answer may say it is good for.
    pub(crate) fn max_ttl(&self) -> u32 {
        u32::try_from(self.settings.max_ttl.as_secs()).unwrap_or(u32::MAX)
    }

    /// Lets somebody else try to refresh an answer.
    pub(crate) fn not_refreshed(&self, key: &Key) {
        if let Some(entry) = lock(self.shard(&key.0)).entries.get_mut(&key.0) {
            entry.refreshing = false;
        }
    }

    /// Answers and bytes that are kept.
    pub(crate) fn size(&self) -> (usize, usize) {
        let shards = self.shards.iter().map(lock);
        shards.fold((0, 0), |(count, bytes), shard| (count + shard.entries.len(), bytes + shard.bytes))
    }
}

impl Shard {
    /// Removes one answer, or gives it another round.
    fn make_room(&mut self) {
        let Some(key) = self.order.pop_front() else {
            self.bytes = 0;
            return;
        };
        match self.entries.get_mut(&key) {
            Some(entry) if entry.used => {
                entry.used = false;
                self.order.push_back(key);
            }
            _ => {
                if let Some(entry) = self.entries.remove(&key) {
                    self.bytes -= OVERHEAD + key.len() + entry.reply.size();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wire::query::{Parsed, parse, tests::question};
    use crate::wire::reply::tests::reply;

    fn with_query<T>(name: &str, work: impl FnOnce(&Query<'_>) -> T) -> T {
        let packet = question(name, 1, None);
        let Parsed::Query(query) = parse(&packet) else { panic!("not read") };
        work(&query)
    }

    fn insert(cache: &Cache, name: &str, ttl: u32, millis: u64) {
        let asked = question(name, 1, None);
        let kept = Reply::read(&asked, asked.len(), &reply(&asked, asked.len(), ttl)).unwrap();
        with_query(name, |query| cache.insert(&Key::of(query), &Arc::new(kept), millis));
    }

    fn find(cache: &Cache, name: &str, millis: u64) -> Lookup<u32> {
        with_query(name, |query| cache.find(query, millis, |_, age| age))
    }

    #[test]
    fn keeps_an_answer_for_its_time_and_then_in_reserve() {
        let cache = Cache::new(&Settings { stale: Duration::from_mins(1), ..Settings::default() });
        insert(&cache, "a.test", 100, 0);
        assert!(matches!(find(&cache, "A.test", 50_900), Lookup::Fresh { found: 50, refresh: false }));
        assert!(matches!(find(&cache, "a.test", 95_000), Lookup::Fresh { refresh: true, .. }));
        assert!(matches!(find(&cache, "a.test", 95_000), Lookup::Fresh { refresh: false, .. }), "once");
        assert!(matches!(find(&cache, "a.test", 100_000), Lookup::Stale(_)));
        assert!(matches!(find(&cache, "a.test", 160_000), Lookup::Nothing));
        assert!(matches!(find(&cache, "b.test", 0), Lookup::Nothing));
        insert(&cache, "c.test", 100, 1000);
        assert!(
            matches!(find(&cache, "c.test", 999), Lookup::Fresh { found: 0, .. }),
            "stored after the clock was read"
        );
        insert(&cache, "c.test", 0, 2000);
        assert!(matches!(find(&cache, "c.test", 2000), Lookup::Nothing), "it is no longer what is answered");
        insert(&cache, "zero.test", 0, 0);
        assert!(matches!(find(&cache, "zero.test", 0), Lookup::Nothing));
        insert(&cache, "long.test", 1_000_000, 0);
        assert!(matches!(find(&cache, "long.test", 3_599_999), Lookup::Fresh { .. }));
        assert!(matches!(find(&cache, "long.test", 3_600_000), Lookup::Stale(_)), "an hour at most");
    }

    #[test]
    fn stays_within_its_bound_and_keeps_what_is_used() {
        let size = causeway_ir::Size::parse("1Mi").unwrap();
        let cache = Cache::new(&Settings { size, ..Settings::default() });
        insert(&cache, "used.test", 100, 0);
        for number in 0..20_000 {
            insert(&cache, &format!("n{number}.test"), 100, 0);
            find(&cache, "used.test", 1);
        }
        let (count, bytes) = cache.size();
        assert!(bytes <= 1 << 20 && count > 1000 && count < 6000, "{count} answers, {bytes} bytes");
        assert!(matches!(find(&cache, "used.test", 1), Lookup::Fresh { .. }));
        assert!(matches!(find(&cache, "n1.test", 1), Lookup::Nothing));
    }
}
