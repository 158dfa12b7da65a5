//! Has the VIPs examined that this node is said to hold, and logs which are silent.

use std::{collections::BTreeSet, net::IpAddr};

use tracing::{info, warn};
use vipward_common::{MacAddr, VipKey, Yield};
use vipward_core::{
    agent::answers::{Examined, Known, Surroundings},
    host::net::InterfaceFault,
};

use super::{
    error::{RunError, system},
    event_loop::EventLoop,
    report::MOST_LINES,
    source::Source,
    timing::now,
};
use crate::shell::kernel::clock;

impl<S: Source> EventLoop<S> {
    /// Examines VIPs. Returns those whose answers may have
    /// changed, or whose silence must be reported.
    pub(super) fn look_at_answers(&mut self) -> Result<BTreeSet<IpAddr>, RunError> {
        let now = now()?;
        if !self.segment.is_started() || !self.answers.is_open(now) {
            return Ok(BTreeSet::new());
        }
        let now_ns = clock::coarse_ns().map_err(std::io::Error::from).map_err(system("read the clock"))?;
        let surroundings = self.surroundings(now_ns)?;
        let known = Known {
            view: &self.view,
            host: &self.host,
            segment: &self.segment,
            stale: &self.stale,
            unattached: self.plane.attachments().unattached(),
        };
        let (source, maps, any_yielded) = (&self.source, self.plane.maps(), surroundings.any_yielded);
        let said = |of: Option<&BTreeSet<IpAddr>>| source.said(&self.config, of, now);
        let read = |ifindex, vip| {
            let Some(entry) = maps.entry(&VipKey::new(ifindex, vip))? else { return Ok(None) };
            let recorded = if any_yielded { maps.state(entry.slot)?.yielded } else { Yield::default() };
            Ok::<_, RunError>(Some(entry.as_seen(recorded, now_ns)))
        };
        let left_behind = source.left_behind(now);
        let Examined { all, begun, over } =
            self.answers.examine(surroundings, left_behind, said, read, (&known, now))?;
        self.log_silences(&begun, &over);
        Ok(all)
    }

    fn surroundings(&self, now_ns: u64) -> Result<Surroundings, RunError> {
        let attachments = self.plane.attachments();
        let with_fault = |(ifindex, _)| {
            let interface = self.view.interfaces.get(&ifindex);
            let mac = interface.map_or(MacAddr::ZERO, |interface| interface.mac);
            let attached = attachments.runs_on(&self.view, ifindex);
            (ifindex, (mac, InterfaceFault::of(interface, attached, mac, self.proving.proof(ifindex))))
        };
        let interfaces = attachments.attached().map(with_fault).collect();
        let maps = self.plane.maps();
        let any_yielded = maps.yields()?.total > 0;
        Ok(Surroundings { fence: maps.fence_state(now_ns)?, any_yielded, interfaces })
    }

    fn log_silences(&self, begun: &[IpAddr], over: &[IpAddr]) {
        if begun.len() > MOST_LINES {
            warn!(vips = begun.len(), "VIPs that this node has are not answered");
        } else {
            for vip in begun {
                let why = self.answers.reason(*vip).map(ToString::to_string);
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
