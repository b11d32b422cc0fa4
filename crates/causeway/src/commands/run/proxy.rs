//! A process that can't have a network of its own sees the cluster through a proxy, if it asks its environment for one.

use crate::parts::connection::ProxyPlace;

/// The variables that most programs read.
pub(super) fn variables(proxy: &ProxyPlace) -> Vec<(String, String)> {
    let (socks, http) = (proxy.url("socks5h"), proxy.url("http"));
    let mut all = Vec::new();
    for (name, value) in [
        ("ALL_PROXY", socks.as_str()),
        ("HTTP_PROXY", &http),
        ("HTTPS_PROXY", &http),
        // Those that speak to this machine itself need no proxy.
        ("NO_PROXY", "localhost,127.0.0.1,::1"),
    ] {
        all.push((name.to_owned(), value.to_owned()));
        all.push((name.to_lowercase(), value.to_owned()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_set() {
        let proxy = ProxyPlace { address: ([127, 0, 0, 1], 1080).into(), password: None };
        let all = variables(&proxy);
        for name in ["ALL_PROXY", "all_proxy"] {
            assert!(all.contains(&(name.to_owned(), "socks5h://127.0.0.1:1080".to_owned())));
        }
        assert!(all.contains(&("https_proxy".to_owned(), "http://127.0.0.1:1080".to_owned())));
    }
}
