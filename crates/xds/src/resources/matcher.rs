//! Matchers, which choose a filter chain or a route: the pieces that trees of them are built from.

use envoy_types::pb::envoy::config::core::v3::CidrRange;
use envoy_types::pb::envoy::extensions::matching::common_inputs::network::v3::{
    DirectSourceIpInput, SourceIpInput,
};
use envoy_types::pb::envoy::extensions::matching::input_matchers::ip::v3::Ip;
use envoy_types::pb::google::protobuf::{Any, StringValue};
use envoy_types::pb::xds::core::v3::TypedExtensionConfig;
use envoy_types::pb::xds::r#type::matcher::v3::Matcher;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::predicate::{
    MatchType, SinglePredicate, single_predicate,
};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::{FieldMatcher, Predicate};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_tree::{MatchMap, TreeType};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{
    MatcherList, MatcherTree, MatcherType, OnMatch, on_match,
};
use envoy_types::util::pack_any;
use ipnet::IpNet;

use super::number;

/// Whose address is asked for.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// The client, which a PROXY protocol header may have named.
    Client,
    /// The other end of the connection.
    Peer,
}

/// Lets these sources on to `inner`; the others match nothing. An empty list is everybody.
pub(super) fn only(source: Source, networks: &[IpNet], inner: OnMatch) -> OnMatch {
    if networks.is_empty() {
        return inner;
    }
    let input = match source {
        Source::Client => extension("source_ip", pack_any(SourceIpInput {})),
        Source::Peer => extension("direct_source_ip", pack_any(DirectSourceIpInput {})),
    };
    let ranges = networks.iter().map(|network| CidrRange {
        address_prefix: network.network().to_string(),
        prefix_len: Some(number(network.prefix_len().into())),
    });
    let ip = Ip { cidr_ranges: ranges.collect(), stat_prefix: "sources".into() };
    let custom = extension("envoy.matching.matchers.ip", pack_any(ip));
    let matchers = vec![field_matcher(input, single_predicate::Matcher::CustomMatch(custom), inner)];
    nested(Matcher {
        on_no_match: None,
        matcher_type: Some(MatcherType::MatcherList(MatcherList { matchers })),
    })
}

/// One lookup of what `input` gives.
pub(super) fn tree(input: TypedExtensionConfig, map: MatchMap, otherwise: OnMatch) -> Matcher {
    Matcher {
        on_no_match: Some(Box::new(otherwise)),
        matcher_type: Some(MatcherType::MatcherTree(MatcherTree {
            input: Some(input),
            tree_type: Some(TreeType::ExactMatchMap(map)),
        })),
    }
}

/// One test of what `input` gives.
pub(super) fn field_matcher(
    input: TypedExtensionConfig,
    matcher: single_predicate::Matcher,
    on_match: OnMatch,
) -> FieldMatcher {
    let predicate = SinglePredicate { input: Some(input), matcher: Some(matcher) };
    FieldMatcher {
        predicate: Some(Predicate { match_type: Some(MatchType::SinglePredicate(predicate)) }),
        on_match: Some(on_match),
    }
}

/// Goes on with another matcher.
pub(super) fn nested(matcher: Matcher) -> OnMatch {
    OnMatch { on_match: Some(on_match::OnMatch::Matcher(Box::new(matcher))), ..OnMatch::default() }
}

/// Takes a filter chain.
pub(super) fn chain(name: &str) -> OnMatch {
    action(extension("filter_chain", pack_any(StringValue { value: name.to_owned() })))
}

/// Ends with an action.
pub(super) fn action(action: TypedExtensionConfig) -> OnMatch {
    OnMatch { on_match: Some(on_match::OnMatch::Action(action)), ..OnMatch::default() }
}

/// Whether anything is matched, and not the same done always.
pub(super) fn is_matcher(on_match: &OnMatch) -> bool {
    matches!(on_match.on_match, Some(on_match::OnMatch::Matcher(_)))
}

/// The matcher that comes to this.
pub(super) fn root(on_match: OnMatch) -> Matcher {
    match on_match.on_match {
        Some(on_match::OnMatch::Matcher(matcher)) => *matcher,
        _ => Matcher { on_no_match: Some(Box::new(on_match)), matcher_type: None },
    }
}

pub(super) fn extension(name: &str, config: Any) -> TypedExtensionConfig {
    TypedExtensionConfig { name: name.to_owned(), typed_config: Some(config) }
}
