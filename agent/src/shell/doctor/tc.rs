//! BPF programs of traffic control on an interface, from classifiers and from tcx.

use std::io;
use vipward_core::{
    doctor::TcProgram,
    pinned::{Fact, Unread},
};

use crate::shell::{bpf, netlink};

/// Values of the kernel's `enum bpf_attach_type`.
const BPF_TCX_INGRESS: u32 = 46;
const BPF_TCX_EGRESS: u32 = 47;

/// Returns the programs of both kinds, ingress and egress. Those of tcx have no names here.
pub(super) async fn programs(ifindex: u32) -> Fact<Vec<TcProgram>> {
    let mut programs = Vec::new();
    for ingress in [true, false] {
        let filters = netlink::tc_programs(ifindex, ingress).await.map_err(|error| super::unread(&error))?;
        programs.extend(filters.into_iter().map(|(id, name)| TcProgram { id, name, ingress }));
        let attach_type = if ingress { BPF_TCX_INGRESS } else { BPF_TCX_EGRESS };
        match bpf::attached_programs(ifindex, attach_type) {
            Ok(ids) => programs.extend(ids.into_iter().map(|id| TcProgram { id, name: None, ingress })),
            // Linux has tcx since 6.6.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => {
                return Err(Unread {
                    reason: format!("failed to ask for tcx programs: {error}"),
                    denied: error.kind() == io::ErrorKind::PermissionDenied,
                });
            }
        }
    }
    Ok(programs)
}
