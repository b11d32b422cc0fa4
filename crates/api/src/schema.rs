//! Schemas of the values that many kinds share: addresses, names, hostnames, durations. Types name them with
//! `#[schemars(schema_with = "…")]`, so that one rule and one message serve every field.
//! Lengths are bounded everywhere: Kubernetes refuses a definition whose rules could cost too much.

use schemars::{Schema, SchemaGenerator, json_schema};

const LABEL: &str = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?";

/// A string with one CEL rule.
fn text(max: u32, rule: &str, message: &str) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": max,
        "x-kubernetes-validations": [{ "rule": rule, "message": message }],
    })
}

fn set(items: Schema, max: u32) -> Schema {
    json_schema!({ "type": "array", "items": items, "maxItems": max, "x-kubernetes-list-type": "set" })
}

fn list(items: Schema, max: u32) -> Schema {
    json_schema!({ "type": "array", "items": items, "maxItems": max, "x-kubernetes-list-type": "atomic" })
}

/// One IPv4 or IPv6 address.
pub(crate) fn ip(_: &mut SchemaGenerator) -> Schema {
    text(45, "isIP(self)", "must be an IPv4 or IPv6 address, for example 192.168.100.5 or fd00:100::5")
}

/// An address that may carry the prefix length of its network.
pub(crate) fn ip_with_prefix(_: &mut SchemaGenerator) -> Schema {
    text(
        49,
        "isIP(self) || isCIDR(self)",
        "must be an IPv4 or IPv6 address, optionally with a prefix length, for example 192.168.100.5 or 192.168.100.5/24",
    )
}

/// A network.
pub(crate) fn cidr(_: &mut SchemaGenerator) -> Schema {
    text(
        49,
        "isCIDR(self) && cidr(self.substring(0, self.indexOf('/')) + (self.contains(':') ? '/128' : '/32'))\
         .containsIP(cidr(self).masked().ip())",
        "must be a network in CIDR notation with no host bits set, for example 192.168.100.0/24 or fd00:100::/64",
    )
}

/// Addresses, each with an optional prefix length, without repeats.
pub(crate) fn ip_with_prefix_set(generator: &mut SchemaGenerator) -> Schema {
    set(ip_with_prefix(generator), 16)
}

/// Addresses in order of preference.
pub(crate) fn ip_list(generator: &mut SchemaGenerator) -> Schema {
    list(ip(generator), 16)
}

/// Addresses or networks that may connect.
pub(crate) fn source_set(_: &mut SchemaGenerator) -> Schema {
    let source = text(
        49,
        "isIP(self) || isCIDR(self)",
        "must be an address or a network, for example 172.20.0.7 or 172.20.0.0/16",
    );
    set(source, 64)
}

/// Addresses and networks of clients. One at least: a list that is left out means everybody.
pub(crate) fn client_list(_: &mut SchemaGenerator) -> Schema {
    let client = text(
        49,
        "isIP(self) || isCIDR(self)",
        "must be an address or a network, for example 192.0.2.7 or 192.0.2.0/24",
    );
    let mut list = set(client, 256);
    list.insert("minItems".to_owned(), 1.into());
    list
}

/// An amount of bytes.
pub(crate) fn size(_: &mut SchemaGenerator) -> Schema {
    text(
        20,
        "self.matches('^[0-9]*[1-9][0-9]*(Ki|Mi|Gi)?$')",
        "must be a number of bytes above 0, optionally with a unit, for example 512Ki or 16Mi",
    )
}

/// Statuses of errors, without repeats.
pub(crate) fn error_statuses(_: &mut SchemaGenerator) -> Schema {
    let mut list = set(json_schema!({ "type": "integer", "minimum": 400, "maximum": 599 }), 200);
    list.insert("minItems".to_owned(), 1.into());
    list
}

/// The group of what policies are for.
pub(crate) fn gateway_group(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["gateway.networking.k8s.io"] })
}

/// The kinds that policies are for.
pub(crate) fn policy_target_kind(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["Gateway", "ListenerSet", "HTTPRoute", "GRPCRoute"] })
}

/// Upstream resolvers in order of preference.
pub(crate) fn resolver_list(_: &mut SchemaGenerator) -> Schema {
    let bare = "self.replace('tls://', '')";
    let rule = format!(
        "isIP({bare}) || \
         ({bare}.matches('^[0-9.]+:[0-9]{{1,5}}$') && isIP({bare}.substring(0, {bare}.indexOf(':'))) && \
         int({bare}.substring({bare}.indexOf(':') + 1)) <= 65535) || \
         ({bare}.matches('^\\\\[[0-9a-fA-F:]+\\\\]:[0-9]{{1,5}}$') && isIP({bare}.substring(1, {bare}.indexOf(']'))) && \
         int({bare}.substring({bare}.indexOf(']') + 2)) <= 65535)"
    );
    let message = "must be a resolver's address, optionally with a port and tls:// in front, for example 10.0.0.53, \
                   10.0.0.53:5353, [fd00::53]:53 or tls://9.9.9.9";
    list(text(64, &rule, message), 16)
}

/// A DNS name, one label or more.
pub(crate) fn hostname(_: &mut SchemaGenerator) -> Schema {
    text(
        253,
        &format!("self.matches('^({LABEL}([.]|$))+$') && !self.endsWith('.') && !isIP(self)"),
        "must be a lower-case DNS name without a wildcard, for example api.cluster.example.com",
    )
}

/// DNS names in order.
pub(crate) fn hostname_list(generator: &mut SchemaGenerator) -> Schema {
    list(hostname(generator), 8)
}

/// A DNS name whose first label may be `*`.
pub(crate) fn wildcard_hostname(_: &mut SchemaGenerator) -> Schema {
    text(
        253,
        &format!("self.matches('^([*][.])?({LABEL}([.]|$))+$') && !self.endsWith('.') && !isIP(self)"),
        "must be a lower-case DNS name, a wildcard only as its whole first label, for example api.example.com or *.apps.example.com",
    )
}

/// The same as a pattern and not as a rule: these stand in long lists and in lists within them, where what rules may cost
/// is soon used up, and patterns cost nothing. The last label is not of digits alone, which would be an address.
pub(crate) fn server_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 253,
        "pattern": format!(
            "^([*][.])?({LABEL}[.])*([0-9]*[a-z]([-a-z0-9]*[a-z0-9])?|[0-9]+-[-a-z0-9]*[a-z0-9])$"
        ),
    })
}

/// Such names without repeats.
pub(crate) fn server_name_set(generator: &mut SchemaGenerator) -> Schema {
    set(server_name(generator), 8)
}

/// DNS names, each of which may be a wildcard, without repeats.
pub(crate) fn wildcard_hostname_set(generator: &mut SchemaGenerator) -> Schema {
    set(wildcard_hostname(generator), 8)
}

/// A name as people write it, a wildcard too. Its normal form is made, and checked, where it is used: no pattern can tell whether
/// an international name is one.
pub(crate) fn written_hostname(_: &mut SchemaGenerator) -> Schema {
    text(
        254,
        "self.matches('^([*][.])?[^.*/:@\\\\s]+([.][^.*/:@\\\\s]+)+[.]?$') && !isIP(self)",
        "must be a DNS name of at least two labels, a wildcard only as its whole first label, without scheme, port or path, for \
         example shop.example.com or *.apps.example.com",
    )
}

/// Such names without repeats.
pub(crate) fn written_hostnames(generator: &mut SchemaGenerator) -> Schema {
    set(written_hostname(generator), 16)
}

/// A name or an address.
pub(crate) fn hostname_or_ip(_: &mut SchemaGenerator) -> Schema {
    text(
        253,
        &format!("isIP(self) || self.matches('^{LABEL}([.]{LABEL})*$')"),
        "must be an address or a Service's DNS name, for example 10.96.0.20 or my-proxy.clusters.svc.cluster.local",
    )
}

/// DNS names of a container on its network, without repeats. They reach a runtime's command line and API.
pub(crate) fn alias_set(_: &mut SchemaGenerator) -> Schema {
    let rule = format!("self.matches('^{LABEL}([.]{LABEL})*$')");
    let message = "must be a lower-case DNS name without commas or spaces, for example host-services";
    set(text(253, &rule, message), 32)
}

/// A name that is one DNS label: a namespace, a Service, an entry of a list.
pub(crate) fn label(_: &mut SchemaGenerator) -> Schema {
    text(
        63,
        &format!("self.matches('^{LABEL}$')"),
        "must be at most 63 lower-case letters, digits and dashes, starting and ending with a letter or digit",
    )
}

/// The name of an object.
pub(crate) fn object_name(_: &mut SchemaGenerator) -> Schema {
    text(
        253,
        &format!("self.matches('^{LABEL}([.]{LABEL})*$')"),
        "must be the name of an object: lower-case letters, digits, dashes and dots",
    )
}

/// The name of an object, with its namespace in front where that differs.
pub(crate) fn object_path(_: &mut SchemaGenerator) -> Schema {
    text(
        317,
        &format!("self.matches('^({LABEL}/)?{LABEL}([.]{LABEL})*$')"),
        "must be the name of an object, or NAMESPACE/NAME",
    )
}

/// A length of time.
pub(crate) fn duration(_: &mut SchemaGenerator) -> Schema {
    timed("1s")
}

/// A length of time of at least a minute.
pub(crate) fn lease_duration(_: &mut SchemaGenerator) -> Schema {
    timed("1m")
}

fn timed(least: &str) -> Schema {
    text(
        32,
        &format!(
            "self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('{least}')"
        ),
        &format!("must be a duration of at least {least}, for example 90s, 30m or 1h30m"),
    )
}

/// The address of a collector of spans.
pub(crate) fn collector(_: &mut SchemaGenerator) -> Schema {
    text(
        253,
        "self.matches('^http://([a-zA-Z0-9.-]+|\\\\[[0-9a-fA-F:.]+\\\\])(:[0-9]{1,5})?(/[-a-zA-Z0-9._~/]*)?$')",
        "must be the address of a collector in clear text, for example http://collector.monitoring:4318",
    )
}

/// A container image.
pub(crate) fn image(_: &mut SchemaGenerator) -> Schema {
    text(
        512,
        "self.matches('^[a-zA-Z0-9][-a-zA-Z0-9._/:@]*$')",
        "must be an image reference, for example registry.example.com/team/image:1.2.3",
    )
}

/// A port by number or by name. The numbers bound an integer, length and pattern a string.
pub(crate) fn port_or_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "minimum": 1,
        "maximum": 65535,
        "maxLength": 15,
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    })
}

/// Texts by name.
pub(crate) fn text_map(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": { "type": "string", "maxLength": 4096 }, "maxProperties": 64 })
}

/// Amounts by name, as `500m`, `256Mi` or a number.
pub(crate) fn quantity_map(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": "^[0-9]+([.][0-9]+)?([eE][0-9]+|[numkMGTPE]|[KMGTPE]i)?$",
        },
    })
}

/// Secrets by their names.
pub(crate) fn secret_references(_: &mut SchemaGenerator) -> Schema {
    let name = described_text(253, "Name of the Secret.");
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "items": { "type": "object", "required": ["name"], "properties": { "name": name } },
    })
}

/// Tolerations, as in a Pod.
pub(crate) fn tolerations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "items": { "type": "object", "properties": {
            "key": described_text(316, "Key of the taint; without one, every taint."),
            "operator": described_text(16, "Exists, or Equal, which is the default."),
            "value": described_text(63, "Value of the taint, with Equal."),
            "effect": described_text(32, "NoSchedule, PreferNoSchedule or NoExecute; without one, each of them."),
            "tolerationSeconds": {
                "type": "integer", "format": "int64",
                "description": "How long a pod stays on a node that gets a taint with NoExecute.",
            },
        } },
    })
}

fn described_text(max: u32, description: &str) -> Schema {
    json_schema!({ "type": "string", "maxLength": max, "description": description })
}

/// How pods are spread, each an object as in a Pod.
pub(crate) fn spread_constraints(generator: &mut SchemaGenerator) -> Schema {
    list(free_object(generator), 16)
}

/// Objects of any shape.
pub(crate) fn free_objects(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": free_object(generator) })
}

/// An object of any shape.
pub(crate) fn free_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}
