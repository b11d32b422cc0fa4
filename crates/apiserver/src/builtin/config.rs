//! ConfigMaps, Secrets and ServiceAccounts.

use super::kind::Kind;
use super::print;
use crate::resource::Resource;

pub fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("", "v1", "ConfigMap", "configmaps")
            .short(&["cm"])
            .columns(print::CONFIG_MAP, print::config_map)
            .build(),
        Kind::new("", "v1", "Secret", "secrets")
            .selectable(&["type"])
            .columns(print::SECRET, print::secret)
            .build(),
        Kind::new("", "v1", "ServiceAccount", "serviceaccounts")
            .short(&["sa"])
            .others(&["token"])
            .columns(print::SERVICE_ACCOUNT, print::service_account)
            .build(),
    ]
}
