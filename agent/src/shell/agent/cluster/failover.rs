//! Wire failover on this node: the thread that pings, its keys, and the former holders to tell.

use std::{collections::BTreeMap, future::pending, net::IpAddr, time::Duration};

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tracing::{info, warn};
use vipward_common::{MacAddr, VipKey};
use vipward_core::{
    base::time::Monotonic,
    diagnosis::doctor::WirePeer,
    liveness::{Finding, Frame, Plan, Scale},
    records::{KeyId, Session},
};

use crate::shell::{
    kernel::{
        bpf::{Pins, WireMaps},
        wire::{Fault, Keys, Pinger, View, WireSocket},
    },
    kube::SECRET,
    logging::causes::chain,
};

/// The time within which one frame that tells the end of a session is enough for all its VIPs.
const TOLD: Duration = Duration::from_millis(10);

/// The thread and its findings. Both are gone when the thread has ended.
pub(super) struct Running {
    pub(super) pinger: Pinger,
    pub(super) findings: UnboundedReceiver<Finding>,
}

/// The event loop's state of wire failover.
pub(super) struct Failover {
    pub(super) running: Option<Running>,
    /// Sends the frames that must come right before an announcement.
    pub(super) socket: WireSocket,
    pub(super) keys: Keys,
    pub(super) faults: Vec<Fault>,
    /// The key of the plan.
    pub(super) key: Option<KeyId>,
    /// The former holders of VIPs that are about to be taken, by their sessions.
    pub(super) former: BTreeMap<IpAddr, (Session, MacAddr)>,
    /// The last former holder that was told, with the interface and the time.
    pub(super) told: Option<(Session, u32, Monotonic)>,
    /// True if the lack of a key has been logged.
    pub(super) lacks_key: bool,
    /// True if the program is to have the keys.
    pub(super) heeds: bool,
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

    pub(super) fn set_plan(&mut self, plan: Plan) {
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
    pub(super) fn tell_former(&mut self, key: VipKey, now: Monotonic) -> Option<MacAddr> {
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
    pub(super) fn state(&self) -> Value {
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
