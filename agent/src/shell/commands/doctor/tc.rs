//! BPF programs of traffic control on an interface, from tcx and from filters.

use vipward_core::diagnosis::{doctor::TcProgram, fact::Unread};

use crate::shell::{
    kernel::netlink::{self, Direction},
    logging::errors::unread,
};

/// Returns the programs of both kinds, ingress and egress, in the order in which they run. Those of
/// tcx have no names here.
pub(super) async fn programs(ifindex: u32) -> Result<Vec<TcProgram>, Unread> {
    let mut programs = Vec::new();
    for direction in [Direction::Ingress, Direction::Egress] {
        let ingress = direction == Direction::Ingress;
        let of_tcx = netlink::tcx_programs(ifindex, direction).map_err(|error| unread(&error))?;
        programs.extend(of_tcx.into_iter().flatten().map(|id| TcProgram { id, name: None, ingress }));
        let filters = netlink::filters(ifindex, direction).await.map_err(|error| unread(&error))?;
        programs.extend(filters.into_iter().map(|(id, name)| TcProgram { id, name, ingress }));
    }
    Ok(programs)
}
