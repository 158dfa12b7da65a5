//! The VIPs whose entries could not be brought to what is wanted of them, told when that begins and when it is over.

use std::{collections::BTreeMap, net::Ipv4Addr};

use tracing::{error, info};

use super::apply::MOST_LINES;

#[cfg(test)]
mod tests;

/// What a change that failed has left in the map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Left {
    /// This node answers for the VIP nowhere.
    Silent,
    /// It answers, or that could not be read.
    Answering,
}

/// A change that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Failure {
    pub(super) left: Left,
    /// Where; none when not even that could be found out.
    pub(super) interface: Option<String>,
    pub(super) error: String,
}

/// The VIPs of which a change has failed, since a change of theirs succeeded last: how, and whether that stands. It does not
/// when something else is wanted since, which is so already. That may go back and forth, and is one trouble all the same.
#[derive(Default, Debug)]
pub(super) struct Behind(BTreeMap<Ipv4Addr, (Failure, bool)>);

impl Behind {
    /// What was left of a VIP's entry; none: it is as it is to be, as far as is known.
    pub(super) fn left(&self, vip: Ipv4Addr) -> Option<Left> {
        self.0.get(&vip).filter(|(_, stands)| *stands).map(|(failure, _)| failure.left)
    }

    /// Those that this node may still answer for, wanted or not.
    pub(super) fn answering(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.0.keys().copied().filter(|vip| self.left(*vip) == Some(Left::Answering))
    }

    /// All of them, with what failed.
    pub(super) fn all(&self) -> impl Iterator<Item = (Ipv4Addr, &Failure)> {
        self.0.iter().map(|(vip, (failure, _))| (*vip, failure))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All VIPs that `is_tried` says were tried. Of those that did not fail, `is_changed` says whether there was something to
    /// change, or is nothing to change any more.
    pub(super) fn on_tried(
        &mut self,
        is_tried: impl Fn(&Ipv4Addr) -> bool,
        is_changed: impl Fn(&Ipv4Addr) -> bool,
        failed: BTreeMap<Ipv4Addr, Failure>,
    ) {
        let mut over = Vec::new();
        self.0.retain(|vip, (_, stands)| {
            if !is_tried(vip) || failed.contains_key(vip) {
                return true;
            }
            *stands = false;
            let is_over = is_changed(vip);
            over.extend(is_over.then_some(*vip));
            !is_over
        });
        let mut begun = Vec::new();
        for (vip, failure) in failed {
            if self.0.insert(vip, (failure, true)).is_none() {
                begun.push(vip);
            }
        }
        self.tell_begun(&begun);
        tell_over(&over);
    }

    fn tell_begun(&self, begun: &[Ipv4Addr]) {
        let (told, more) = if begun.len() > MOST_LINES { begun.split_at(1) } else { (begun, [].as_slice()) };
        for vip in told {
            let (Failure { left: _, interface, error }, _) = &self.0[vip];
            let interface = interface.as_deref();
            error!(%vip, interface, error, "failed to change the VIP's entry; trying again");
        }
        if !more.is_empty() {
            error!(vips = more.len(), "failed to change the entries of more VIPs; trying again");
        }
    }
}

fn tell_over(over: &[Ipv4Addr]) {
    if over.len() > MOST_LINES {
        info!(vips = over.len(), "the entries of VIPs are changed after all");
        return;
    }
    for vip in over {
        info!(%vip, "the VIP's entry is changed after all");
    }
}
