//! The difference between answering and silent VIPs, with the reason for the silence.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use vipward_common::{DeadlineState, Role};

use crate::{base::schema, host::net::InterfaceFault};

#[cfg(test)]
mod tests;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Held,
    /// This node answers with its successor's MAC.
    Handover,
    /// This node has the VIP, and does not answer for it.
    Silent(Silence),
    Foreign,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Silence {
    LeaseDeadline,
    Interface(InterfaceFault),
}

impl Part {
    pub const NAMES: [&'static str; 4] = [
        Self::Held.name(),
        Self::Handover.name(),
        Self::Silent(Silence::LeaseDeadline).name(),
        Self::Foreign.name(),
    ];

    /// Returns the part of an entry with this role. `trouble` is the fault of its interface.
    pub fn of(role: Role, lease_deadline: DeadlineState, trouble: Option<InterfaceFault>) -> Self {
        let answers = match role {
            Role::Held => Self::Held,
            Role::Handover => Self::Handover,
            Role::Foreign => return Self::Foreign,
        };
        if lease_deadline == DeadlineState::Over {
            return Self::Silent(Silence::LeaseDeadline);
        }
        trouble
            .filter(|trouble| trouble.silences(role))
            .map_or(answers, |trouble| Self::Silent(Silence::Interface(trouble)))
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => Role::Held.name(),
            Self::Handover => Role::Handover.name(),
            Self::Silent(_) => "silent",
            Self::Foreign => Role::Foreign.name(),
        }
    }

    pub const fn silence(self) -> Option<Silence> {
        match self {
            Self::Silent(why) => Some(why),
            Self::Held | Self::Handover | Self::Foreign => None,
        }
    }

    pub const fn is_ours(self) -> bool {
        match self {
            Self::Held | Self::Handover | Self::Silent(_) => true,
            Self::Foreign => false,
        }
    }

    pub const fn is_answering(self) -> bool {
        match self {
            Self::Held | Self::Handover => true,
            Self::Silent(_) | Self::Foreign => false,
        }
    }
}

/// The keys of a [`Part`] in JSON.
#[derive(Serialize, JsonSchema)]
pub struct PartKeys {
    /// What this node does for the VIP: it answers with its own MAC; it answers with its
    /// successor's MAC; it has the VIP and does not answer; another node has it.
    #[schemars(schema_with = "roles")]
    role: &'static str,
    /// True while requests for it are answered.
    answering: bool,
    /// Why not, or `null` unless it is `silent`.
    #[schemars(schema_with = "silence_or_null")]
    silent_because: Option<&'static str>,
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keys = PartKeys {
            role: self.name(),
            answering: self.is_answering(),
            silent_because: self.silence().map(Silence::name),
        };
        keys.serialize(serializer)
    }
}

impl Silence {
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeaseDeadline => "the lease deadline has passed",
            Self::Interface(trouble) => trouble.name(),
        }
    }
}

pub(crate) fn roles(_: &mut SchemaGenerator) -> Schema {
    schema::names(Part::NAMES)
}

pub(crate) fn role_or_null(generator: &mut SchemaGenerator) -> Schema {
    schema::or_null(roles(generator))
}

pub(crate) fn silence_or_null(_: &mut SchemaGenerator) -> Schema {
    let faults = InterfaceFault::ALL.map(InterfaceFault::name);
    schema::or_null(schema::names([Silence::LeaseDeadline.name()].into_iter().chain(faults)))
}
