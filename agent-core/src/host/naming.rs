//! Finds the interface that a user names: by its name, an alternative name, or its MAC.

use vipward_common::MacAddr;

use super::{
    interfaces::master_of,
    net::{Interface, NetView},
};
use crate::base::{address, pattern::InterfacePattern};

#[cfg(test)]
mod tests;

impl Interface {
    /// Returns its name and its alternative names. The kernel lets no two interfaces share one.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        [&self.name].into_iter().chain(&self.altnames).map(String::as_str)
    }

    /// Returns its name for a list from which users choose, with its alternative names.
    pub(crate) fn listed(&self) -> String {
        match &*self.altnames {
            [] => self.name.clone(),
            altnames => format!("{} (also {})", self.name, altnames.join(", ")),
        }
    }
}

impl NetView {
    /// Returns the interface that a user names: by its name, by an alternative name, or by a MAC that no
    /// other interface has.
    pub fn named(&self, name: &str) -> Option<&Interface> {
        let by_name = self.interfaces.values().find(|interface| interface.names().any(|it| it == name));
        by_name.or_else(|| self.only_with(address::mac(name)?))
    }

    /// Returns true if a user's pattern names an interface. A glob may match an alternative name.
    pub(crate) fn matches(&self, pattern: &InterfacePattern, interface: &Interface) -> bool {
        let is_its =
            |mac| interface.mac == mac && self.only_with(mac).is_some_and(|it| it.index == interface.index);
        pattern.mac().map_or_else(|| interface.names().any(|name| pattern.matches(name)), is_its)
    }

    fn only_with(&self, mac: MacAddr) -> Option<&Interface> {
        if let [interface] = *self.with_mac(mac) { Some(interface) } else { None }
    }

    /// Returns the interfaces that a MAC names.
    ///
    /// Several devices of one card have its MAC. Its frames belong to the lowest of them that speaks for
    /// itself: none whose frames are tagged or sorted below (VLAN, macvlan), not even through its ports,
    /// and no port of a bond or bridge that has the MAC.
    pub(crate) fn with_mac(&self, mac: MacAddr) -> Vec<&Interface> {
        let having = || self.interfaces.values().filter(|it| it.mac == mac && !it.loopback);
        let has_it = |index: u32| self.interfaces.get(&index).is_some_and(|it| it.mac == mac);
        let is_above = |index: u32| self.interfaces.get(&index).and_then(|it| it.lower).is_some_and(has_it);
        let is_lowest = |it: &&Interface| {
            let is_port = master_of(self, it).is_some_and(has_it);
            !is_port && !is_above(it.index) && !self.path(it.index).into_iter().any(is_above)
        };
        having().filter(is_lowest).collect()
    }
}
