//! What the kubelet is answered.

use std::{collections::BTreeSet, net::Ipv4Addr};

use vipward_common::{FenceState, Role};

use super::{Cluster, Driver, Question, RunError, chain, now};
use crate::core::placement::Stance;

impl Driver<Cluster> {
    pub(super) fn on_question(&mut self, question: Question) {
        // Whoever asked may have gone.
        match question {
            Question::Live(answer) => {
                let _ = answer.send(self.not_alive());
            }
            Question::Ready(answer) => {
                let _ = answer.send(self.not_ready().unwrap_or_else(|error| vec![chain(error)]));
            }
        }
    }

    /// The driver turns, since it answers; the heartbeat must move too.
    fn not_alive(&self) -> Vec<String> {
        let limit = self.source.settings.renewal * 10;
        let since = now().map_or(limit, |now| now.saturating_since(self.source.beaten));
        if since < limit || !self.source.synced {
            return Vec::new();
        }
        vec![format!("the heartbeat has not moved for {} s", since.as_secs())]
    }

    /// What is not as it is believed to be, read back from the kernel.
    fn not_ready(&self) -> Result<Vec<String>, RunError> {
        let mut wrong = Vec::new();
        if self.plane.attached().next().is_none() {
            wrong.push("the program is attached to no interface".to_owned());
        }
        for (ifindex, _) in self.plane.attached() {
            let interface = self.view.interfaces.get(&ifindex);
            if !interface.is_some_and(|interface| interface.xdp_programs.contains(&self.program_id)) {
                wrong.push(format!("{} runs another program, or none", self.name(ifindex)));
            }
        }
        if !self.plane.is_pinned()? {
            wrong.push("pins are missing".to_owned());
        }
        if self.started {
            let held: BTreeSet<Ipv4Addr> = (self.plane.maps().entries()?.iter())
                .filter(|(_, entry)| entry.role == Role::Held)
                .map(|(key, _)| key.addr.into())
                .collect();
            let believed: BTreeSet<Ipv4Addr> = (self.source.assigned.iter())
                .filter(|(_, assigned)| assigned.stance == Stance::Held)
                .map(|(vip, _)| *vip)
                .collect();
            wrong.extend(believed.difference(&held).map(|vip| format!("{vip} is believed held and is not")));
            wrong.extend(
                held.difference(&believed).map(|vip| format!("{vip} is held and believed not to be")),
            );
        } else {
            wrong.push("the cluster has not been read yet".to_owned());
        }
        let fence = self.plane.maps().fence()?;
        if fence.state(now()?.as_nanos()) != FenceState::Valid {
            wrong.push("the fence is not valid: the Lease has not been renewed".to_owned());
        }
        Ok(wrong)
    }
}
