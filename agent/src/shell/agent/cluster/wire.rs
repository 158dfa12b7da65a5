//! Wire failover: passes the engine's plans to the thread that pings, and its findings to the engine.
//! Tells former holders that their sessions have ended.

use std::net::IpAddr;

use serde_json::Value;
use tracing::{info, warn};
use vipward_common::{MacAddr, VipKey};
use vipward_core::{
    base::time::Monotonic,
    liveness::{Finding, Plan, Scale, Word},
    ownership::Event,
    records::{KeyId, Session},
};

use super::{
    failover::{Failover, Running},
    source::Cluster,
};
use crate::shell::{
    agent::{error::RunError, event_loop::EventLoop, timing::now},
    kernel::{
        bpf::Pins,
        wire::{Fault, Keys},
    },
    kube::SECRET,
    pages::metrics::WireSnapshot,
};

/// Number of findings that are taken in before the commands are carried out.
const BATCH: usize = 64;

impl Cluster {
    /// Returns the state of wire failover for `/debug/state`.
    pub(super) fn wire_state(&self) -> Option<Value> {
        self.wire.as_ref().map(Failover::state)
    }

    /// Returns wire failover, for the metrics.
    pub(super) fn wire_snapshot(&self, now: Monotonic) -> WireSnapshot {
        let running = self.wire.as_ref().and_then(|wire| wire.running.as_ref());
        WireSnapshot {
            deposed: self.engine.wire_counts(),
            view: self.engine.wire_view(now),
            thread: running.and_then(|running| running.pinger.view()),
        }
    }

    pub(super) fn set_wire(&mut self, plan: Plan) {
        if let Some(wire) = &mut self.wire {
            wire.set_plan(plan);
        }
    }

    /// Notes from which session a VIP is taken, until its entry is written.
    pub(super) fn note_former(&mut self, vip: IpAddr, session: Session, mac: MacAddr) {
        if let Some(wire) = &mut self.wire {
            wire.former.insert(vip, (session, mac));
        }
    }

    /// Tells the former holder of a VIP that this node takes now. Returns its MAC.
    pub(super) fn tell_former(&mut self, key: VipKey, now: Monotonic) -> Option<MacAddr> {
        self.wire.as_mut()?.tell_former(key, now)
    }
}

impl EventLoop<Cluster> {
    /// Begins wire failover, if it is not off.
    pub(super) async fn begin_wire(&mut self, scale: Option<Scale>, pins: &Pins) -> Result<(), RunError> {
        self.source.wire = scale.and_then(|scale| Failover::start(scale, pins));
        let running = self.source.wire.as_ref().and_then(|wire| wire.running.as_ref());
        match running.map(|running| running.pinger.wid()) {
            Some(wid) => self.decide(Event::WireSelf(Some(wid))).await,
            // The program has the keys of an earlier agent until the Lease says that there is no part.
            None => Ok(()),
        }
    }

    /// Gives the program the keys, or takes them away. Reports what it has heard until then: there may be
    /// no thread that does.
    pub(super) fn set_heeding(&mut self, heeds: bool) -> Result<(), RunError> {
        if let Some(wire) = &mut self.source.wire {
            wire.heeds = heeds;
        }
        self.write_keys()?;
        if let Some(word) = Word::of(self.plane.maps().wire().told()?) {
            let told = Event::Witnessed(Finding::Ended(word));
            let commands = self.source.engine.on_event(told, now()?);
            self.source.interlock.push(commands);
        }
        Ok(())
    }

    /// Writes the keys into the program's map, if it is to have them.
    fn write_keys(&mut self) -> Result<(), RunError> {
        let keys = self.source.wire.as_ref().filter(|wire| wire.heeds).map(|wire| wire.keys.clone());
        let keys = keys.unwrap_or_default();
        let secrets = keys.iter().map(|(id, key)| (id, key.sip()));
        Ok(self.plane.maps_mut().wire_mut().set_keys(secrets)?)
    }

    /// Passes the findings of the thread to the engine.
    pub(super) async fn on_found(&mut self, first: Option<Finding>) -> Result<(), RunError> {
        let Some(first) = first else {
            // The thread has logged why.
            if let Some(wire) = &mut self.source.wire {
                wire.running = None;
            }
            return self.decide(Event::WireSelf(None)).await;
        };
        let now = now()?;
        let mut commands = self.source.engine.on_event(Event::Witnessed(first), now);
        for _ in 1..BATCH {
            let running = self.source.wire.as_mut().and_then(|wire| wire.running.as_mut());
            let Some(finding) = running.and_then(|running| running.findings.try_recv().ok()) else { break };
            commands.extend(self.source.engine.on_event(Event::Witnessed(finding), now));
        }
        self.execute(commands).await
    }

    /// Gives the program and the thread the keys of the Secret. The engine gets their numbers.
    pub(super) fn take_keys(&mut self, keys: &Keys, faults: &[Fault]) -> Result<(), RunError> {
        let Some(wire) = &mut self.source.wire else { return Ok(()) };
        if wire.faults != faults {
            for fault in faults {
                warn!(secret = SECRET, problem = %fault, "not a key of wire failover");
            }
            wire.faults = faults.to_vec();
        }
        if wire.keys == *keys {
            return Ok(());
        }
        let ids: Vec<u8> = keys.ids().into_iter().map(|KeyId(id)| id).collect();
        info!(keys = ?ids, "keys of wire failover");
        wire.keys = keys.clone();
        wire.lacks_key = false;
        if let Some(Running { pinger, .. }) = &wire.running {
            pinger.set_keys(keys.clone());
        }
        self.write_keys()
    }
}
