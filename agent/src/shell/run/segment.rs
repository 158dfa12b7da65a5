//! What is heard on the segments and what is asked there: conflicts, probes, and what peers do.

use std::net::Ipv4Addr;

use tracing::{debug, warn};
use vipward_common::{Event, EventKind, MacAddr, VipKey};

use super::{Driver, RunError, now, report, source::Source};
use crate::core::{
    announce,
    conflict::{self, Counted, Line, Offender, Sight, What},
    net::Interface,
    probing,
    time::Monotonic,
};
use crate::shell::causes::chain;

/// What a probe has found out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Probed {
    /// Nobody uses the address.
    Free {
        /// The VIP.
        vip: Ipv4Addr,
    },
    /// Somebody does.
    InUse {
        /// The VIP.
        vip: Ipv4Addr,
        /// Who.
        mac: MacAddr,
        /// Whether that is a peer.
        by_peer: bool,
    },
}

impl<S: Source> Driver<S> {
    /// Takes note of what the program tells: about strangers here, about peers in the log.
    pub(super) fn hear(&mut self, events: &[Event]) -> Result<(), RunError> {
        let now = now()?;
        for event in events {
            // A switch may send our own frames back, also to another of our interfaces. An interface without a MAC, as `lo`, has
            // the zero one here, which is nobody's on the wire.
            let is_own = |interface: &Interface| interface.mac.0 == event.sha && !interface.mac.is_zero();
            if self.view.interfaces.values().any(is_own) {
                continue;
            }
            let own = self.view.interfaces.get(&event.ifindex).map(|interface| interface.mac);
            let key = VipKey { ifindex: event.ifindex, vlan: event.vlan, _pad: 0, addr: event.vip };
            // RFC 5227, 2.1.1: who probes as well is a rival while we probe, and at no other time.
            let is_asked = match event.kind {
                EventKind::Probed => self.prober.is_probing(&key),
                EventKind::Conflict
                | EventKind::Contested
                | EventKind::Moved
                | EventKind::Yielded
                | EventKind::Sighted => self.prober.asks_about(&key),
            };
            match event.kind {
                EventKind::Conflict => {
                    let is_ours = own == Some(MacAddr(event.holder));
                    let what = if is_ours { What::Held } else { What::Guarded };
                    self.sight(event, key, what, now)?;
                }
                EventKind::Sighted | EventKind::Probed | EventKind::Moved if is_asked => {
                    let mac = MacAddr(event.sha);
                    let by_peer = event.kind == EventKind::Moved;
                    let commands = self.prober.on_event(probing::Event::Heard { key, mac }, now);
                    if by_peer {
                        for line in self.trouble.on_event(event, now) {
                            report::trouble(&line, &self.view);
                        }
                    } else {
                        self.sight(event, key, What::InUse, now)?;
                    }
                    self.ask(commands, by_peer)?;
                }
                // Somebody will use an address that we do not ask for.
                EventKind::Probed => {}
                EventKind::Contested | EventKind::Moved | EventKind::Yielded | EventKind::Sighted => {
                    for line in self.trouble.on_event(event, now) {
                        report::trouble(&line, &self.view);
                    }
                }
            }
        }
        Ok(())
    }

    fn sight(&mut self, event: &Event, key: VipKey, what: What, now: Monotonic) -> Result<(), RunError> {
        let sight = Sight {
            key,
            what,
            mac: MacAddr(event.sha),
            source: MacAddr(event.source),
            oper: event.oper,
            holder: MacAddr(event.holder),
            times: event.swallowed.saturating_add(1),
            at: Monotonic::from_nanos(event.at_ns),
        };
        let commands = self.conflicts.on_event(conflict::Event::Sighted(sight), now);
        self.deal_with(commands)
    }

    /// Tells the conflicts something, and does what follows.
    pub(super) fn tell_conflicts(&mut self, event: conflict::Event) -> Result<(), RunError> {
        let commands = self.conflicts.on_event(event, now()?);
        self.deal_with(commands)
    }

    fn deal_with(&mut self, commands: Vec<conflict::Command>) -> Result<(), RunError> {
        for command in commands {
            match command {
                conflict::Command::Defend(key) => self.tell_announcer(announce::Event::Challenged { key })?,
                conflict::Command::Count => match self.counted() {
                    Ok(counted) => self.tell_conflicts(conflict::Event::Counted(counted))?,
                    Err(error) => warn!(error = chain(&error), "failed to read who claims VIPs"),
                },
                conflict::Command::Tell(line) => self.tell(&line)?,
            }
        }
        Ok(())
    }

    fn tell(&mut self, line: &Line) -> Result<(), RunError> {
        report::conflict(line, &self.view);
        self.metrics.conflicts.on_line(line, self.conflicts.open());
        self.source.note_conflict(line, now()?);
        Ok(())
    }

    /// What the program has counted of each stranger.
    fn counted(&self) -> Result<Vec<Counted>, RunError> {
        let offenders = self.plane.maps().offenders()?;
        let is_stranger = |kind| match kind {
            EventKind::Conflict | EventKind::Sighted => true,
            // Whoever only probes uses nothing, and may be a person who asks who does.
            EventKind::Probed | EventKind::Contested | EventKind::Moved | EventKind::Yielded => false,
        };
        let is_peer = |mac: [u8; 6]| self.config.peers.contains(&MacAddr(mac));
        let strangers =
            offenders.into_iter().filter(|(key, offender)| is_stranger(offender.kind) && !is_peer(key.mac));
        let counted = strangers.map(|(key, offender)| Counted {
            key: VipKey { ifindex: key.ifindex, vlan: key.vlan, _pad: 0, addr: key.addr },
            offender: Offender {
                mac: MacAddr(key.mac),
                source: MacAddr(offender.source),
                oper: offender.oper,
                first: Monotonic::from_nanos(offender.first_ns),
                last: Monotonic::from_nanos(offender.last_ns),
                claims: offender.claims,
            },
        });
        Ok(counted.collect())
    }

    /// Tells the prober something, and does what follows.
    pub(super) fn tell_prober(&mut self, event: probing::Event) -> Result<(), RunError> {
        let commands = self.prober.on_event(event, now()?);
        self.ask(commands, false)
    }

    fn ask(&mut self, commands: Vec<probing::Command>, by_peer: bool) -> Result<(), RunError> {
        for command in commands {
            match command {
                probing::Command::Send(key) => {
                    if !self.probe(&key) {
                        self.prober.on_event(probing::Event::NotSent(key), now()?);
                    }
                }
                // Without its entry the program tells nothing of it: that nothing was heard says nothing.
                probing::Command::Free(key) if self.behind.left(key.addr.into()).is_some() => {
                    self.prober.on_event(probing::Event::Wanted(key), now()?);
                }
                probing::Command::Free(key) => {
                    self.tell_conflicts(conflict::Event::Free(key))?;
                    self.source.note_probed(Probed::Free { vip: key.addr.into() }, now()?);
                }
                probing::Command::InUse { key, mac, conflicts, again } => {
                    let again_ms = super::millis(again.saturating_since(now()?));
                    debug!(vip = %Ipv4Addr::from(key.addr), %mac, conflicts, again_ms, "the address is in use");
                    let probed = Probed::InUse { vip: key.addr.into(), mac, by_peer };
                    self.source.note_probed(probed, now()?);
                }
            }
        }
        Ok(())
    }

    /// The address is not asked about any more; whoever was found to use it is nothing to this node.
    pub(super) fn ask_no_more(&mut self, key: VipKey) -> Result<(), RunError> {
        self.tell_prober(probing::Event::Forget(key))?;
        if self.conflicts.about(&key).is_some_and(|conflict| conflict.what == What::InUse) {
            self.tell_conflicts(conflict::Event::Forgotten(key))?;
        }
        Ok(())
    }

    /// Whether the probe has left.
    fn probe(&self, key: &VipKey) -> bool {
        let Some(interface) = self.view.interfaces.get(&key.ifindex) else { return false };
        let vip = Ipv4Addr::from(key.addr);
        match self.packets.probe(key.ifindex, interface.mac, vip) {
            Ok(()) => {
                debug!(%vip, interface = %interface.name, "probed");
                true
            }
            Err(error) => {
                warn!(%vip, interface = %interface.name, error = chain(&error), "not probed");
                false
            }
        }
    }

    /// Asks, defends and sums up what is due.
    pub(super) fn attend_segments(&mut self, now: Monotonic) -> Result<(), RunError> {
        self.tell_prober(probing::Event::Tick)?;
        if self.started {
            let held = self.announcer.count();
            let announcer = &self.announcer;
            let after = |key| announcer.after(key).map(|(key, _)| key);
            for key in self.prober.next_of_held(held, after, now) {
                // Who lost it does not ask in its name.
                if self.may_announce(&key) {
                    self.probe(&key);
                }
            }
        }
        self.tell_conflicts(conflict::Event::Tick)
    }

    /// When [`Driver::attend_segments`] is wanted.
    pub(super) fn segments_deadline(&self) -> Option<Monotonic> {
        let round = if self.started { self.prober.next_round() } else { None };
        [self.prober.next_deadline(), self.conflicts.next_deadline(), round].into_iter().flatten().min()
    }
}
