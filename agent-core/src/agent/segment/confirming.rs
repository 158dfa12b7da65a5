//! Unicast requests to a host that answers for a wanted address: it may be a proxy.

use vipward_common::{MacAddr, VipKey};

use super::{
    Segment,
    types::{Context, Effect, Note},
};
use crate::segment::{
    confirming::{Answerer, Command, Event},
    conflict,
    probing::{self, Probed},
};

impl Segment {
    /// Returns true if a MAC was found to be a proxy, for an address whose host does not answer. Its
    /// answers do not show that a host uses the address.
    pub fn is_proxy(&self, key: &VipKey, mac: MacAddr) -> bool {
        self.confirming.answerer(key, mac) == Some(Answerer::Proxy)
    }

    /// Begins to ask the host that a probe found, by unicast. The claims of a cluster show which peer may
    /// answer, and so do the announcements of a yielded VIP's peer.
    pub(super) fn ask_directly(&mut self, key: VipKey, mac: MacAddr, by_peer: bool, context: &Context<'_>) {
        let is_waiting_peer = by_peer && self.held_back.contains(&key);
        if !self.yields.asks_about(&key) && (!by_peer || is_waiting_peer) {
            self.confirm(Event::InUse { key, mac, is_counted: !by_peer }, context);
        }
    }

    /// Returns true if a router may answer for an address that no host has answered probes for.
    pub(super) fn is_doubted(&mut self, key: VipKey, context: &Context<'_>) -> bool {
        let command = self.confirming.doubt(key, context.now);
        let is_doubted = command.is_some();
        self.carry_out_confirming(command, context);
        is_doubted
    }

    pub(super) fn confirm(&mut self, event: Event<'_>, context: &Context<'_>) {
        let commands = self.confirming.on_event(event, context.now);
        self.carry_out_confirming(commands, context);
    }

    fn carry_out_confirming(&mut self, commands: impl IntoIterator<Item = Command>, context: &Context<'_>) {
        for command in commands {
            match command {
                Command::Ask { key, mac } => self.effects.push(Effect::AskHost { key, mac }),
                Command::Rest { key, mac, until } => self.prober.rest_until(key, mac, until),
                Command::Count => self.effects.push(Effect::Count),
                Command::Tell { key, mac } => self.effects.push(Effect::TellApart { key, mac }),
                Command::Found { key, mac, answerer, takes } => {
                    self.effects.push(Effect::Note(Note::Answerer { vip: key.addr, mac, answerer, takes }));
                    if !takes {
                        self.conflict(conflict::Event::Named { key, mac, answerer }, context);
                    }
                }
                // The program reports no answer about a VIP whose entry is missing.
                Command::Free { key, .. } if context.stale.left(key.addr).is_some() => {}
                Command::Free { key, by_proxy } => {
                    let free = if by_proxy { conflict::Event::Proxied } else { conflict::Event::Free };
                    self.probe(probing::Event::Forget(key), context);
                    self.provisional.on_free(key, context.now);
                    self.conflict(free(key), context);
                    self.on_probed(key, Probed::Free, context);
                }
            }
        }
    }
}
