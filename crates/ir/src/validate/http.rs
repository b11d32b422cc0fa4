//! Routes of requests: hosts that two sites want, names that two routes have, targets that nobody knows.

use std::collections::HashMap;

use super::{Findings, Named};
use crate::Pattern;
use crate::http::{
    CookieLifetime, ErrorPage, Filter, Http, HttpAction, HttpRoute, HttpTarget, PathRewrite, Persistence,
    PersistenceBy, Redirect, Rewrite, list_path,
};

/// Checks the ways of requests.
pub(super) fn check(found: &mut Findings, path: &str, http: &Http, named: &Named<'_>) {
    check_hosts(found, path, http);
    if http.transparent && http.trusted_proxies.is_some() {
        let message = "who stands unseen believes nobody: leave out `trustedProxies` or `transparent`";
        found.add(format!("{path}.trustedProxies"), message);
    }
    let is_page = |name: &str| named.pages.contains_key(name);
    check_pages(found, &|| path.to_owned(), &http.error_pages, &is_page);
    let mut seen: HashMap<&str, (Option<usize>, usize)> = HashMap::new();
    let name_path = |(site, r): (Option<usize>, usize)| format!("{path}.{}[{r}].name", list_path(site));
    for (site, routes) in http.lists() {
        for (r, route) in routes.iter().enumerate() {
            if let Some(first) = seen.get(route.name.as_str()) {
                let first = name_path(*first);
                let message =
                    format!("the name `{}` is already that of {first}: names are unique", route.name);
                found.add(name_path((site, r)), message);
            } else {
                seen.insert(&route.name, (site, r));
            }
            let at = || format!("{path}.{}[{r}]", list_path(site));
            check_route(found, &at, route, |name| named.cluster(name).is_some(), is_page);
        }
    }
}

/// Every host belongs to one site, or is misdirected.
fn check_hosts(found: &mut Findings, path: &str, http: &Http) {
    let mut site_names = HashMap::with_capacity(http.sites.len());
    let mut seen: HashMap<&Pattern, String> = HashMap::new();
    for (s, site) in http.sites.iter().enumerate() {
        found.unique(&mut site_names, &site.name, s, |s| format!("{path}.sites[{s}].name"));
        if site.hosts.is_empty() {
            let message = "a site needs a host: routes for all other hosts stand in `routes`";
            found.add(format!("{path}.sites[{s}].hosts"), message);
        }
    }
    let of_sites = http.sites.iter().enumerate().flat_map(|(s, site)| {
        site.hosts.iter().enumerate().map(move |(h, host)| (format!("sites[{s}].hosts[{h}]"), host))
    });
    let elsewhere = http.misdirected.iter().enumerate().map(|(h, host)| (format!("misdirected[{h}]"), host));
    for (below, host) in of_sites.chain(elsewhere) {
        if let Some(first) = seen.get(host) {
            let message = format!("`{host}` is already at {path}.{first}: a host is served in one place");
            found.add(format!("{path}.{below}"), message);
        } else {
            seen.insert(host, below);
        }
    }
}

/// Checks one route by itself; `path` is only asked for when there is something to report.
pub(super) fn check_route(
    found: &mut Findings,
    path: &dyn Fn() -> String,
    route: &HttpRoute,
    is_cluster: impl Fn(&str) -> bool,
    is_page: impl Fn(&str) -> bool,
) {
    if let HttpAction::Forward(targets) = &route.action {
        for (t, target) in targets.as_slice().iter().enumerate() {
            if !is_cluster(&target.cluster) {
                found.unknown_cluster(format!("{}.action.forward", path()), &target.cluster);
            }
            check_target(found, &|| format!("{}.action.forward[{t}]", path()), target);
        }
    }
    if let HttpAction::Redirect(Redirect { path: Some(rewrite), .. }) = &route.action {
        check_rewrite(found, &|| format!("{}.action.redirect.path", path()), rewrite);
    }
    for (f, filter) in route.filters.iter().enumerate() {
        match filter {
            Filter::Mirror(mirror) if !is_cluster(&mirror.cluster) => {
                found.unknown_cluster(format!("{}.filters[{f}].mirror.cluster", path()), &mirror.cluster);
            }
            Filter::Rewrite(Rewrite { path: Some(rewrite), .. }) => {
                check_rewrite(found, &|| format!("{}.filters[{f}].rewrite.path", path()), rewrite);
            }
            _ => {}
        }
    }
    let policies = || format!("{}.policies", path());
    check_pages(found, &policies, &route.policies.error_pages, &is_page);
    if let Some(persistence) = &route.policies.persistence {
        check_persistence(found, &policies, persistence);
    }
}

/// What an expression's groups are put into.
fn check_rewrite(found: &mut Findings, path: &dyn Fn() -> String, rewrite: &PathRewrite) {
    let PathRewrite::Regex(rewrite) = rewrite else { return };
    if !rewrite.with.starts_with('/') || rewrite.with.contains(['?', '#', ' ']) {
        let message =
            format!("`{}` is not a path: it begins with / and has no spaces, `?` or `#`", rewrite.with);
        found.add(format!("{}.regex.with", path()), message);
    }
    if let Some(group) = rewrite.pattern.unknown_group(&rewrite.with) {
        let message = format!("the expression has no group `{group}`: write ${{1}} if a letter follows");
        found.add(format!("{}.regex.with", path()), message);
    }
}

fn check_pages(
    found: &mut Findings,
    path: &dyn Fn() -> String,
    pages: &[ErrorPage],
    is_page: &dyn Fn(&str) -> bool,
) {
    let mut seen: HashMap<u16, usize> = HashMap::new();
    for (p, page) in pages.iter().enumerate() {
        if !is_page(&page.page) {
            let message = format!("there is no page `{}`: add it to pages or correct the name", page.page);
            found.add(format!("{}.errorPages[{p}].page", path()), message);
        }
        for (s, status) in page.statuses.iter().enumerate() {
            let at = || format!("{}.errorPages[{p}].statuses[{s}]", path());
            if !(400..600).contains(status) {
                found.add(at(), format!("{status} is not the status of an error: write 400 to 599"));
            } else if let Some(first) = seen.insert(*status, p) {
                found.add(at(), format!("{status} has a page already, {}.errorPages[{first}]", path()));
            }
        }
    }
}

fn check_persistence(found: &mut Findings, path: &dyn Fn() -> String, persistence: &Persistence) {
    if persistence.lifetime == CookieLifetime::Permanent {
        let message = match (persistence.by, persistence.absolute_timeout) {
            (PersistenceBy::Header, _) => "is for cookies: leave it out",
            (PersistenceBy::Cookie, None) => "say with `absoluteTimeout` how long",
            (PersistenceBy::Cookie, Some(_)) => return,
        };
        found.add(format!("{}.persistence.lifetime", path()), message);
    }
}

/// What is done for one target alone is done with a request that has its way already.
fn check_target(found: &mut Findings, path: &dyn Fn() -> String, target: &HttpTarget) {
    for (f, filter) in target.filters.iter().enumerate() {
        let field = match filter {
            Filter::RequestHeaders(_) | Filter::ResponseHeaders(_) => continue,
            Filter::Rewrite(rewrite) => {
                if let Some(rewrite) = &rewrite.path {
                    check_rewrite(found, &|| format!("{}.filters[{f}].rewrite.path", path()), rewrite);
                }
                continue;
            }
            Filter::Mirror(_) => "mirror",
            Filter::Cors(_) => "cors",
        };
        let message = "a target changes headers, host and path of what goes to it: put this in the filters of the route";
        found.add(format!("{}.filters[{f}].{field}", path()), message);
    }
}
