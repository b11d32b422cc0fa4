//! Certificates with their keys, and authorities, as the operator writes them into the Secrets that the pods of a Gateway
//! read: an entry with a text for each Secret, so that names may be what plans call them.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::{Deserialize, Serialize};

use crate::gateway::GatewayPicture;

/// The entry of the Secret.
pub const ENTRY: &str = "certificates.json";
/// What a Secret holds, about, where there are several.
const USUAL: usize = 512 * 1024;
/// What it holds at most: it may have 1 MiB. No certificate takes as much.
const MOST: usize = 1000 * 1024;
/// So many Secrets hold everything that could ever be there.
const MOST_SECRETS: usize = 1 << 12;

/// What a plan names, by those names.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Keys {
    /// Certificates with keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub certificates: BTreeMap<String, Pair>,
    /// Certificates of authorities, PEM.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub authorities: BTreeMap<String, String>,
}

/// A certificate with its key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pair {
    /// The certificate and its chain, PEM.
    pub certificate: String,
    /// The key, PEM.
    pub key: String,
}

/// A key is nobody's to read in a log.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |names: Vec<&String>| names.into_iter().cloned().collect::<Vec<_>>();
        f.debug_struct("Keys")
            .field("certificates", &names(self.certificates.keys().collect()))
            .field("authorities", &names(self.authorities.keys().collect()))
            .finish()
    }
}

impl From<&GatewayPicture> for Keys {
    /// What the plan of a Gateway names.
    fn from(gateway: &GatewayPicture) -> Self {
        let text = |pem: &[u8]| String::from_utf8_lossy(pem).into_owned();
        let certificates = gateway.certificates.iter().map(|(name, certificate)| {
            let pair = &certificate.pair;
            (name.to_string(), Pair { certificate: text(&pair.certificate), key: text(&pair.key) })
        });
        let authorities = gateway.authorities.iter();
        let authorities =
            authorities.map(|(name, bundle)| (name.to_string(), bundle.authorities.certificates.clone()));
        Self { certificates: certificates.collect(), authorities: authorities.collect() }
    }
}

impl Keys {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.certificates.is_empty() && self.authorities.is_empty()
    }

    /// Spread over as many texts as it takes, in a way that a change of one name changes one text; none if there is nothing.
    pub fn texts(&self) -> Vec<String> {
        if self.is_empty() {
            return Vec::new();
        }
        let total: usize = self.sizes().map(|(_, size)| size).sum();
        let mut count = total.div_ceil(USUAL).max(1).next_power_of_two();
        while count < MOST_SECRETS && self.fullest(count) > MOST {
            count *= 2;
        }
        let mut spread = vec![Self::default(); count];
        for (name, pair) in &self.certificates {
            if let Some(keys) = spread.get_mut(place(name, count)) {
                keys.certificates.insert(name.clone(), pair.clone());
            }
        }
        for (name, authorities) in &self.authorities {
            if let Some(keys) = spread.get_mut(place(name, count)) {
                keys.authorities.insert(name.clone(), authorities.clone());
            }
        }
        spread.iter().map(|keys| serde_json::to_string(keys).unwrap_or_default()).collect()
    }

    /// What each name takes in a text.
    fn sizes(&self) -> impl Iterator<Item = (&str, usize)> {
        // Quotes, commas and the names of fields, and no more.
        const AROUND: usize = 64;
        let written = |text: &str| serde_json::to_string(text).map_or(usize::MAX, |text| text.len());
        let pairs = self.certificates.iter();
        let pairs = pairs.map(move |(name, pair)| {
            (name.as_str(), written(name) + written(&pair.certificate) + written(&pair.key) + AROUND)
        });
        let authorities = self.authorities.iter();
        pairs.chain(
            authorities.map(move |(name, text)| (name.as_str(), written(name) + written(text) + AROUND)),
        )
    }

    /// What the fullest of so many texts has.
    fn fullest(&self, count: usize) -> usize {
        let mut full = vec![0; count];
        for (name, size) in self.sizes() {
            if let Some(full) = full.get_mut(place(name, count)) {
                *full += size;
            }
        }
        full.into_iter().max().unwrap_or_default()
    }

    /// What is in a text.
    ///
    /// # Errors
    /// If this version does not know it.
    pub fn read(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// This and what `other` has besides.
    pub fn extend(&mut self, other: Self) {
        for (name, pair) in other.certificates {
            self.certificates.entry(name).or_insert(pair);
        }
        for (name, authorities) in other.authorities {
            self.authorities.entry(name).or_insert(authorities);
        }
    }
}

fn place(name: &str, count: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    usize::try_from(hasher.finish()).unwrap_or_default() % count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(count: usize) -> Keys {
        let pair = Pair { certificate: "c".repeat(3000), key: "k".repeat(1700) };
        Keys {
            certificates: (0..count).map(|i| (format!("shop/{i}"), pair.clone())).collect(),
            authorities: [("shop/ca".to_owned(), "a".to_owned())].into(),
        }
    }

    #[test]
    fn thousands_fit_and_one_change_is_one_secret() {
        assert!(Keys::default().texts().is_empty());
        for count in [0, 1, 3000] {
            let texts = keys(count).texts();
            assert!(texts.iter().all(|text| text.len() < 1 << 20), "{count}");
            let mut all = Keys::default();
            for text in &texts {
                all.extend(Keys::read(text.as_bytes()).unwrap());
            }
            assert_eq!(all, keys(count));
        }
        let (before, mut changed) = (keys(3000).texts(), keys(3000));
        changed.certificates.get_mut("shop/17").unwrap().key = "other".to_owned();
        let differ = changed.texts().iter().zip(&before).filter(|(a, b)| a != b).count();
        assert_eq!((differ, before.len() > 8), (1, true));
    }

    #[test]
    fn large_ones_that_would_be_together_are_not() {
        for count in 1..20 {
            let large = "a\n".repeat(500 * 1024 / 3);
            let authorities = (0..count).map(|i| (format!("shop/ca-{i}"), large.clone())).collect();
            let keys = Keys { authorities, ..Keys::default() };
            let texts = keys.texts();
            assert!(texts.iter().all(|text| text.len() < 1 << 20), "{count}");
            let full = texts.iter().filter(|text| text.len() > 10).count();
            assert!(full * 2 >= count && full <= count, "{full} of {count}");
        }
    }

    #[test]
    fn keys_are_not_shown() {
        assert!(!format!("{:?}", keys(2)).contains("kkk"));
    }
}
