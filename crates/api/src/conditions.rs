//! Conditions: the closed sets of types and reasons, and the one function that writes them.
//! Controllers never build a `Condition` by hand, so that transition times and order stay true.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold; reason and message say why.
    False,
    /// Nobody could find out yet.
    Unknown,
}

impl Status {
    /// As Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Status {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// Declares an enum whose variants are written exactly as named.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $word:ident,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$doc])* $word,)* }

        impl $name {
            /// Every value, in order of declaration.
            pub const ALL: &[Self] = &[$(Self::$word,)*];

            /// The stable text in the API.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$word => stringify!($word),)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// What a condition is about. `Ready` sums up and is true only when traffic would pass.
    ConditionType {
        /// The summary: traffic would pass.
        Ready,
        /// The spec makes sense.
        Accepted,
        /// The wanted state runs.
        Programmed,
        /// Everything the spec names was found.
        ResolvedRefs,
        /// An engine took the configuration.
        ConfigurationValid,
        /// Every backend has a Service with ready endpoints.
        BackendsResolved,
        /// The pod is attached to the secondary network.
        NetworkAttached,
        /// It is known which clients are to be served.
        ClientsKnown,
        /// Every pod is of the form that is asked for.
        UpToDate,
        /// The DHCP server of an `Infra`.
        DHCPReady,
        /// The DNS server of an `Infra`.
        DNSReady,
        /// The proxy of an `Infra`.
        ProxyReady,
        /// A container runtime answers.
        RuntimeAvailable,
        /// The tunnel client's image exists.
        ImageBuilt,
        /// Both ends of a link talk to each other.
        LinkUp,
        /// Every tunnel carries traffic.
        TunnelsReady,
        /// The developer's machine is connected.
        Connected,
        /// The target was taken over.
        Installed,
        /// The hostname belongs to this request.
        Claimed,
        /// A certificate was asked for.
        CertificateRequested,
        /// The records that prove ownership exist.
        DnsValidated,
        /// The certificate was issued.
        CertificateIssued,
        /// A gateway listens for the hostname.
        ListenerAttached,
        /// The hostname points at the gateway.
        DnsAliasReady,
        /// Cleaning up before the object goes.
        Deleting,
    }
}

words! {
    /// Why a condition is as it is.
    Reason {
        /// Everything was reconciled.
        ReconciliationSucceeded,
        /// An API call failed; it is tried again.
        ReconciliationFailed,
        /// Work is under way.
        Progressing,
        /// Accepted as written.
        Accepted,
        /// The spec is wrong; the message names the field and what to write.
        InvalidSpec,
        /// Another object already holds what this one asks for.
        Conflict,
        /// Components are not ready yet.
        ComponentsNotReady,
        /// A component could not be applied.
        ComponentFailed,
        /// The component is not wanted.
        ComponentDisabled,
        /// No free address is left in the CIDR.
        AddressesExhausted,
        /// Ready.
        Ready,
        /// Not ready, and nothing more is known.
        NotReady,
        /// Pods start.
        PodsStarting,
        /// Pods fail; the message says how.
        PodsFailing,
        /// The running configuration is the wanted one.
        ConfigurationApplied,
        /// An engine refused the configuration; the last good one stays.
        ConfigurationRejected,
        /// Two names claim the same port.
        DuplicateHostname,
        /// Everything referenced exists.
        Resolved,
        /// A referenced object does not exist.
        NotFound,
        /// No grant in its namespace lets this object use what it names.
        RefNotPermitted,
        /// A Service has no ready endpoint.
        NoReadyEndpoints,
        /// The network attachment definition does not exist.
        NetworkAttachmentNotFound,
        /// Every pod is as it should be.
        UpToDate,
        /// Pods are replaced, one after another.
        RollingOut,
        /// Other objects' pods are replaced first.
        WaitingForTurn,
        /// The object's updatePolicy leaves it to its owner.
        UpdateHeld,
        /// The image that is asked for has not been pulled or does not run; what runs goes on.
        ImageNotReady,
        /// The cluster refuses to make pods; the message says why.
        PodsRefused,
        /// Attached to the network.
        Attached,
        /// Attaching failed.
        AttachmentFailed,
        /// Attached, and not reached by neighbours on the network.
        NotReached,
        /// No container runtime answers.
        RuntimeUnavailable,
        /// The image could not be run here.
        ImageUnavailable,
        /// The image is being built.
        BuildingImage,
        /// The image build failed.
        ImageBuildFailed,
        /// The container network does not exist or is not running.
        NetworkNotReady,
        /// Nobody leads to what is to be taken over.
        NoService,
        /// The workload does not exist.
        TargetNotFound,
        /// The workload has no such container.
        ContainerNotFound,
        /// The workload has no such port.
        PortNotFound,
        /// The developer's machine is not known, or can't be used.
        WorkstationNotFound,
        /// The owner of the workload or of the namespace forbids it.
        Denied,
        /// Another machine has the same key.
        KeyReused,
        /// There are as many as there may be.
        LimitReached,
        /// The target is taken over.
        Installed,
        /// What was taken over was taken back by somebody else; it is taken over again, ever more seldom.
        TakenBack,
        /// What was taken over is given back for as long as its carrier does not serve.
        CarrierNotReady,
        /// The cluster's end is being set up.
        Initializing,
        /// The cluster's end stands by.
        Standby,
        /// Traffic goes to the developer's machine.
        Intercepting,
        /// Another installation has the name of the cluster's end.
        AnotherInstance,
        /// A port of the nodes that was asked for is taken.
        NodePortBusy,
        /// A Service of the name of the cluster's end is there already, and somebody else's.
        ServiceExists,
        /// The cluster's rules or the operator's rights don't allow it.
        MissingPrivileges,
        /// The image could not be pulled so far.
        ImagePullFailed,
        /// The link is up.
        Connected,
        /// The link is down and being dialled.
        Disconnected,
        /// Its time to live ran out.
        Expired,
        /// The target is in place again.
        Restored,
        /// The target could not be restored; a person must look.
        RestoreFailed,
        /// This request holds the hostname.
        Claimed,
        /// Another request holds the hostname.
        AlreadyClaimed,
        /// The claim could not be made.
        ClaimFailed,
        /// No grant lets this namespace use the hostname.
        NotGranted,
        /// Asked for.
        Requested,
        /// Asking failed.
        RequestFailed,
        /// The validation records are not known yet.
        PendingValidationRecords,
        /// Records were written.
        RecordsCreated,
        /// A validation record could not be written.
        ValidationRecordFailed,
        /// The certificate is not issued yet.
        PendingIssuance,
        /// The certificate was issued.
        Issued,
        /// The state could not be read.
        CheckFailed,
        /// The alias record was written.
        Created,
        /// The alias record could not be written.
        AliasFailed,
        /// Validation failed.
        ValidationFailed,
        /// Cleaning up.
        DeletionInProgress,
        /// The certificate is still in use somewhere.
        WaitingForCertDetachment,
        /// Something that was made could not be removed.
        CleanupFailed,
        /// Neither a HostnameZone nor the operator's settings know the zone.
        ZoneNotFound,
        /// The namespace holds as many hostnames as the zone lets it.
        QuotaReached,
        /// The name is in DNS already, and not by this operator.
        RecordNotOwned,
        /// The provider asks to be left alone for a while.
        RateLimited,
        /// The provider failed or could not be reached.
        ProviderFailed,
        /// The gateway has no address yet.
        WaitingForAddress,
        /// No gateway has what is asked for, and none may be made.
        NoGateway,
        /// Steps before this one are not done.
        WaitingForOthers,
        /// A name below a wildcard, or a wildcard above a name, that another namespace holds.
        Shadowed,
        /// What was made has been changed or removed by somebody else; it is made again.
        DriftDetected,
    }
}

/// Sets one condition and says whether anything changed.
///
/// The transition time moves only when the status does; the list stays sorted by type; conditions of other types,
/// also foreign ones, are left alone.
pub fn set(
    conditions: &mut Vec<Condition>,
    kind: ConditionType,
    status: Status,
    reason: Reason,
    message: impl Into<String>,
    generation: i64,
    now: &Time,
) -> bool {
    let mut wanted = Condition {
        type_: kind.as_str().to_owned(),
        status: status.as_str().to_owned(),
        reason: reason.as_str().to_owned(),
        message: message.into(),
        observed_generation: Some(generation),
        last_transition_time: now.clone(),
    };
    match conditions.iter_mut().find(|c| c.type_ == wanted.type_) {
        Some(current) => {
            if current.status == wanted.status {
                wanted.last_transition_time = current.last_transition_time.clone();
            }
            if *current == wanted {
                return false;
            }
            *current = wanted;
        }
        None => conditions.push(wanted),
    }
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
    true
}

/// Removes one condition and says whether it was there.
pub fn remove(conditions: &mut Vec<Condition>, kind: ConditionType) -> bool {
    let before = conditions.len();
    conditions.retain(|c| c.type_ != kind.as_str());
    conditions.len() != before
}

/// The condition of one type.
pub fn find(conditions: &[Condition], kind: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|c| c.type_ == kind.as_str())
}

/// Whether a condition is true for this generation of the object; an older answer does not count.
pub fn is_true(conditions: &[Condition], kind: ConditionType, generation: i64) -> bool {
    find(conditions, kind).is_some_and(|c| {
        c.status == Status::True.as_str() && c.observed_generation.is_none_or(|seen| seen >= generation)
    })
}

#[cfg(test)]
mod tests;
