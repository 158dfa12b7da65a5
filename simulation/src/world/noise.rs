//! What an agent does besides renewing and refreshing: a cluster that has settled does nothing else.

use vipward_core::{
    agent::{ClusterEffect, Effect, Line, Request},
    controller,
    segment::announce::{Command, Round},
};

use super::World;
use crate::schedule::names;

impl World {
    /// Notes an effect of a controller that is none of a quiet cluster.
    pub(super) fn note_noise_of_leader(&mut self, effect: &controller::Effect) {
        match effect {
            controller::Effect::Reserve(_)
            | controller::Effect::WriteStatus { .. }
            | controller::Effect::ListSlices(_)
            | controller::Effect::Problem(..)
            | controller::Effect::ProblemOver(..)
            | controller::Effect::LeaveStatus(_)
            | controller::Effect::Log(_) => self.record.noise(self.now, None),
            controller::Effect::Assigned(_) | controller::Effect::ShowPools => {}
        }
    }

    /// Notes an effect that is none of a quiet cluster, or a renewal.
    pub(super) fn note_noise(&mut self, node: usize, effect: &Effect) {
        match effect {
            Effect::Cluster(ClusterEffect::Ask(Request::WriteLease(write)))
                if write.node == names::node(node) =>
            {
                self.record.renewal(node);
            }
            effect if is_noise(effect) => {
                let what = (self.under_way.open == 0).then(|| (node, effect.clone()));
                self.record.noise(self.now, what);
            }
            _ => {}
        }
    }
}

fn is_noise(effect: &Effect) -> bool {
    match effect {
        Effect::Cluster(effect) => match effect {
            ClusterEffect::Ask(_)
            | ClusterEffect::ListSlices(_)
            | ClusterEffect::ListAnew
            | ClusterEffect::AvoidServer(_)
            | ClusterEffect::Watch(_)
            | ClusterEffect::SetHeeding(_)
            | ClusterEffect::NotifyFormer { .. }
            | ClusterEffect::Moved(_) => true,
            ClusterEffect::ShowHolder(..)
            | ClusterEffect::ForgetHolder(..)
            | ClusterEffect::Post(_)
            | ClusterEffect::Problem(..)
            | ClusterEffect::ProblemOver(..)
            | ClusterEffect::LeaveStatus(_)
            | ClusterEffect::AskProxy(_)
            | ClusterEffect::Took(_) => false,
        },
        Effect::Announce { command: Command::Send { round, .. }, .. } => *round != Round::Refresh,
        Effect::Announce { command: Command::Repeat { .. }, .. }
        | Effect::Write(_)
        | Effect::Probe(_)
        | Effect::AskHost { .. }
        // Agents of a file state their holds.
        | Effect::State { .. }
        | Effect::AttachAgain(_)
        | Effect::ChangeGroup(_)
        | Effect::Withdraw
        | Effect::Stopped(_)
        | Effect::NotAlone(_)
        | Effect::Log(Line::Notice(..)) => true,
        Effect::Read(_)
        | Effect::Prepare { .. }
        | Effect::SetDeadline(_)
        | Effect::PutProof(..)
        | Effect::PutFault(..)
        | Effect::AskAs { .. }
        | Effect::TellApart { .. }
        | Effect::PutTwin(..)
        | Effect::ShowPort(_)
        | Effect::ProbeHeld { .. }
        | Effect::Count
        | Effect::Listen { .. }
        | Effect::ReadFile
        | Effect::Problems(_)
        | Effect::Log(_) => false,
    }
}
