//! VIPs that were held through the grace period until a renewal, and whose claims are not read yet.
//!
//! Only after the reads does the program get the new lease deadline. Until then it still gives way.

use std::{collections::BTreeSet, net::IpAddr};

/// The VIPs in doubt, and those that turned out to be held by this node.
#[derive(Default, Debug)]
pub(crate) struct Doubt {
    doubted: BTreeSet<IpAddr>,
    /// VIPs to be announced when no doubt is left.
    cleared: Vec<IpAddr>,
}

impl Doubt {
    pub(crate) fn begin(&mut self, vip: IpAddr) {
        self.doubted.insert(vip);
    }

    /// Settles a VIP: its claim names this node, or this node has given it
    /// up. Returns true if that was the last doubt.
    pub(crate) fn end(&mut self, vip: IpAddr, is_held: bool) -> bool {
        if !self.doubted.remove(&vip) {
            return false;
        }
        self.cleared.extend(is_held.then_some(vip));
        self.doubted.is_empty()
    }

    pub(crate) fn is_about(&self, vip: IpAddr) -> bool {
        self.doubted.contains(&vip)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.doubted.is_empty()
    }

    pub(crate) fn vips(&self) -> impl Iterator<Item = IpAddr> {
        self.doubted.iter().copied()
    }

    /// Returns the VIPs to announce.
    pub(crate) fn take_cleared(&mut self) -> Vec<IpAddr> {
        std::mem::take(&mut self.cleared)
    }
}
