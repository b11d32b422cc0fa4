//! References to certificates and authorities: whether they may be used, and what is there. That a reference is not
//! permitted is said also where nothing is there, so that nobody learns what other namespaces have.

use std::cell::RefCell;
use std::sync::Arc;

use causeway_ir::{CertificateRef, Name};
use k8s_openapi::jiff::Timestamp;

use super::certificates::{Authorities, check_size};
use super::kinds::ObjectRef;
use super::picture::{Bundle, Certificate, References};
use super::world::World;
use crate::grants::{self, Target, Users};
use crate::naming::name;
use crate::references::{CertificateAuthorityRef, SecretRef};

/// Why a reference leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wrong {
    /// To something of another kind.
    Kind(String),
    /// No grant lets it.
    NotPermitted(String),
    /// Nothing is there, or nothing good.
    Missing(String),
}

impl Wrong {
    /// For people.
    pub(super) fn message(&self) -> &str {
        let (Self::Kind(message) | Self::NotPermitted(message) | Self::Missing(message)) = self;
        message
    }
}

/// Where references are looked up, and remembered.
pub(super) struct Lookup<'a> {
    pub(super) world: &'a World,
    pub(super) now: Timestamp,
    pub(super) references: RefCell<References>,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(world: &'a World, now: Timestamp) -> Self {
        Self { world, now, references: RefCell::default() }
    }

    /// The certificate with key that a Secret has, with its name in a plan.
    pub(super) fn certificate(
        &self,
        users: Users<'_>,
        reference: &SecretRef,
    ) -> Result<(Name, Certificate), Wrong> {
        let kind = reference.kind.as_deref().unwrap_or("Secret");
        let group = reference.group.as_deref().unwrap_or_default();
        if kind != "Secret" || !group.is_empty() {
            return Err(Wrong::Kind(format!("{kind} {} is no Secret: name one", reference.name)));
        }
        let at = self.permitted(users, "Secret", reference.namespace.as_deref(), &reference.name)?;
        self.references.borrow_mut().secrets.insert(at.clone());
        let Some(pair) = self.world.secrets.get(&at) else {
            return Err(Wrong::Missing(format!(
                "there is no Secret {at}: create it, or correct the reference"
            )));
        };
        if let Err(problem) = &pair.checked {
            return Err(Wrong::Missing(format!("Secret {at} {problem}")));
        }
        Ok((name(&at.to_string()), Certificate { secret: at, pair: Arc::clone(pair) }))
    }

    /// The authorities that these references name together, with their name in a plan, and what is wrong with any of them.
    /// Without one good reference there are none.
    pub(super) fn authorities(
        &self,
        users: Users<'_>,
        references: &[CertificateAuthorityRef],
    ) -> (Option<(Name, Bundle)>, Vec<Wrong>) {
        let mut config_maps = Vec::new();
        let mut certificates = String::new();
        let mut wrong = Vec::new();
        for reference in references {
            match self.authority(users, reference) {
                Ok((at, found)) => {
                    let (before, more) = (certificates.len(), found.certificates.trim_end());
                    certificates.extend([more, "\n"]);
                    match check_size("ca.crt together with those before", &[certificates.as_bytes()]) {
                        Ok(()) => config_maps.push(at),
                        Err(problem) => {
                            certificates.truncate(before);
                            wrong.push(Wrong::Missing(format!("ConfigMap {at} {problem}")));
                        }
                    }
                }
                Err(why) => wrong.push(why),
            }
        }
        if config_maps.is_empty() {
            return (None, wrong);
        }
        let names: Vec<String> = config_maps.iter().map(ToString::to_string).collect();
        let authorities = Arc::new(Authorities { certificates, problem: None });
        (Some((name(&format!("ca/{}", names.join(" "))), Bundle { config_maps, authorities })), wrong)
    }

    fn authority(
        &self,
        users: Users<'_>,
        reference: &CertificateAuthorityRef,
    ) -> Result<(ObjectRef, &'a Authorities), Wrong> {
        let CertificateAuthorityRef { group, kind, name, namespace } = reference;
        if kind != "ConfigMap" || !group.is_empty() {
            return Err(Wrong::Kind(format!("{kind} {name} is no ConfigMap: name one")));
        }
        let at = self.permitted(users, "ConfigMap", namespace.as_deref(), name)?;
        self.references.borrow_mut().config_maps.insert(at.clone());
        let Some(found) = self.world.config_maps.get(&at) else {
            return Err(Wrong::Missing(format!(
                "there is no ConfigMap {at}: create it, or correct the reference"
            )));
        };
        match &found.problem {
            Some(problem) => Err(Wrong::Missing(format!("ConfigMap {at} {problem}"))),
            None => Ok((at, &**found)),
        }
    }

    fn permitted(
        &self,
        users: Users<'_>,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<ObjectRef, Wrong> {
        let namespace = namespace.unwrap_or(users.namespace);
        let target = Target { group: "", kind, name };
        if !self.world.grants.permit_object(users, namespace, target) {
            return Err(Wrong::NotPermitted(grants::advice_for(users, namespace, target)));
        }
        Ok(ObjectRef::new(namespace, name))
    }
}

/// How a plan names it.
pub(super) fn reference(name: &Name) -> CertificateRef {
    CertificateRef(name.clone())
}
