//! What a carrier proves itself with to the cluster's end. It is in a Secret that others in its namespace may read and write, so it
//! counts only if the authority has given it, and it opens only what this carrier was granted.

use causeway_link::{Identity, Role, is_due};
use causeway_translate::{
    gateway_pod::keys::{ENTRY, Keys, Pair},
    intercept::names::{AUTHORITY_KEY, CARRIER_KEY, carrier},
};
use k8s_openapi::api::core::v1::Secret;

use crate::intercepts::authority;

/// The keys that a carrier has, if they are good for a while, else others. `uid` is that of its plan's object.
pub(super) fn keys(authority: &authority::Keys, uid: &str, has: Option<&Secret>) -> Option<Keys> {
    let name = carrier(uid);
    let before = has
        .and_then(|secret| secret.data.as_ref()?.get(ENTRY))
        .and_then(|entry| Keys::read(&entry.0).ok())
        .filter(|keys| is_good(authority, &name, keys));
    before.or_else(|| {
        let identity = authority.authority.issue(Role::Dialer, &name).ok()?;
        let pair = Pair { certificate: identity.certificate().to_owned(), key: identity.key().to_owned() };
        Some(Keys {
            certificates: [(CARRIER_KEY.to_owned(), pair)].into(),
            authorities: [(AUTHORITY_KEY.to_owned(), identity.authority().to_owned())].into(),
        })
    })
}

fn is_good(authority: &authority::Keys, name: &str, keys: &Keys) -> bool {
    let identity = || {
        let pair = keys.certificates.get(CARRIER_KEY)?;
        let trusted = keys.authorities.get(AUTHORITY_KEY)?;
        Identity::from_pem(&format!("{}{}{trusted}", pair.certificate, pair.key)).ok()
    };
    let age =
        identity().and_then(|identity| authority.authority.age_of_identity(&identity, Role::Dialer, name));
    age.is_some_and(|age| !is_due(age))
}
