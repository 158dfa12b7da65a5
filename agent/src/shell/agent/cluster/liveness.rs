//! The failure detector on this node: the thread that pings, and its keys.

use std::future::pending;

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tracing::{info, warn};
use vipward_common::MacAddr;
use vipward_core::{
    liveness::{Finding, Frame, Plan, Scale, Thread},
    records::{KeyId, Session, Wid},
};

use crate::shell::{
    kernel::{
        bpf::{Pins, WireMaps},
        liveness::{Fault, Keys, Pinger, WireSocket},
    },
    kube::SECRET,
    logging::errors::chain,
};

/// The thread and its findings. Both are gone when the thread has ended.
pub(super) struct Running {
    pub(super) pinger: Pinger,
    pub(super) findings: UnboundedReceiver<Finding>,
}

/// The event loop's state of the failure detector.
pub(in crate::shell::agent) struct FailureDetector {
    pub(super) running: Option<Running>,
    /// Sends the frames that must come right before an announcement.
    pub(super) socket: WireSocket,
    pub(super) keys: Keys,
    pub(super) faults: Vec<Fault>,
    /// The key of the plan.
    pub(super) key: Option<KeyId>,
    /// True if the lack of a key has been logged.
    pub(super) lacks_key: bool,
    /// True if the program is to have the keys.
    pub(super) heeds: bool,
}

impl FailureDetector {
    /// Starts the thread. Without it, the node takes no part, and the reason is logged.
    pub(in crate::shell::agent) fn start(scale: Scale, pins: &Pins) -> Option<Self> {
        let refused = |problem: String| {
            warn!(problem, "the failure detector is off on this node; its Lease alone counts");
        };
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
            lacks_key: false,
            heeds: true,
        })
    }

    /// Returns this node's number as a monitor, if the thread runs.
    pub(in crate::shell::agent) fn wid(&self) -> Option<Wid> {
        self.running.as_ref().map(|running| running.pinger.wid())
    }

    /// Returns the state of the thread, if it runs.
    pub(in crate::shell::agent) fn thread(&self) -> Option<Thread> {
        self.running.as_ref()?.pinger.view()
    }

    pub(super) fn set_plan(&mut self, plan: Plan) {
        self.key = plan.key;
        if let Some(Running { pinger, .. }) = &self.running {
            pinger.set_plan(plan);
        }
    }

    /// Reports a lack of keys once, after the Secret has been listed.
    pub(super) fn on_listed(&mut self) {
        if self.keys.ids().is_empty() && !std::mem::replace(&mut self.lacks_key, true) {
            info!(
                secret = SECRET,
                "the failure detector has no key: dead nodes are found by their Leases alone, until the \
                 controller or `vipward wire init` creates the Secret"
            );
        }
    }

    /// Sends an expiry notice to the former holder of a VIP. If this fails, the thread repeats it.
    pub(super) fn notify_former(&self, ifindex: u32, mac: MacAddr, session: Session) {
        if let Some(secret) = self.key.and_then(|id| Some((id, self.keys.get(id)?))) {
            let _ = self.socket.send(ifindex, mac, secret, Frame::ended(session));
        }
    }

    /// Returns the state for `/debug/state`. It has no key.
    pub(in crate::shell::agent) fn state(&self) -> Value {
        let ids: Vec<u8> = self.keys.ids().into_iter().map(|KeyId(id)| id).collect();
        let view = self.running.as_ref().map(|running| (running.pinger.wid(), running.pinger.view()));
        json!({
            "keys": ids,
            "key": self.key.map(|KeyId(id)| id),
            "wid": view.as_ref().map(|(wid, _)| wid.to_string()),
            "thread": view.and_then(|(_, view)| view),
        })
    }
}

/// Returns the next finding, or none when the thread has ended. Safe to cancel.
pub(super) async fn found(detector: &mut Option<FailureDetector>) -> Option<Finding> {
    match detector.as_mut().and_then(|detector| detector.running.as_mut()) {
        Some(running) => running.findings.recv().await,
        None => pending().await,
    }
}
