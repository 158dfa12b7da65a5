//! Edits of Leases and claims by hand.

use vipward_core::records::{ClaimNote, ClaimRecord, ClaimState, Epoch, Holder, Session};

use crate::{
    machine::Node,
    schedule::{Edit, names},
    world::World,
};

/// The epoch of a claim in a backup.
const RESTORED: Epoch = Epoch(7);

impl World {
    /// Records that a claim is edited by hand, and the nodes that answer for the VIP without an agent.
    pub(crate) fn record_edit(&mut self, vip: usize) {
        let (segment, now) = (self.segment_of(vip), self.now);
        let is_helpless = |it: &Node| it.process.is_none() && it.answer(vip, segment, now).is_some();
        let helpless = self.nodes.iter().map(is_helpless).collect();
        self.record.edited(vip, helpless, now);
    }

    pub(super) fn edit(&mut self, edit: Edit) {
        match edit {
            Edit::LeaseDeleted { who } if names::is_controller(who.index()) => self.api.election = None,
            Edit::LeaseDeleted { who } => self.api.remove_lease(&names::node(who.index())),
            Edit::LeaseBlanked { who } => self.edit_lease(who.index(), None),
            Edit::LeaseEdited { who } => {
                let other = Session::from_number(self.noise.u64(1..));
                self.edit_lease(who.index(), other);
            }
            Edit::Move { vip, to } => {
                let to = names::node(to.index());
                self.edit_claim(vip.into(), |claim| claim.move_to = Some(to));
            }
            Edit::ClaimDeleted { vip, finalized: true } => {
                self.record_edit(vip.into());
                self.edit_claim(vip.into(), |claim| claim.deleting = true);
            }
            Edit::ClaimDeleted { vip, finalized: false } => {
                self.record_edit(vip.into());
                self.api.remove_claim(names::vip(vip.into()));
            }
            Edit::ClaimBlanked { vip } => {
                self.record_edit(vip.into());
                self.edit_claim(vip.into(), |claim| claim.state = ClaimState::Blank);
            }
            Edit::ClaimEdited { vip, to } => {
                self.record_edit(vip.into());
                let node = names::node(to.index());
                let segment = self.segment_of(vip.into());
                let session = self.api.leases.get(&node).and_then(|lease| lease.session);
                let mac = self.nodes[to.index()].links[segment].mac;
                let interface = names::interface(segment);
                if let Some(session) = session {
                    let state = ClaimState::Held(Holder { node, session, mac, interface });
                    self.edit_claim(vip.into(), |claim| claim.state = state);
                }
            }
            Edit::ClaimRestored { vip } => self.restore_claim(vip.into()),
        }
        self.spread();
    }

    fn restore_claim(&mut self, vip: usize) {
        self.record_edit(vip);
        let address = names::vip(vip);
        let lost = || ClaimRecord {
            epoch: RESTORED,
            note: ClaimNote { services: vec![names::service(vip)], ..ClaimNote::default() },
            ..ClaimRecord::blank(address, "0".into())
        };
        let claim = self.api.claims.get(&address).cloned().unwrap_or_else(lost);
        let session = Session::from_number(self.noise.u64(1..)).expect("invariant: it is not zero");
        let interface = names::interface(self.segment_of(vip));
        let state = ClaimState::Held(Holder { node: names::nowhere(), session, mac: names::HOST, interface });
        self.api.put_claim(ClaimRecord { state, ..claim });
    }

    fn edit_lease(&mut self, node: usize, session: Option<Session>) {
        if let Some(mut lease) = self.api.leases.get(&names::node(node)).cloned() {
            lease.session = session;
            self.record.leases[node] = self.now;
            self.api.put_lease(lease);
        }
    }

    fn edit_claim(&mut self, vip: usize, edit: impl FnOnce(&mut ClaimRecord)) {
        if let Some(mut claim) = self.api.claims.get(&names::vip(vip)).cloned() {
            edit(&mut claim);
            self.api.put_claim(claim);
        }
    }
}
