//! Which filter chain takes a connection: by transport, then by server name: an exact name before a wildcard, a longer
//! wildcard before a shorter one, as in our engine. Names stay out of the filter chains, so that a new name does not
//! drain the connections of its route.

use std::cmp::Reverse;
use std::collections::HashMap;

use causeway_ir::Listener;
use causeway_ir::server_name::Pattern;
use envoy_types::pb::envoy::extensions::matching::common_inputs::network::v3::{
    ServerNameInput, TransportProtocolInput,
};
use envoy_types::pb::google::protobuf::{Any, StringValue};
use envoy_types::pb::xds::core::v3::TypedExtensionConfig;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::predicate::{
    MatchType, SinglePredicate, single_predicate,
};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::{FieldMatcher, Predicate};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_tree::{MatchMap, TreeType};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{
    MatcherList, MatcherTree, MatcherType, OnMatch, on_match,
};
use envoy_types::pb::xds::r#type::matcher::v3::{
    Matcher, RegexMatcher, StringMatcher, regex_matcher, string_matcher,
};
use envoy_types::util::pack_any;

/// The names of the chains that the outcomes of a listener become.
pub const NO_SERVER_NAME: &str = "(no server name)";
pub const UNKNOWN_SERVER_NAME: &str = "(unknown server name)";
pub const PLAINTEXT: &str = "(plaintext)";

/// The matcher of a listener that sniffs TLS.
pub fn matcher(listener: &Listener) -> Matcher {
    tree(
        extension("transport_protocol", pack_any(TransportProtocolInput {})),
        MatchMap { map: [("tls".to_owned(), nested(by_name(listener)))].into() },
        chain(PLAINTEXT),
    )
}

/// Exact names by one lookup, then wildcards, the longest first, then any name at all.
fn by_name(listener: &Listener) -> Matcher {
    let mut exact = HashMap::new();
    let mut below: Vec<(String, &str)> = Vec::new();
    for route in &listener.routes {
        for name in &route.server_names {
            match Pattern::parse(name) {
                Ok(Pattern::Exact(name)) => _ = exact.insert(name, chain(&route.name)),
                Ok(Pattern::Below(domain)) => below.push((domain, &route.name)),
                Err(_) => {}
            }
        }
    }
    below.sort_by_key(|(domain, _)| Reverse(domain.len()));
    let suffixes = below.into_iter().map(|(domain, route)| {
        field_matcher(string_matcher::MatchPattern::Suffix(format!(".{domain}")), route)
    });
    let any = string_matcher::MatchPattern::SafeRegex(RegexMatcher {
        regex: ".+".to_owned(),
        engine_type: Some(regex_matcher::EngineType::GoogleRe2(regex_matcher::GoogleRe2 {})),
    });
    let matchers = suffixes.chain([field_matcher(any, UNKNOWN_SERVER_NAME)]).collect();
    let rest = Matcher {
        on_no_match: Some(Box::new(chain(NO_SERVER_NAME))),
        matcher_type: Some(MatcherType::MatcherList(MatcherList { matchers })),
    };
    if exact.is_empty() { rest } else { tree(server_name(), MatchMap { map: exact }, nested(rest)) }
}

fn tree(input: TypedExtensionConfig, map: MatchMap, otherwise: OnMatch) -> Matcher {
    Matcher {
        on_no_match: Some(Box::new(otherwise)),
        matcher_type: Some(MatcherType::MatcherTree(MatcherTree {
            input: Some(input),
            tree_type: Some(TreeType::ExactMatchMap(map)),
        })),
    }
}

fn field_matcher(pattern: string_matcher::MatchPattern, route: &str) -> FieldMatcher {
    let value = StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() };
    let predicate = SinglePredicate {
        input: Some(server_name()),
        matcher: Some(single_predicate::Matcher::ValueMatch(value)),
    };
    FieldMatcher {
        predicate: Some(Predicate { match_type: Some(MatchType::SinglePredicate(predicate)) }),
        on_match: Some(chain(route)),
    }
}

fn server_name() -> TypedExtensionConfig {
    extension("server_name", pack_any(ServerNameInput {}))
}

fn nested(matcher: Matcher) -> OnMatch {
    OnMatch { on_match: Some(on_match::OnMatch::Matcher(Box::new(matcher))), ..OnMatch::default() }
}

/// The action that takes a chain.
fn chain(name: &str) -> OnMatch {
    let action = extension("filter_chain", pack_any(StringValue { value: name.to_owned() }));
    OnMatch { on_match: Some(on_match::OnMatch::Action(action)), ..OnMatch::default() }
}

pub fn extension(name: &str, config: Any) -> TypedExtensionConfig {
    TypedExtensionConfig { name: name.to_owned(), typed_config: Some(config) }
}
