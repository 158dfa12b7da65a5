//! The hosts that are probed for an answer.

use std::net::IpAddr;

use crate::host::net::NetView;

pub const MOST_ASKED: usize = 8;

/// Returns the addresses of hosts on a segment that should answer: gateways, then `peers`. There
/// are at most [`MOST_ASKED`]. This host itself answers for addresses that are held (`is_held`), so
/// they are left out.
pub fn targets(
    view: &NetView,
    segment: u32,
    peers: impl IntoIterator<Item = IpAddr>,
    is_held: impl Fn(IpAddr) -> bool,
) -> Vec<IpAddr> {
    let own = |address: IpAddr| {
        view.interfaces.values().any(|it| it.addresses.iter().any(|net| net.addr() == address))
    };
    let routes = || view.routes.iter().filter(|route| route.interface == segment);
    let is_near = |address: &IpAddr| routes().any(|route| route.prefix.contains(address));
    let mut targets = Vec::new();
    for address in view.next_hops.iter().copied().chain(peers).filter(is_near) {
        if targets.len() < MOST_ASKED && !targets.contains(&address) && !own(address) && !is_held(address) {
            targets.push(address);
        }
    }
    targets
}
