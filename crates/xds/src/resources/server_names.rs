//! Which filter chain takes a connection: by transport, then by server name. Names are matched by Envoy's domain
//! matcher: an exact name before a wildcard, a longer wildcard before a shorter one, as in our engine. Names stay
//! out of the filter chains, so that a new name does not drain the connections of its route.

use causeway_ir::Listener;
use causeway_ir::server_name::Pattern;
use envoy_types::pb::envoy::extensions::matching::common_inputs::network::v3::{
    ServerNameInput, TransportProtocolInput,
};
use envoy_types::pb::google::protobuf::{Any, StringValue};
use envoy_types::pb::xds::core::v3::TypedExtensionConfig;
use envoy_types::pb::xds::r#type::matcher::v3::Matcher;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_tree::{MatchMap, TreeType};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{MatcherTree, MatcherType, OnMatch, on_match};
use envoy_types::util::pack_any;

use crate::wire::field;

const DOMAINS: &str = "type.googleapis.com/xds.type.matcher.v3.ServerNameMatcher";

/// The names of the chains that the outcomes of a listener become.
pub const NO_SERVER_NAME: &str = "(no server name)";
pub const UNKNOWN_SERVER_NAME: &str = "(unknown server name)";
pub const PLAINTEXT: &str = "(plaintext)";

/// The matcher of a listener that sniffs TLS.
pub fn matcher(listener: &Listener) -> Matcher {
    let by_name = tree(
        extension("server_name", pack_any(ServerNameInput {})),
        TreeType::CustomMatch(extension("envoy.matching.custom_matchers.domain_matcher", domains(listener))),
        chain(NO_SERVER_NAME),
    );
    let by_name =
        OnMatch { on_match: Some(on_match::OnMatch::Matcher(Box::new(by_name))), ..OnMatch::default() };
    tree(
        extension("transport_protocol", pack_any(TransportProtocolInput {})),
        TreeType::ExactMatchMap(MatchMap { map: [("tls".to_owned(), by_name)].into() }),
        chain(PLAINTEXT),
    )
}

fn tree(input: TypedExtensionConfig, tree_type: TreeType, otherwise: OnMatch) -> Matcher {
    Matcher {
        on_no_match: Some(Box::new(otherwise)),
        matcher_type: Some(MatcherType::MatcherTree(MatcherTree {
            input: Some(input),
            tree_type: Some(tree_type),
        })),
    }
}

/// `ServerNameMatcher`: the names of each route and its chain; `*` is every other name.
fn domains(listener: &Listener) -> Any {
    let group = |names: Vec<String>, chain_name: &str| {
        let mut body: Vec<u8> = names.iter().flat_map(|name| field(1, name.as_bytes())).collect();
        body.extend(field(2, &pack_any(chain(chain_name)).value));
        field(1, &body)
    };
    let mut value: Vec<u8> = Vec::new();
    for route in &listener.routes {
        let names = route.server_names.iter().filter_map(|name| Pattern::parse(name).ok());
        value.extend(group(names.map(|pattern| pattern.text()).collect(), &route.name));
    }
    value.extend(group(vec!["*".to_owned()], UNKNOWN_SERVER_NAME));
    Any { type_url: DOMAINS.to_owned(), value }
}

/// The action that takes a chain.
fn chain(name: &str) -> OnMatch {
    let action = extension("filter_chain", pack_any(StringValue { value: name.to_owned() }));
    OnMatch { on_match: Some(on_match::OnMatch::Action(action)), ..OnMatch::default() }
}

pub fn extension(name: &str, config: Any) -> TypedExtensionConfig {
    TypedExtensionConfig { name: name.to_owned(), typed_config: Some(config) }
}
