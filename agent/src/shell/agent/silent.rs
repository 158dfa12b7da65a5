//! Finds the VIPs that this node is said to hold and does not answer, for the pages and the log.
//!
//! A VIP is examined after a change of its entry or claim. All are examined after a change of an
//! interface or the fence.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use tracing::{info, warn};
use vipward_common::{FenceState, MacAddr, VipKey, Yield};
use vipward_core::{
    diagnosis::answering::{Part, Silence},
    host::net::InterfaceFault,
    ownership::Said,
    reports::unanswered::Unanswered,
};

use super::{
    error::{RunError, system},
    event_loop::EventLoop,
    report::MOST_LINES,
    silences::Surroundings,
    source::Source,
    timing::now,
};
use crate::shell::kernel::clock;

/// Least time between two examinations.
const PACE: Duration = Duration::from_millis(500);

impl<S: Source> EventLoop<S> {
    /// Examines VIPs. Returns those whose answers may have
    /// changed, or whose silence must be reported.
    pub(super) fn look_at_answers(&mut self) -> Result<BTreeSet<IpAddr>, RunError> {
        let now = now()?;
        if !self.segment.is_started() || now < self.silent.next {
            return Ok(BTreeSet::new());
        }
        self.silent.next = now + PACE;
        let now_ns = clock::coarse_ns().map_err(std::io::Error::from).map_err(system("read the clock"))?;
        let surroundings = self.surroundings(now_ns)?;
        let all = std::mem::take(&mut self.silent.all)
            || self.silent.seen.as_ref().is_none_or(|seen| *seen != surroundings);
        let mut looked_at = std::mem::take(&mut self.silent.some);
        looked_at.extend(self.source.left_behind(now));
        let mut said = self.source.said(&self.config, (!all).then_some(&looked_at), now);
        // A VIP that waits until its address is known to be free is not held yet.
        let held_back: BTreeSet<IpAddr> = self.segment.held_back().collect();
        said.retain(|vip, _| !held_back.contains(vip));
        if all {
            looked_at.extend(said.keys().copied());
            looked_at.extend(self.silent.silences.all());
        }
        let mut over = Vec::new();
        for vip in &looked_at {
            let why = match said.get(vip) {
                None => None,
                Some(Said::Ended(node)) => Some(Unanswered::SessionEnded(node.clone())),
                Some(Said::Here { taken }) => {
                    self.silence_here((*vip, *taken), &surroundings, now_ns)?.map(Unanswered::Silent)
                }
            };
            if self.silent.silences.note(*vip, why, now) {
                over.push(*vip);
            }
        }
        self.silent.seen = Some(surroundings);
        let begun = self.silent.silences.on_tick(now);
        self.log_silences(&begun, &over);
        looked_at.extend(begun);
        Ok(looked_at)
    }

    fn surroundings(&self, now_ns: u64) -> Result<Surroundings, RunError> {
        let with_fault = |(ifindex, _)| {
            let interface = self.view.interfaces.get(&ifindex);
            let mac = interface.map_or(MacAddr::ZERO, |interface| interface.mac);
            let attached = self.plane.runs_on(&self.view, ifindex);
            (ifindex, (mac, InterfaceFault::of(interface, attached, mac, self.proving.proof(ifindex))))
        };
        let interfaces = self.plane.attached().map(with_fault).collect();
        let maps = self.plane.maps();
        let any_yielded = maps.yields()?.total > 0;
        Ok(Surroundings { fence: maps.fence_state(now_ns)?, any_yielded, interfaces })
    }

    /// Returns the reason why this node does not answer for a VIP that it
    /// is said to hold. Returns `None` if it does.
    fn silence_here(
        &self,
        (vip, taken): (IpAddr, bool),
        surroundings: &Surroundings,
        now_ns: u64,
    ) -> Result<Option<String>, RunError> {
        let maps = self.plane.maps();
        let (mut silent, mut given_to) = (None, None);
        for (ifindex, (own, trouble)) in &surroundings.interfaces {
            // Entries are read one by one: all of very many at once would take megabytes.
            let Some(entry) = maps.entry(&VipKey::new(*ifindex, vip))? else { continue };
            let recorded =
                if surroundings.any_yielded { maps.state(entry.slot)?.yielded } else { Yield::default() };
            let seen = entry.as_seen(recorded, now_ns);
            let trouble = trouble.or((seen.mac != *own).then_some(InterfaceFault::OtherMac));
            match Part::of(seen.role, surroundings.fence, trouble) {
                Part::Held | Part::Handover => return Ok(None),
                Part::Silent(why @ Silence::Fence) => silent = Some(why.name().to_owned()),
                Part::Silent(why @ Silence::Interface(_)) => {
                    silent = Some(format!("{}: {}", self.name(*ifindex), why.name()));
                }
                Part::Foreign if seen.yielded => given_to = Some(seen.mac),
                Part::Foreign => {}
            }
        }
        Ok(Some(silent.unwrap_or_else(|| self.no_entry(vip, taken, given_to, surroundings))))
    }

    /// Returns the reason why no entry answers for a VIP that this node is said to hold.
    fn no_entry(
        &self,
        vip: IpAddr,
        taken: bool,
        given_to: Option<MacAddr>,
        surroundings: &Surroundings,
    ) -> String {
        if let Some(mac) = given_to.or_else(|| self.host.yielded().get(&vip).copied()) {
            return format!("the program gave way to {mac} while the fence had lapsed");
        }
        if let Some(failure) = self.stale.failure(vip) {
            return match &failure.interface {
                Some(interface) => {
                    format!("its entry on {interface} cannot be changed: {}", failure.error)
                }
                None => failure.error.clone(),
            };
        }
        if surroundings.fence == FenceState::Over {
            return Silence::Fence.name().to_owned();
        }
        let mut segments = self.view.routes.iter().filter(|route| route.prefix.contains(&vip));
        if !segments.any(|route| surroundings.interfaces.contains_key(&route.interface)) {
            let unattached = self.unattached.values().next().cloned();
            return unattached
                .unwrap_or_else(|| "no interface that the program runs on is in its subnet".to_owned());
        }
        if taken {
            return "the program has no entry that answers for it".to_owned();
        }
        "its claim names this node, whose agent has not taken it: its log says why".to_owned()
    }

    fn log_silences(&self, begun: &[IpAddr], over: &[IpAddr]) {
        if begun.len() > MOST_LINES {
            warn!(vips = begun.len(), "VIPs that this node has are not answered");
        } else {
            for vip in begun {
                let why = self.silent.silences.told(*vip).map(ToString::to_string);
                warn!(%vip, why, "this node has the VIP and does not answer");
            }
        }
        if over.len() > MOST_LINES {
            info!(vips = over.len(), "VIPs are answered again, or held elsewhere");
        } else {
            for vip in over {
                info!(%vip, "the VIP is answered again, or held elsewhere");
            }
        }
    }
}
