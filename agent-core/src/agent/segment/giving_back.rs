//! Held VIPs that are given back, because another host has them.

use vipward_common::{Event, EventKind, MacAddr, VipKey};

use super::{
    Segment, is_reply, sight,
    types::{Context, Effect, Note},
};
use crate::segment::{
    conflict::{self, Right, What},
    probing,
    rivals::{self, Rivals},
};

impl Segment {
    /// Returns true if an event shows that another host used the address of a provisional hold before.
    /// In a cluster, the claim decides between this node and a peer.
    pub(super) fn is_late_answer(&self, event: &Event, context: &Context<'_>) -> bool {
        let right = || context.authority.right(event.key().addr, MacAddr(event.sha), context.now);
        let is_rival = match event.kind {
            EventKind::Conflict | EventKind::Sighted => true,
            EventKind::Contested | EventKind::Moved => {
                right() == Right::NoClaims && !context.is_forged(event)
            }
            EventKind::Yielded | EventKind::Probed => false,
        };
        let key = event.key();
        // A proxy may answer until it has received the announcement.
        let is_rival = is_rival && !self.is_proxy(&key, MacAddr(event.sha));
        is_rival
            && is_reply(event)
            && self.provisional.contains(&key, context.now)
            && !context.authority.is_forced(key.addr)
    }

    pub(super) fn on_late_answer(&mut self, event: &Event, context: &Context<'_>) {
        let by_peer = matches!(event.kind, EventKind::Contested | EventKind::Moved);
        self.conflict(conflict::Event::Sighted(sight(event, What::InUse, context)), context);
        self.give_back((event.key(), MacAddr(event.sha)), by_peer, context);
    }

    /// Has a VIP given back that another host has, and its address probed again.
    pub(super) fn give_back(&mut self, (key, mac): (VipKey, MacAddr), by_peer: bool, context: &Context<'_>) {
        self.provisional.forget(key);
        self.rivals.on_released(key);
        self.conflict(conflict::Event::Released(key), context);
        if context.authority.must_be_free(key.addr) {
            self.held_back.insert(key);
        }
        self.probe(probing::Event::Late { key, mac, by_peer }, context);
        self.effects.push(Effect::GiveBack(key));
    }

    pub(super) fn on_stated(
        &mut self,
        (ifindex, from): (u32, MacAddr),
        holds: &[rivals::Hold],
        context: &Context<'_>,
    ) {
        if self.started {
            let commands =
                self.with_rivals(context, |rivals, host| rivals.on_stated((ifindex, from), holds, host));
            self.carry_out_rivals(commands, context);
        }
    }

    pub(super) fn with_rivals<T>(
        &mut self,
        context: &Context<'_>,
        act: impl FnOnce(&mut Rivals, &rivals::Host<'_>) -> T,
    ) -> T {
        // Without probes, a VIP that was given back would be taken again at once.
        let asks = self.asks;
        let host = rivals::Host {
            peers: if context.authority.settles_by_age() { context.peers } else { &[] },
            is_forced: &|vip| !asks || context.authority.is_forced(vip),
            mac_of: &|ifindex| {
                let interface = context.view.interfaces.get(&ifindex)?;
                (interface.up && interface.carrier).then_some(interface.mac)
            },
            now: context.now,
        };
        act(&mut self.rivals, &host)
    }

    pub(super) fn carry_out_rivals(
        &mut self,
        commands: impl IntoIterator<Item = rivals::Command>,
        context: &Context<'_>,
    ) {
        for command in commands {
            match command {
                rivals::Command::State { ifindex, to, holds } => {
                    self.effects.push(Effect::State { ifindex, to, holds });
                }
                rivals::Command::Ask(key) => self.effects.push(Effect::ProbeHeld(key)),
                rivals::Command::Yield(settled) => {
                    self.effects.push(Effect::Note(Note::Yields(settled)));
                    self.give_back((settled.key, settled.to), true, context);
                }
            }
        }
    }
}
