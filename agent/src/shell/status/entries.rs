//! An entry and an interface, as the program sees them at one moment.

use vipward_common::{Fence, FenceState, MacAddr, Role, SeenEntry, VipEntry, VipKey};

use super::{InterfaceStatus, VipStatus};
use crate::{
    core::net::{LinkTrouble, NetView},
    shell::bpf::{BpfError, LinkPin, Maps, Pins},
};

/// Why no VIP of this node is answered when its fence is over.
pub(in crate::shell) const FENCE_IS_OVER: &str = "the fence is over";

/// What entries are read with: the fence and the interfaces at one moment.
pub(in crate::shell) struct Entries<'a> {
    maps: &'a Maps,
    view: &'a NetView,
    pub(in crate::shell) fence: Fence,
    pub(in crate::shell) now_ns: u64,
    /// The interfaces that have a pinned link.
    pub(in crate::shell) interfaces: Vec<InterfaceStatus>,
}

impl<'a> Entries<'a> {
    pub(in crate::shell) fn new(
        pins: &Pins,
        maps: &'a Maps,
        view: &'a NetView,
        now_ns: u64,
    ) -> Result<Self, BpfError> {
        let own = maps.links()?;
        let status = |link: &LinkPin| {
            let (link_id, program_id) = link.ids()?;
            let interface = view.interfaces.get(&link.ifindex);
            Ok(InterfaceStatus {
                name: interface.map(|interface| interface.name.clone()),
                ifindex: link.ifindex,
                attached: interface.is_some_and(|interface| interface.xdp_programs.contains(&program_id)),
                mode: link.mode,
                link_id,
                program_id,
                mac: own.get(&link.ifindex).copied(),
                carrier: interface.is_some_and(|interface| interface.carrier),
            })
        };
        let interfaces = pins.links()?.iter().map(status).collect::<Result<_, BpfError>>()?;
        Ok(Self { maps, view, fence: maps.fence()?, now_ns, interfaces })
    }

    /// Whether this node may answer.
    pub(in crate::shell) fn fence_state(&self) -> FenceState {
        self.fence.state(self.now_ns)
    }

    /// What keeps an interface from answering with `mac`, whatever the maps say.
    pub(in crate::shell) fn link_trouble(&self, ifindex: u32, mac: MacAddr) -> Option<LinkTrouble> {
        let attached = self.interfaces.iter().any(|link| link.ifindex == ifindex && link.attached);
        LinkTrouble::of(self.view.interfaces.get(&ifindex), attached, mac)
    }

    pub(in crate::shell) fn status(&self, key: &VipKey, entry: &VipEntry) -> Result<VipStatus, BpfError> {
        let yielded = self.maps.state(entry.slot)?.yielded;
        let SeenEntry { role, mac, yielded } = entry.as_seen(yielded, self.now_ns);
        let count = self.maps.vip_count(entry.slot)?;
        let silent_because = match role {
            Role::Foreign => None,
            Role::Held | Role::Handover if self.fence_state() == FenceState::Over => Some(FENCE_IS_OVER),
            Role::Held | Role::Handover => self
                .link_trouble(key.ifindex, mac)
                .filter(|trouble| trouble.silences(role))
                .map(LinkTrouble::name),
        };
        Ok(VipStatus {
            address: key.addr.into(),
            interface: self.view.name_of(key.ifindex),
            role,
            mac: (!mac.is_zero()).then_some(mac),
            yielded,
            answering: role != Role::Foreign && silent_because.is_none(),
            silent_because,
            answered: count.map(|count| count.answered),
            conflicts: count.map(|count| count.conflicts),
            suppressed: count.map(|count| count.suppressed),
        })
    }
}
