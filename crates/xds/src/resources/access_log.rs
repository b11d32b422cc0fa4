//! The access log: a JSON line per connection on standard output, with the words of our engine where Envoy knows the
//! same thing.

use envoy_types::pb::envoy::config::accesslog::v3::AccessLog;
use envoy_types::pb::envoy::config::accesslog::v3::access_log::ConfigType;
use envoy_types::pb::google::protobuf::Any;

use crate::wire::{field, truth};

const TYPE: &str = "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog";

const STREAM: [(&str, &str); 14] = [
    ("time", "%START_TIME%"),
    ("client", "%DOWNSTREAM_REMOTE_ADDRESS%"),
    ("serverName", "%REQUESTED_SERVER_NAME%"),
    ("route", "%FILTER_CHAIN_NAME%"),
    ("cluster", "%UPSTREAM_CLUSTER_RAW%"),
    ("endpoint", "%UPSTREAM_HOST%"),
    ("attempts", "%UPSTREAM_REQUEST_ATTEMPT_COUNT%"),
    ("bytesUp", "%BYTES_RECEIVED%"),
    ("bytesDown", "%BYTES_SENT%"),
    ("connectMillis", "%COMMON_DURATION(US_CX_BEG:US_CX_END:ms)%"),
    ("durationMillis", "%DURATION%"),
    ("flags", "%RESPONSE_FLAGS%"),
    ("closeReason", "%CONNECTION_TERMINATION_DETAILS%"),
    ("connectFailure", "%UPSTREAM_TRANSPORT_FAILURE_REASON%"),
];

const DATAGRAM: [(&str, &str); 7] = [
    ("time", "%START_TIME%"),
    ("client", "%DOWNSTREAM_REMOTE_ADDRESS%"),
    ("cluster", "%UPSTREAM_CLUSTER_RAW%"),
    ("endpoint", "%UPSTREAM_HOST%"),
    ("bytesUp", "%BYTES_RECEIVED%"),
    ("bytesDown", "%BYTES_SENT%"),
    ("durationMillis", "%DURATION%"),
];

/// For connections.
pub(super) fn stream(listener: &str) -> AccessLog {
    log(listener, &STREAM)
}

/// For UDP sessions.
pub(super) fn datagram(listener: &str) -> AccessLog {
    log(listener, &DATAGRAM)
}

fn log(listener: &str, format: &[(&str, &str)]) -> AccessLog {
    // A name is text, not a command of the format.
    let listener = listener.replace('%', "%%");
    let entries = [("listener", listener.as_str())].into_iter().chain(format.iter().copied());
    let entry = |(key, value): (&str, &str)| {
        let value = field(3, value.as_bytes());
        field(1, &[field(1, key.as_bytes()), field(2, &value)].concat())
    };
    let json: Vec<u8> = entries.flat_map(entry).collect();
    let format = [field(2, &json), truth(3).to_vec()].concat();
    AccessLog {
        name: "envoy.access_loggers.stdout".into(),
        config_type: Some(ConfigType::TypedConfig(Any { type_url: TYPE.into(), value: field(1, &format) })),
        ..AccessLog::default()
    }
}
