//! The log and the Events about a cluster's VIPs and Services.

use std::net::IpAddr;

use tracing::{debug, error, info, warn};
use vipward_core::{
    base::time::Monotonic,
    ownership::{Engine, Event, Notice, StopReason},
    records::{NodeName, ServiceName},
    reports::{
        outbox::{Message, News, Object, Reason},
        refusals::{self, Refusals},
        repairs::Repairs,
        reporting,
    },
    services::{Index, Problem},
};

use crate::shell::{
    kube::{Bulletin, ConnectError, Kube},
    logging::lines::{Lines, Trouble},
};

/// Most VIPs that this node gets at once with one log line each.
const MOST_GAINS: u32 = 8;

const NO_HOLDER: &str = "no node can hold the VIP";

/// A writer of log lines and Events.
pub(super) struct Messages {
    node: NodeName,
    kube: Kube,
    pub(super) bulletin: Bulletin,
    refusals: Refusals,
    repairs: Repairs,
    /// VIPs that this node got, by their former holder.
    gains: Lines<Option<NodeName>>,
}

impl Messages {
    pub(super) fn start(kube: &Kube, node: NodeName, now: Monotonic) -> Result<Self, ConnectError> {
        Ok(Self {
            node,
            kube: kube.clone(),
            bulletin: Bulletin::start(kube, now)?,
            refusals: Refusals::default(),
            repairs: Repairs::default(),
            gains: Lines::start(
                MOST_GAINS,
                |from: Option<NodeName>, vips| {
                    info!(vips, from = from.as_ref().map(NodeName::as_str), "this node holds more VIPs");
                },
                now,
            ),
        })
    }

    /// Logs a notice of the engine, and writes Events about it.
    pub(super) fn notice(&mut self, services: &Index, notice: &Notice, now: Monotonic) {
        match notice {
            Notice::Holds { vip, services: _, from, cause } => {
                if self.gains.admits(from.clone(), now) {
                    let from = from.as_ref().map(NodeName::as_str);
                    info!(%vip, from, cause, "this node holds the VIP");
                } else {
                    debug!(%vip, cause, "this node holds the VIP");
                }
            }
            Notice::Nobody { vip, services: _, why } => {
                if self.bulletin.admits(Trouble::Is(NO_HOLDER), now) {
                    warn!(%vip, why, "{NO_HOLDER}");
                }
            }
            Notice::CannotMove { vip, services: _, to, why } => {
                warn!(%vip, %to, why, "the VIP cannot be moved");
            }
            Notice::Repaired { what, fault } => {
                if let Some(not_logged) = self.repairs.on_repaired(what, now) {
                    warn!(what, %fault, not_logged, "claim or Lease written again");
                }
            }
            Notice::WentBack => {
                warn!("the API server's store went back to an older state; everything is read anew");
            }
            Notice::SessionEnded { session } => {
                warn!(%session, "other nodes have ended this node's session, since it was silent for too long");
            }
            Notice::WireSlow { moves, lasts } => {
                warn!(
                    moves,
                    ?lasts,
                    "VIPs left this node for silence on the wire, though it lived; only its Lease counts for a while"
                );
            }
            Notice::FalseEnd { session, mute_for } => {
                warn!(
                    %session,
                    "a peer said that this node's session had ended, and its Lease shows that it lives: the frame \
                     was forged, or a peer is broken"
                );
                if let Some(lasts) = mute_for {
                    warn!(
                        ?lasts,
                        "this node takes no part in wire failover for a while; only its Lease counts"
                    );
                }
            }
            Notice::WireContact { interface, is_deaf: true } => {
                warn!(%interface, "no contact with peers that live: the interface counts as without carrier");
            }
            Notice::WireContact { interface, is_deaf: false } => {
                info!(%interface, "the carrier of the interface counts again");
            }
            Notice::NotAlone { session } => {
                error!(%session, "another agent runs under this node's name");
            }
        }
        if let Some(News { vip, services: names, reason, note }) = News::of(notice, &self.node) {
            self.post(services, (vip, names), (reason, &note), now);
        }
    }

    /// Writes an Event about a VIP, and one about each Service that wants it.
    pub(super) fn post(
        &mut self,
        services: &Index,
        (vip, names): (IpAddr, &[ServiceName]),
        (reason, note): (Reason, &str),
        now: Monotonic,
    ) {
        let claim = (Object::VirtualIp(vip), self.kube.claim_uid(vip));
        let wanting = names.iter().map(|name| (Object::Service(name.clone()), services.uid(name).cloned()));
        for (object, uid) in [claim].into_iter().chain(wanting) {
            self.bulletin.post(Message::new(object, uid, reason, note).about(vip), now);
        }
    }

    /// Reports the problems and writes the Events that are due.
    pub(super) fn on_time(&mut self, engine: &Engine, services: &Index, now: Monotonic) {
        if self.bulletin.next_report().is_some_and(|next| next <= now) {
            let alive = engine.alive(now);
            let is_responsible = |service: &ServiceName, problem: &Problem| {
                let claimed_by = services.vips(service).filter_map(|vip| engine.claimed_by(vip));
                reporting::is_responsible(services.has_controller(), &self.node, problem, claimed_by, &alive)
            };
            self.bulletin.report(services, is_responsible, now);
        }
        self.gains.on_time(now);
        self.bulletin.on_time(now);
    }

    /// Returns the next deadline of [`Messages::on_time`].
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        [self.bulletin.next_deadline(), self.gains.next_deadline()].into_iter().flatten().min()
    }

    /// Logs a refusal of one of the engine's requests, and its end.
    pub(super) fn answered(&mut self, event: &Event, now: Monotonic) {
        match self.refusals.on_answer(event, now) {
            Some(refusals::News::Refused(what, message)) => {
                error!(%what, %message, "refused by the API server; trying again");
            }
            Some(refusals::News::Over(what)) => info!(%what, "not refused by the API server any more"),
            Some(refusals::News::More) => {
                error!("the API server refuses more requests than are logged one by one; trying again");
            }
            None => {}
        }
    }
}

pub(super) fn reason_name(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Restart => "restart",
        StopReason::Leave => "the node goes away",
        StopReason::Uninstall => "Vipward is being removed",
    }
}
