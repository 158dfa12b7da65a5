//! Where a pool's addresses may be announced, by its object.

use super::{PoolFault, PoolFaultKind};
use crate::{
    base::pattern::InterfacePattern,
    records::{Allowance, Preference, Selector, SelectorError},
};

/// Where a pool's addresses may be announced, as its object describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AnnounceRecord {
    /// A selector for the nodes, as text.
    pub nodes: Option<Box<str>>,
    /// The names of interfaces, or globs over them.
    pub interfaces: Vec<Box<str>>,
    /// A selector for the nodes that come first, as text.
    pub preferred: Option<Box<str>>,
}

impl Allowance {
    /// Reads a record. A field with a fault stays as it was, so that a typing error takes no VIP away.
    pub(super) fn update(&mut self, record: &AnnounceRecord, faults: &mut Vec<PoolFault>) {
        let mut note = |field: &str, why: PoolFaultKind| {
            faults.push(PoolFault { field: format!("announce.{field}"), why });
        };
        match selector(record.nodes.as_deref()) {
            Ok(nodes) => self.nodes = nodes.into_iter().collect(),
            Err(why) => note("nodeSelector", why.into()),
        }
        match selector(record.preferred.as_deref()) {
            Ok(preferred) => {
                self.preferred = preferred.into_iter().map(|nodes| Preference { weight: 1, nodes }).collect();
            }
            Err(why) => note("preferredNodes", why.into()),
        }
        let mut interfaces = Vec::new();
        for (position, text) in record.interfaces.iter().enumerate() {
            match text.trim().parse::<InterfacePattern>() {
                Ok(pattern) => interfaces.push(pattern),
                Err(why) => note(&format!("interfaces[{position}]"), why.into()),
            }
        }
        // A list without one of its patterns could take a VIP from its interface.
        if interfaces.len() == record.interfaces.len() {
            self.interfaces = interfaces;
        }
    }
}

fn selector(text: Option<&str>) -> Result<Option<Selector>, SelectorError> {
    text.map(str::parse).transpose()
}
