//! Conflicts: the program's events become claims, from which defence and reports follow.

use tracing::warn;
use vipward_common::{Event, EventKind, MacAddr, OPER_REPLY, TYPE_ADVERTISEMENT, VipKey};
use vipward_core::{
    base::time::Monotonic,
    host::net::Interface,
    segment::{
        announce,
        conflict::{self, Counted, Line, Offender, Sight, What},
        probing, yields,
    },
};

use super::{error::RunError, event_loop::EventLoop, report, source::Source, timing::now};
use crate::shell::logging::causes::chain;

impl<S: Source> EventLoop<S> {
    /// Passes the program's events to the prober and the conflicts.
    pub(super) fn hear(&mut self, events: &[Event]) -> Result<(), RunError> {
        let now = now()?;
        for event in events {
            if !self.is_own(event) {
                self.hear_one(event, now)?;
            }
        }
        Ok(())
    }

    /// Returns true if this host sent the frame. A switch may send a frame
    /// back, also to another of this host's interfaces.
    fn is_own(&self, event: &Event) -> bool {
        // The view has a zero MAC for an interface without one, such as `lo`. No host has that MAC.
        let is_own = |interface: &Interface| interface.mac.0 == event.sha && !interface.mac.is_zero();
        self.view.interfaces.values().any(is_own)
    }

    fn hear_one(&mut self, event: &Event, now: Monotonic) -> Result<(), RunError> {
        let key = event.key();
        let mac = MacAddr(event.sha);
        let what = match event.kind {
            EventKind::Conflict if self.mac_of(event.ifindex) == Some(MacAddr(event.holder)) => What::Held,
            EventKind::Conflict => What::Guarded,
            EventKind::Contested => What::Contested,
            EventKind::Moved => What::Moved,
            EventKind::Yielded => What::Yielded,
            EventKind::Sighted if self.prober.asks_about(&key) => What::InUse,
            EventKind::Sighted => What::Sighted,
            // RFC 5227, 2.1.1: another host that probes is a rival only while this node probes.
            EventKind::Probed
                if !self.prober.is_probing(&key)
                    || self.yields.asks_about(&key)
                    || self.prober.put_off(&key, mac, now) =>
            {
                return Ok(());
            }
            EventKind::Probed => What::InUse,
        };
        let by_peer = what.is_with_peer();
        let is_answer = if self.yields.asks_about(&key) {
            self.answers_for_yielded(event, key)?
        } else {
            what == What::InUse || what == What::Moved && self.prober.asks_about(&key)
        };
        let heard = is_answer.then_some(probing::Event::Heard { key, mac, by_peer });
        let probed = heard.map(|heard| self.prober.on_event(heard, now)).unwrap_or_default();
        let right = self.source.right(key.addr, mac, now);
        let sight = Sight {
            key,
            what,
            mac,
            source: MacAddr(event.source),
            oper: event.oper,
            holder: MacAddr(event.holder),
            times: event.swallowed.saturating_add(1),
            at: Monotonic::from_nanos(event.at_ns),
            right,
        };
        self.tell_conflicts(conflict::Event::Sighted(sight))?;
        self.carry_out_probing(probed)
    }

    /// Returns true if a peer answers for a yielded VIP. Any host can announce in a peer's name, so
    /// only a reply shows that a peer has the VIP; a stranger's claim shows nothing.
    fn answers_for_yielded(&mut self, event: &Event, key: VipKey) -> Result<bool, RunError> {
        if event.kind != EventKind::Moved {
            return Ok(false);
        }
        let is_reply = [OPER_REPLY, TYPE_ADVERTISEMENT.into()].contains(&event.oper);
        if !is_reply && event.swallowed > 0 {
            // The answer may be among the events that were held back.
            self.tell_yields(yields::Event::Unclear { key })?;
        }
        Ok(is_reply)
    }

    fn mac_of(&self, ifindex: u32) -> Option<MacAddr> {
        self.view.interfaces.get(&ifindex).map(|interface| interface.mac)
    }

    /// Passes an event to the conflicts, and carries out the commands.
    pub(super) fn tell_conflicts(&mut self, event: conflict::Event) -> Result<(), RunError> {
        let commands = self.conflicts.on_event(event, now()?);
        self.carry_out_conflicts(commands)
    }

    /// Carries out the commands about conflicts that are due.
    pub(super) fn tick_conflicts(&mut self, now: Monotonic) -> Result<(), RunError> {
        let right = |sight: &Sight| self.source.right(sight.key.addr, sight.mac, now);
        let commands = self.conflicts.on_tick(right, now);
        self.carry_out_conflicts(commands)
    }

    fn carry_out_conflicts(&mut self, commands: Vec<conflict::Command>) -> Result<(), RunError> {
        for command in commands {
            match command {
                conflict::Command::Defend(key) => self.tell_announcer(announce::Event::Challenged { key })?,
                conflict::Command::Count => match self.counted() {
                    Ok(counted) => self.tell_conflicts(conflict::Event::Counted(counted))?,
                    Err(error) => warn!(error = chain(&error), "failed to read the counts of claims"),
                },
                conflict::Command::Report(line) => self.report_conflict(&line)?,
            }
        }
        Ok(())
    }

    fn report_conflict(&mut self, line: &Line) -> Result<(), RunError> {
        let now = now()?;
        if self.conflict_lines.admits(report::message(line), now) {
            report::conflict(line, &self.view);
        }
        if line.is_shown() {
            self.metrics.conflicts.on_line(line, self.conflicts.shown());
            self.source.note_conflict(line, &self.view, now);
        }
        Ok(())
    }

    /// Returns the program's counts of strangers.
    fn counted(&self) -> Result<Vec<Counted>, RunError> {
        let offenders = self.plane.maps().offenders()?;
        let is_stranger = |kind| match kind {
            EventKind::Conflict | EventKind::Sighted => true,
            // A host that only probes does not use the address.
            EventKind::Probed | EventKind::Contested | EventKind::Moved | EventKind::Yielded => false,
        };
        let is_peer = |mac: MacAddr| self.config.peers.contains(&mac);
        let strangers =
            offenders.into_iter().filter(|(key, offender)| is_stranger(offender.kind) && !is_peer(key.mac));
        let counted = strangers.map(|(key, offender)| Counted {
            key: key.vip,
            offender: Offender {
                mac: key.mac,
                source: MacAddr(offender.source),
                oper: offender.oper,
                first: Monotonic::from_nanos(offender.first_ns),
                last: Monotonic::from_nanos(offender.last_ns),
                claims: offender.claims,
            },
        });
        Ok(counted.collect())
    }
}
