//! The `InterceptRequest` that a command line asks for: its name, its spec, and whether one that is there already is the same.

use causeway_api::{HealthCheckTarget, InterceptMode, InterceptRequest, InterceptRequestSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use serde_json::json;

use crate::parts::connection::Settings;
use crate::parts::refusal;
use crate::parts::target::{TargetName, TargetPort};

/// Who writes requests on the command line.
const MANAGER: &str = "causeway-intercept";
/// The longest name that also fits where names of children come from it.
const LONGEST: usize = 63;

/// `LOCAL:TARGET`, or one port for both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PortPair {
    /// None is the same number as the target's.
    pub(super) local: Option<u16>,
    pub(super) target: IntOrString,
}

impl std::str::FromStr for PortPair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const WRITE: &str = "write LOCAL:TARGET, for example 8080:http or 3000:80, or one port for both";
        let number = |text: &str| text.parse::<u16>().ok().filter(|number| *number > 0);
        let target = |text: &str| match number(text) {
            Some(number) => Some(IntOrString::Int(number.into())),
            None if text.bytes().any(|byte| byte.is_ascii_alphabetic()) && !text.contains([':', '/']) => {
                Some(IntOrString::String(text.to_owned()))
            }
            None => None,
        };
        let bad = || format!("`{text}` is no pair of ports: {WRITE}");
        match text.split_once(':') {
            Some((local, there)) => {
                let local = number(local).ok_or_else(bad)?;
                Ok(Self { local: Some(local), target: target(there).ok_or_else(bad)? })
            }
            None => Ok(Self { local: None, target: target(text).ok_or_else(bad)? }),
        }
    }
}

/// What is asked for.
pub(super) struct Wanted<'a> {
    pub(super) target: &'a TargetName,
    pub(super) port: &'a TargetPort,
    pub(super) local: u16,
    /// Another address than this machine's own.
    pub(super) address: Option<std::net::IpAddr>,
    /// Namespace of the target.
    pub(super) namespace: &'a str,
    pub(super) connection: &'a Settings,
    pub(super) matches: Vec<causeway_api::HttpMatch>,
    pub(super) mirror: bool,
    pub(super) mode: InterceptMode,
    pub(super) health_checks: HealthCheckTarget,
    pub(super) fallback: bool,
    pub(super) ttl: Option<String>,
    pub(super) name: Option<String>,
}

impl Wanted<'_> {
    /// The name that was asked for, or one that says what it is.
    pub(super) fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            let text = format!("{}-{}-{}", self.target.name, self.port.number, self.connection.workstation)
                .to_lowercase();
            let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
            let text: String = text.chars().map(|letter| if plain(letter) { letter } else { '-' }).collect();
            shortened(&text)
        })
    }

    pub(super) fn spec(&self) -> InterceptRequestSpec {
        let Settings { namespace, workstation, .. } = self.connection;
        InterceptRequestSpec {
            target: Some(self.target.to_string()),
            target_container: Some(self.port.container.clone()),
            target_container_port: IntOrString::Int(self.port.number),
            workstation: if namespace == self.namespace {
                workstation.clone()
            } else {
                format!("{namespace}/{workstation}")
            },
            destination_port: self.local,
            destination_ip: self.address.map(|address| address.to_string()),
            mode: self.mode,
            matches: self.matches.clone(),
            mirror: self.mirror,
            health_checks: self.health_checks,
            fallback: self.fallback,
            ttl: self.ttl.clone(),
            ..InterceptRequestSpec::default()
        }
    }
}

/// The text as a name: cut, with what makes it unlike others of the same beginning.
fn shortened(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    // FNV: the same today and tomorrow, which the standard library's hash does not promise.
    let digest =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{}-{digest:08x}", text[..LONGEST - 9].trim_end_matches('-'))
}

/// How the request came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    New,
    Changed,
    /// It was there as it is wanted.
    Found,
}

/// Makes the request, or changes the one of this name as far as that can be.
///
/// # Errors
/// When the API server refuses it, with what to do.
pub(super) async fn apply(
    api: &Api<InterceptRequest>,
    name: &str,
    spec: &InterceptRequestSpec,
) -> anyhow::Result<(InterceptRequest, Made)> {
    let refused =
        |error: &kube::Error| anyhow::anyhow!("the intercept is refused: {}", refusal::advice(error));
    let there = api.get_opt(name).await.map_err(|error| refused(&error))?;
    let Some(there) = there else {
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let request = InterceptRequest { metadata, spec: spec.clone(), status: None };
        let made = api.create(&params, &request).await.map_err(|error| refused(&error))?;
        return Ok((made, Made::New));
    };
    if there.metadata.deletion_timestamp.is_some() {
        anyhow::bail!(
            "intercept {name} is just being removed: try again once `causeway intercepts` no longer has it"
        );
    }
    if there.spec == *spec {
        return Ok((there, Made::Found));
    }
    if there.spec.workstation != spec.workstation {
        anyhow::bail!(
            "{name} is the intercept of workstation {}: choose another name with --name",
            there.spec.workstation
        );
    }
    if !is_same_place(&there.spec, spec) {
        anyhow::bail!(
            "there is an intercept {name} of another target, port or mode: leave it first with `causeway leave {name}`, or \
             choose another name with --name"
        );
    }
    // Written as a whole: what was left out this time is taken away.
    let patch = json!({"spec": whole(spec)?});
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let changed = api.patch(name, &params, &Patch::Merge(patch)).await.map_err(|error| refused(&error))?;
    Ok((changed, Made::Changed))
}

/// Whether one can become the other by an edit.
fn is_same_place(one: &InterceptRequestSpec, other: &InterceptRequestSpec) -> bool {
    let place = |spec: &InterceptRequestSpec| {
        (
            spec.target.clone(),
            spec.target_pod.clone(),
            spec.target_container.clone(),
            spec.target_container_port.clone(),
            spec.mode,
        )
    };
    place(one) == place(other)
}

/// The spec with every field that may be left out, so that a merge takes away what it does not have.
fn whole(spec: &InterceptRequestSpec) -> serde_json::Result<serde_json::Value> {
    let mut value = serde_json::to_value(spec)?;
    if let Some(fields) = value.as_object_mut() {
        for name in ["match", "ttl", "destinationIP"] {
            fields.entry(name).or_insert(serde_json::Value::Null);
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::kube_context::Place;

    fn settings(namespace: &str) -> Settings {
        Settings {
            place: Place { kubeconfig: Vec::new(), context: "lab".to_owned() },
            server: "https://x".to_owned(),
            namespace: namespace.to_owned(),
            workstation: "alice.laptop".to_owned(),
            uid: "u".to_owned(),
            ways: Vec::new(),
            proxy: None,
        }
    }

    #[test]
    fn pairs_of_ports() {
        for (text, local, target) in [
            ("8080:http", Some(8080), IntOrString::String("http".into())),
            ("3000:80", Some(3000), IntOrString::Int(80)),
            ("8080", None, IntOrString::Int(8080)),
            ("http", None, IntOrString::String("http".into())),
        ] {
            assert_eq!(text.parse::<PortPair>().unwrap(), PortPair { local, target }, "{text}");
        }
        for text in ["", ":", "http:8080", "0:80", "80:0", "70000", "1:2:3", "a/b"] {
            let error = text.parse::<PortPair>().unwrap_err();
            assert!(error.contains("8080:http"), "{text}: {error}");
        }
    }

    #[test]
    fn a_request_says_what_the_command_line_says() {
        let target: TargetName = "deploy/web".parse().unwrap();
        let port = TargetPort {
            container: "app".to_owned(),
            name: Some("http".to_owned()),
            number: 80,
            protocol: "TCP".to_owned(),
        };
        let (same, other) = (settings("shop"), settings("lab"));
        let wanted = |connection| Wanted {
            target: &target,
            port: &port,
            local: 8080,
            address: None,
            namespace: "shop",
            connection,
            matches: Vec::new(),
            mirror: false,
            mode: InterceptMode::Service,
            health_checks: HealthCheckTarget::Original,
            fallback: true,
            ttl: Some("1h".to_owned()),
            name: None,
        };
        assert_eq!(wanted(&same).name(), "web-80-alice-laptop");
        let spec = wanted(&same).spec();
        assert_eq!(
            (spec.target.as_deref(), spec.workstation.as_str()),
            (Some("deployment/web"), "alice.laptop")
        );
        assert_eq!(spec.target_container_port, IntOrString::Int(80));
        assert_eq!(wanted(&other).spec().workstation, "lab/alice.laptop");
        let whole = whole(&spec).unwrap();
        assert!(whole["match"].is_null() && whole.get("match").is_some() && whole["ttl"] == "1h", "{whole}");
        assert!(is_same_place(&spec, &InterceptRequestSpec { ttl: None, ..spec.clone() }));
        assert!(!is_same_place(
            &spec,
            &InterceptRequestSpec { mode: InterceptMode::Container, ..spec.clone() }
        ));
    }

    #[test]
    fn long_names_are_cut_and_stay_different() {
        let (one, other) = (shortened(&("a".repeat(80) + "1")), shortened(&("a".repeat(80) + "2")));
        assert!(one.len() <= LONGEST && one != other, "{one} {other}");
        assert_eq!(shortened("web-80-me"), "web-80-me");
    }
}
