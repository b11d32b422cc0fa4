//! Which filter chain takes a connection: by transport, then by server name: an exact name before a wildcard, a longer
//! wildcard before a shorter one, as in our engine. Names stay out of the filter chains, so that a new name does not
//! drain the connections of its route.

use std::cmp::Reverse;
use std::collections::HashMap;

use causeway_ir::route::{NO_SERVER_NAME, PLAINTEXT, UNKNOWN_SERVER_NAME};
use causeway_ir::{Pattern, Tls};
use envoy_types::pb::envoy::extensions::matching::common_inputs::network::v3::{
    ServerNameInput, TransportProtocolInput,
};
use envoy_types::pb::xds::core::v3::TypedExtensionConfig;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::FieldMatcher;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::predicate::single_predicate;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_tree::MatchMap;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{MatcherList, MatcherType};
use envoy_types::pb::xds::r#type::matcher::v3::{
    Matcher, RegexMatcher, StringMatcher, regex_matcher, string_matcher,
};
use envoy_types::util::pack_any;

use super::matcher::{chain, extension, field_matcher, nested, tree};

/// The matcher of a listener that looks at the ClientHello.
pub(super) fn matcher(tls: &Tls) -> Matcher {
    tree(
        extension("transport_protocol", pack_any(TransportProtocolInput {})),
        MatchMap { map: [("tls".to_owned(), nested(by_name(tls)))].into() },
        chain(PLAINTEXT),
    )
}

/// Exact names by one lookup, then wildcards, the longest first, then any name at all.
fn by_name(tls: &Tls) -> Matcher {
    let mut exact = HashMap::new();
    let mut below: Vec<(&str, &str)> = Vec::new();
    for route in &tls.routes {
        for name in &route.server_names {
            match name {
                Pattern::Exact(name) => _ = exact.insert(name.clone(), chain(&route.name)),
                Pattern::Below(domain) => below.push((domain, &route.name)),
            }
        }
    }
    below.sort_by_key(|(domain, _)| Reverse(domain.len()));
    let suffixes = below
        .into_iter()
        .map(|(domain, route)| matches(string_matcher::MatchPattern::Suffix(format!(".{domain}")), route));
    let any = string_matcher::MatchPattern::SafeRegex(RegexMatcher {
        regex: ".+".to_owned(),
        engine_type: Some(regex_matcher::EngineType::GoogleRe2(regex_matcher::GoogleRe2 {})),
    });
    let matchers = suffixes.chain([matches(any, UNKNOWN_SERVER_NAME)]).collect();
    let rest = Matcher {
        on_no_match: Some(Box::new(chain(NO_SERVER_NAME))),
        matcher_type: Some(MatcherType::MatcherList(MatcherList { matchers })),
    };
    if exact.is_empty() { rest } else { tree(server_name(), MatchMap { map: exact }, nested(rest)) }
}

fn matches(pattern: string_matcher::MatchPattern, route: &str) -> FieldMatcher {
    let value = StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() };
    field_matcher(server_name(), single_predicate::Matcher::ValueMatch(value), chain(route))
}

fn server_name() -> TypedExtensionConfig {
    extension("server_name", pack_any(ServerNameInput {}))
}
