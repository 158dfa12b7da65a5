//! What a sabotage leaves out: effects that count as carried out, and inputs that never come.

use vipward_common::{EventKind, Role};
use vipward_core::{
    agent::{
        ClusterEffect, Effect, Input, Request,
        cluster::{self, Seen},
    },
    controller,
    host::plan::Action,
    ownership,
    segment::announce::{Command, Round},
    services,
};

use super::World;
use crate::{
    machine::At,
    schedule::{OMITTED_MS, Omitted, Sabotage, names},
};

impl World {
    /// Returns whether something is left out on a node now, and records that it is.
    fn omits(&mut self, node: usize, what: Option<Omitted>) -> bool {
        let is_time = self.now >= At::from_millis(OMITTED_MS);
        match (self.sabotage, what) {
            (Some(Sabotage::Always(omitted)), Some(what)) => omitted == what && is_time,
            (Some(Sabotage::Once(omitted)), Some(what)) if omitted == what && is_time => {
                let has_omitted = if names::is_controller(node) {
                    &mut self.controller_mut(node).has_omitted
                } else {
                    &mut self.nodes[node].has_omitted
                };
                !std::mem::replace(has_omitted, true)
            }
            _ => false,
        }
    }

    pub(super) fn omits_event(&mut self, who: usize) -> bool {
        who == names::CONTROLLER && self.omits(who, Some(Omitted::WriteEvent))
    }

    pub(super) fn omits_effect(&mut self, node: usize, effect: &Effect) -> bool {
        let what = match effect {
            Effect::SetDeadline(_) => Omitted::SetDeadline,
            Effect::Announce { command: Command::Send { round: Round::Taking(0), .. }, .. } => {
                Omitted::FirstRound
            }
            Effect::Announce { command: Command::Send { .. }, .. } => Omitted::LaterRound,
            Effect::Probe(_) => Omitted::Probe,
            Effect::AskHost { .. } => Omitted::AskHost,
            Effect::ProbeHeld { .. } => Omitted::ProbeHeld,
            Effect::Cluster(effect) => match effect {
                ClusterEffect::Ask(request) => match request {
                    Request::WriteLease(_) => Omitted::WriteLease,
                    Request::ReadLease(_) => Omitted::ReadLease,
                    Request::WriteClaim(_) => Omitted::WriteClaim,
                    Request::DeleteClaim(..) => Omitted::DeleteClaim,
                    Request::ReadClaim(_) => Omitted::ReadClaim,
                    Request::Show(..) | Request::WriteStatus { .. } => Omitted::Show,
                },
                ClusterEffect::Watch(_) => Omitted::Watch,
                ClusterEffect::SetHeeding(_) => Omitted::SetHeeding,
                _ => return false,
            },
            _ => return false,
        };
        self.omits(node, Some(what))
    }

    pub(super) fn omits_effect_of_leader(&mut self, who: usize, effect: &controller::Effect) -> bool {
        let what = match effect {
            controller::Effect::Reserve(write) => match &write.reservation {
                None => Omitted::Free,
                Some(reservation) if reservation.kept.is_some() => Omitted::Keep,
                Some(_) => Omitted::Reserve,
            },
            controller::Effect::WriteStatus { addresses: Some(_), .. } => Omitted::WriteStatus,
            controller::Effect::WriteStatus { addresses: None, .. } => Omitted::ClearStatus,
            controller::Effect::ListSlices(_) => Omitted::ListSlices,
            controller::Effect::Problem(..) => Omitted::Problem,
            controller::Effect::ProblemOver(..) => Omitted::ProblemOver,
            controller::Effect::LeaveStatus(_)
            | controller::Effect::Assigned(_)
            | controller::Effect::ShowPools
            | controller::Effect::Log(_) => return false,
        };
        self.omits(who, Some(what))
    }

    /// Does the same for a controller.
    pub(super) fn without_omitted_of_leader(
        &mut self,
        who: usize,
        input: controller::Input,
    ) -> Option<controller::Input> {
        match input {
            controller::Input::Seen(all) => {
                let kept = |seen: &Seen| !self.omits(who, read_by_leader(seen));
                Some(controller::Input::Seen(all.into_iter().filter(kept).collect()))
            }
            controller::Input::Replies(replies) => {
                let kept = |reply: &controller::Reply| {
                    let what = match reply {
                        controller::Reply::Reserved(..) => Omitted::ReservedReply,
                        controller::Reply::Status { .. } => Omitted::StatusReply,
                    };
                    !self.omits(who, Some(what))
                };
                Some(controller::Input::Replies(replies.into_iter().filter(kept).collect()))
            }
            controller::Input::Deadline if self.omits(who, Some(Omitted::LeaderDeadline)) => None,
            controller::Input::Deadline => Some(controller::Input::Deadline),
        }
    }

    pub(super) fn omits_observation(&mut self, node: usize) -> bool {
        self.omits(node, Some(Omitted::Observe))
    }

    pub(super) fn omits_action(&mut self, node: usize, action: &Action) -> bool {
        let what = match action {
            Action::PutEntry { entry, .. } => match entry.role {
                Role::Held => Omitted::PutHeld,
                Role::Foreign => Omitted::PutForeign,
                Role::Handover => Omitted::PutHandover,
            },
            Action::RemoveEntry { .. } => Omitted::RemoveEntry,
            Action::PutPeer { .. } => Omitted::PutPeer,
            Action::RemovePeer { .. } => Omitted::RemovePeer,
            Action::PutOwnMac { .. } => Omitted::PutOwnMac,
            Action::RemoveOwnMac { .. } | Action::AddBind { .. } | Action::RemoveBind { .. } => return false,
        };
        self.omits(node, Some(what))
    }

    /// Takes from an input what is left out. Returns none if that is all of it.
    pub(super) fn without_omitted(&mut self, node: usize, input: Input) -> Option<Input> {
        match input {
            Input::Program(events) => {
                let kept = |event: &vipward_common::Event| {
                    let what = match event.kind {
                        EventKind::Moved => Omitted::Moved,
                        EventKind::Contested => Omitted::Contested,
                        EventKind::Yielded => Omitted::Yielded,
                        EventKind::Sighted | EventKind::Conflict | EventKind::Probed => Omitted::Sighted,
                    };
                    !self.omits(node, Some(what))
                };
                let events: Vec<_> = events.into_iter().filter(kept).collect();
                (!events.is_empty()).then_some(Input::Program(events))
            }
            Input::Cluster(cluster::Input::Seen(all)) => {
                let kept = |seen: &Seen| !self.omits(node, kind_of(seen));
                Some(Input::Cluster(cluster::Input::Seen(all.into_iter().filter(kept).collect())))
            }
            Input::Cluster(cluster::Input::Replies { .. }) if self.omits(node, Some(Omitted::Reply)) => None,
            Input::Changed(_) if self.omits(node, Some(Omitted::Changed)) => None,
            Input::Deadline if self.omits(node, Some(Omitted::Deadline)) => None,
            input => Some(input),
        }
    }
}

fn kind_of(seen: &Seen) -> Option<Omitted> {
    let Seen::Object(owned, served) = seen else { return None };
    match (owned, served) {
        (Some(ownership::Event::Lease(_) | ownership::Event::LeaseGone(_)), _) => Some(Omitted::SeenLease),
        (Some(ownership::Event::Claim(_) | ownership::Event::ClaimGone(_)), _) => Some(Omitted::SeenClaim),
        (Some(ownership::Event::Node(_) | ownership::Event::NodeGone(_)), _) => Some(Omitted::SeenNode),
        (
            None,
            Some(
                services::Event::Service(_)
                | services::Event::ServiceGone(_)
                | services::Event::Slice(_)
                | services::Event::SliceGone { .. },
            ),
        ) => Some(Omitted::SeenService),
        _ => None,
    }
}

/// Returns what the controller does not read if it is left out.
fn read_by_leader(seen: &Seen) -> Option<Omitted> {
    let Seen::Object(_, Some(served)) = seen else { return None };
    Some(match served {
        services::Event::Service(_) => Omitted::LeaderSeesService,
        services::Event::ServiceGone(_) => Omitted::LeaderSeesServiceGone,
        services::Event::Claim { .. } => Omitted::LeaderSeesClaim,
        services::Event::ClaimGone(_) => Omitted::LeaderSeesClaimGone,
        services::Event::Pool(_) => Omitted::LeaderSeesPool,
        services::Event::Namespace { .. } => Omitted::LeaderSeesNamespace,
        _ => return None,
    })
}
