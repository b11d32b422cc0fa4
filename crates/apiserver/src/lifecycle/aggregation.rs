//! ClusterRoles that gather the rules of others by label show those rules as their own.

use std::sync::Arc;

use super::edit::edit;
use crate::object;
use crate::server::Server;
use crate::store::{Change, GroupResource, Key};

pub(super) fn concerns(_server: &Server, change: &Change) -> bool {
    &*change.object.key.resource.plural == "clusterroles"
}

pub(super) async fn sweep(server: Arc<Server>) -> bool {
    let mut done = true;
    for role in server.access.stale_aggregates() {
        let collection = GroupResource::new("rbac.authorization.k8s.io", "clusterroles");
        let key = Key::new(&collection, "", object::name(&role));
        let written = edit(&server, &key, |live| {
            let changed = live["rules"] != role["rules"];
            live["rules"] = role["rules"].clone();
            changed
        })
        .await;
        if let Err(error) = written {
            tracing::warn!(role = &*key.name, %error, "an aggregated role could not be brought up to date");
            done = false;
        }
    }
    done
}
