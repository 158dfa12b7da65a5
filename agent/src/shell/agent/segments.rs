//! Passes what happens on the segments to the core, and carries out the effects.

use std::net::IpAddr;

use tracing::{debug, info, warn};
use vipward_common::{Event, VipKey};
use vipward_core::{
    agent::segment::{Authority, Context, Effect, Input, Note},
    config::Config,
    host::{net::NetView, stale::Stale},
    segment::conflict::Line,
};

use super::{
    error::RunError,
    event_loop::EventLoop,
    report,
    source::Source,
    timing::{millis, now},
};
use crate::shell::logging::causes::chain;

impl<S: Source> EventLoop<S> {
    /// Passes an input to the core, and carries out the effects.
    pub(super) fn on_segment(&mut self, input: Input<'_>) -> Result<(), RunError> {
        let context = context((&self.view, &self.config, &self.stale), &self.source)?;
        let effects = self.segment.on(input, &context);
        self.carry_out_effects(effects)
    }

    /// Passes the program's events to the core.
    pub(super) fn on_program(&mut self, events: &[Event]) -> Result<(), RunError> {
        events.iter().try_for_each(|event| self.on_segment(Input::Program(event)))
    }

    /// Passes the VIPs that the pins hold to the core.
    pub(super) fn adopt(&mut self) -> Result<(), RunError> {
        let mut held = self.plane.maps().held()?.into_iter();
        held.try_for_each(|(key, mac)| self.on_segment(Input::Adopted { key, mac }))
    }

    /// Returns what the core judges by, as it is now.
    pub(super) fn context(&self) -> Result<Context<'_>, RunError> {
        context((&self.view, &self.config, &self.stale), &self.source)
    }

    pub(super) fn carry_out_effects(&mut self, effects: Vec<Effect>) -> Result<(), RunError> {
        // No effect changes an entry; of the program's own changes, `Standing` says why one reading is
        // enough for all.
        let mut standing = None;
        let mut succeeded = Vec::new();
        for effect in effects {
            match effect {
                Effect::Announce(command) => {
                    let standing = standing.get_or_insert_with(|| self.standing());
                    self.send(command, standing.as_ref().ok())?;
                }
                Effect::Probe(key) => {
                    if !self.ask(key, None) {
                        self.on_segment(Input::NotSent(key))?;
                    }
                }
                Effect::ShowPort(key) => _ = self.ask(key, None),
                Effect::ProbeHeld(key) => {
                    let standing = standing.get_or_insert_with(|| self.standing());
                    // A node that has lost a VIP does not probe in its name.
                    if standing.as_ref().is_ok_and(|standing| self.may_announce(key, standing)) {
                        self.ask(key, self.source_for(key));
                    }
                }
                Effect::Count => match self.plane.maps().offenders() {
                    Ok(counts) => self.on_segment(Input::Counted(counts))?,
                    Err(error) => warn!(error = chain(&error), "failed to read the counts of claims"),
                },
                Effect::Report(line) => self.report_conflict(&line)?,
                Effect::Probed { key, probed } => self.source.note_probed(key.addr, probed, now()?),
                Effect::Taken(key) => {
                    let former = self.source.note_taken(key, now()?);
                    succeeded.extend(former.map(|former| Input::Succeeded { key, former }));
                }
                Effect::FirstAnnounced(vip) => self.source.note_announced(vip, now()?),
                Effect::JoinGroups(key) => self.hear_questions(key)?,
                Effect::TakeBack(vips) => {
                    for (vip, mac) in vips {
                        warn!(%vip, %mac, "no peer answers for the yielded VIP; this node takes it back");
                        self.source.note_taken_back(vip, mac, now()?);
                        self.host.take_back([vip]);
                    }
                }
                Effect::Reconcile => {
                    self.host.verify_by(now()?);
                }
                Effect::Unsettle => self.host.unsettle(),
                Effect::Note(note) => self.log_note(&note)?,
            }
        }
        succeeded.into_iter().try_for_each(|input| self.on_segment(input))
    }

    fn log_note(&self, note: &Note) -> Result<(), RunError> {
        match *note {
            Note::FailedOver { ifindex, vips } => {
                let interface = self.name(ifindex);
                info!(interface, vips, "the interface has failed over; its VIPs are announced");
            }
            Note::AsksAboutYield(vip) => {
                info!(%vip, "the VIP was yielded; asking whether a peer answers for it");
            }
            Note::InUse { vip, mac, conflicts, again } => {
                let again_ms = millis(again.saturating_since(now()?));
                debug!(%vip, %mac, conflicts, again_ms, "the address is in use");
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
            self.metrics.conflicts.on_line(line, self.segment.conflicts());
            self.source.note_conflict(line, &self.view, now);
        }
        Ok(())
    }

    /// Takes back the VIPs that the core has decided on.
    pub(super) async fn take_back(&mut self) {
        let taken = self.host.taking_back().clone();
        if taken.is_empty() {
            return;
        }
        if self.source.is_known() {
            self.write_some(&taken).await;
        } else {
            // The source cannot place the VIPs yet.
            self.reconcile(false).await;
        }
        self.host.taken_back();
    }

    /// Returns the address from which a held VIP is asked for. A rival's answer to a probe for an IPv6
    /// address would go to all hosts, and they would believe it.
    fn source_for(&self, key: VipKey) -> Option<IpAddr> {
        let interface = self.view.interfaces.get(&key.ifindex).filter(|_| key.addr.is_ipv6())?;
        let entry = |vip| self.plane.maps().entry(&VipKey::new(key.ifindex, vip));
        interface.source_for(key.addr, |vip| !matches!(entry(vip), Ok(None)))
    }

    /// Asks for an address: by a probe, or from `source`. Returns true if the question was sent.
    fn ask(&self, key: VipKey, source: Option<IpAddr>) -> bool {
        let Some(interface) = self.view.interfaces.get(&key.ifindex) else { return false };
        let vip = key.addr;
        match self.packets.ask(key.ifindex, interface.mac, vip, source) {
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
}

/// Returns what the core judges by, from a part of the event loop.
pub(super) fn context<'a>(
    (view, config, stale): (&'a NetView, &'a Config, &'a Stale),
    authority: &'a dyn Authority,
) -> Result<Context<'a>, RunError> {
    Ok(Context { view, peers: &config.peers, stale, authority, now: now()? })
}
