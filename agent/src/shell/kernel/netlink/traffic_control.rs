//! BPF programs of traffic control: those of tcx (Linux 6.6 and later), and filters.

use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::tc::{TcHandle, TcMessage};
use vipward_core::host::net::Interface;

use super::{
    dump::{NetlinkError, dump},
    messages,
};
use crate::shell::kernel::bpf;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Ingress,
    Egress,
}

impl Direction {
    const fn attach_type(self) -> u32 {
        match self {
            Self::Ingress => 46,
            Self::Egress => 47,
        }
    }

    /// Returns the hook of the clsact discipline (`linux/pkt_sched.h`). The ingress discipline has
    /// only the first.
    const fn hook(self) -> u32 {
        match self {
            Self::Ingress => 0xffff_fff2,
            Self::Egress => 0xffff_fff3,
        }
    }
}

/// Returns the ids of the programs of tcx on an interface, in the order in which they run. Returns
/// `None` if the kernel has no tcx.
pub(crate) fn tcx_programs(ifindex: u32, direction: Direction) -> Result<Option<Vec<u32>>, NetlinkError> {
    match bpf::attached_programs(ifindex, direction.attach_type()) {
        Ok(ids) => Ok(Some(ids)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(None),
        Err(source) => Err(NetlinkError::Query { ifindex, source }),
    }
}

/// Returns ids and names of the BPF filters on an interface, in the order in which they run.
pub(crate) async fn filters(
    ifindex: u32,
    direction: Direction,
) -> Result<Vec<(u32, Option<String>)>, NetlinkError> {
    let mut request = TcMessage::with_index(ifindex.cast_signed());
    request.header.parent = TcHandle::from(direction.hook());
    let request = RouteNetlinkMessage::GetTrafficFilter(request);
    let found = dump("filters of traffic control", &request, messages::tc_program).await?;
    Ok(found.into_iter().flatten().collect())
}

/// Reads the programs at the ingress of an interface: of tcx, or filters where the kernel has no tcx.
/// They stay unknown if they cannot be read.
pub(super) async fn read_programs(interface: &mut Interface) {
    let index = interface.index;
    interface.tc_programs = match tcx_programs(index, Direction::Ingress) {
        Ok(Some(ids)) => Some(ids),
        Ok(None) => {
            let filters = filters(index, Direction::Ingress).await.ok();
            filters.map(|filters| filters.into_iter().map(|(id, _)| id).collect())
        }
        Err(_) => None,
    };
}
