//! What an agent gets from the API server and elsewhere.

use std::net::IpAddr;

use vipward_core::{
    ownership::Event,
    records::{NodeName, ServiceName},
    services,
};

use crate::schedule::Kind;

/// The name of an object of any kind.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    Node(NodeName),
    Vip(IpAddr),
    Service(ServiceName),
}

/// An input that waits for the agent.
#[derive(Clone, Debug)]
pub(crate) enum Incoming {
    /// An event for the engine. The index of Services gets what concerns it.
    Event(Box<Event>),
    /// Events for the index of Services.
    Services(Vec<services::Event>),
    /// A list: the objects in it, and those that are gone.
    Listed(Kind, Vec<(Key, Incoming)>),
}
