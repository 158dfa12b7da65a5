//! Wire failover: passes the engine's plans to the thread that pings, and its findings to the engine.
//! Tells former holders that their sessions have ended.

use std::{collections::BTreeMap, future::pending, net::IpAddr, time::Duration};

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tracing::{info, warn};
use vipward_common::{MacAddr, VipKey};
use vipward_core::{
    base::time::Monotonic,
    diagnosis::doctor::WirePeer,
    liveness::{Finding, Frame, Plan, Scale, Word},
    ownership::Event,
    records::{KeyId, Session},
};

use super::{Cluster, EventLoop, RunError, now};
use crate::shell::{
    bpf::{Pins, WireMaps},
    causes::chain,
    kube::SECRET,
    metrics::WireSnapshot,
    wire::{Fault, Keys, Pinger, View, WireSocket},
};

/// Number of findings that are taken in before the commands are carried out.
const BATCH: usize = 64;
/// The time within which one frame that tells the end of a session is enough for all its VIPs.
const TOLD: Duration = Duration::from_millis(10);

/// The thread and its findings. Both are gone when the thread has ended.
struct Running {
    pinger: Pinger,
    findings: UnboundedReceiver<Finding>,
}

/// The event loop's state of wire failover.
pub(super) struct Failover {
    running: Option<Running>,
    /// Sends the frames that must come right before an announcement.
    socket: WireSocket,
    keys: Keys,
    faults: Vec<Fault>,
    /// The key of the plan.
    key: Option<KeyId>,
    /// The former holders of VIPs that are about to be taken, by their sessions.
    former: BTreeMap<IpAddr, (Session, MacAddr)>,
    /// The last former holder that was told, with the interface and the time.
    told: Option<(Session, u32, Monotonic)>,
    /// True if the lack of a key has been logged.
    lacks_key: bool,
    /// True if the program is to have the keys.
    heeds: bool,
}

impl Failover {
    /// Starts the thread. Without it, the node takes no part, and the reason is logged.
    pub(super) fn start(scale: Scale, pins: &Pins) -> Option<Self> {
        let refused =
            |problem: String| warn!(problem, "no wire failover on this node; its Lease alone counts");
        let socket = WireSocket::to_send().inspect_err(|error| refused(chain(error))).ok()?;
        let maps = WireMaps::open(pins).inspect_err(|error| refused(chain(error))).ok()?;
        let started = Pinger::start(scale, maps).inspect_err(|error| refused(chain(error)));
        let (pinger, findings) = started.ok()?;
        Some(Self {
            running: Some(Running { pinger, findings }),
            socket,
            keys: Keys::default(),
            faults: Vec::new(),
            key: None,
            former: BTreeMap::new(),
            told: None,
            lacks_key: false,
            heeds: true,
        })
    }

    fn set_plan(&mut self, plan: Plan) {
        self.key = plan.key;
        if let Some(Running { pinger, .. }) = &self.running {
            pinger.set_plan(plan);
        }
    }

    /// Notes that the Secret has been looked for.
    pub(super) fn note_listed(&mut self) {
        if self.keys.ids().is_empty() && !std::mem::replace(&mut self.lacks_key, true) {
            info!(
                secret = SECRET,
                "no key for wire failover: nodes are found dead by their Leases alone, until the controller or \
                 `vipward wire init` creates the Secret"
            );
        }
    }

    /// Tells the former holder of a VIP that its session has ended. Returns its MAC.
    fn tell_former(&mut self, key: VipKey, now: Monotonic) -> Option<MacAddr> {
        let (session, mac) = self.former.remove(&key.addr)?;
        let is_told = self.told.is_some_and(|(told, ifindex, at)| {
            told == session && ifindex == key.ifindex && now.saturating_since(at) < TOLD
        });
        let secret = self.key.and_then(|id| Some((id, self.keys.get(id)?)));
        if let (Some(secret), false) = (secret, is_told) {
            // If this fails, the thread repeats it.
            let _ = self.socket.send(key.ifindex, mac, secret, Frame::ended(session));
            self.told = Some((session, key.ifindex, now));
        }
        Some(mac)
    }

    /// Returns the state for `/debug/state`. It has no key.
    fn state(&self) -> Value {
        let ids: Vec<u8> = self.keys.ids().into_iter().map(|KeyId(id)| id).collect();
        let view = self.running.as_ref().map(|running| (running.pinger.wid(), running.pinger.view()));
        json!({
            "keys": ids,
            "key": self.key.map(|KeyId(id)| id),
            "wid": view.as_ref().map(|(wid, _)| wid.to_string()),
            "thread": view.and_then(|(_, view)| view).as_ref().map(shown),
        })
    }
}

fn shown(view: &View) -> Value {
    let View { urgency, traffic, counts, unsent, refused, left_out } = view;
    let right = |right: Result<(), nix::Error>| right.map_or_else(nix::Error::desc, |()| "yes");
    let traffic: Vec<WirePeer> = traffic.iter().map(WirePeer::of).collect();
    json!({
        "runs_first": right(urgency.scheduled),
        "memory_locked": right(urgency.locked),
        "peers": traffic,
        "peers_left_out": left_out,
        "suspicions": counts.suspicions,
        "polls": counts.polls,
        "seconded": counts.seconded,
        "agreed": counts.agreed,
        "late": counts.late,
        "frames_unsent": unsent,
        "frames_refused": refused,
    })
}

/// Returns the next finding, or none when the thread has ended. Safe to cancel.
pub(super) async fn found(wire: &mut Option<Failover>) -> Option<Finding> {
    match wire.as_mut().and_then(|wire| wire.running.as_mut()) {
        Some(running) => running.findings.recv().await,
        None => pending().await,
    }
}

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
