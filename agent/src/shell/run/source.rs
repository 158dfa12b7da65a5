//! Where the VIPs come from: a file, or a cluster.

use std::{collections::BTreeSet, net::Ipv4Addr};

use super::RunError;
use crate::{
    core::{config::Config, placement::Wanted, time::Monotonic, trouble::Line},
    shell::bpf::Maps,
};

/// What tells a driver which VIPs there are.
pub(super) trait Source {
    /// The VIPs, and what this node is to each.
    fn wanted<'a>(&'a self, config: &'a Config) -> impl ExactSizeIterator<Item = Wanted<'a>>;

    /// Those of `vips` among them.
    fn wanted_of<'a>(&'a self, config: &'a Config, vips: &BTreeSet<Ipv4Addr>) -> Vec<Wanted<'a>> {
        self.wanted(config).filter(|wanted| vips.contains(&wanted.address)).collect()
    }

    /// Whether it is known which VIPs there are; before, the entries that were found stay as they are.
    fn is_known(&self) -> bool;

    /// Takes note of trouble on the wire, which has been logged.
    fn note_trouble(&mut self, line: &Line);

    /// Moves the fence if that is due, in the middle of something that takes long.
    fn beat_if_due(&mut self, maps: &mut Maps, yields_settled: u64, now: Monotonic) -> Result<(), RunError>;
}
