//! Evaluation of one Service: the addresses that it wants, and its problems.

use std::net::IpAddr;

use super::{
    super::{
        Command, Problem,
        reading::{Wanted, Wish, oversights, select},
        statuses::{self, Standing},
    },
    Index, ServiceEntry,
    notifying::notify_change,
};
use crate::{
    pools::{Lack, Surroundings as _},
    records::ServiceName,
};

impl Index {
    /// Parses a Service's fields, and decides if it is served. Returns the problems of its values.
    pub(super) fn read(&mut self, name: &ServiceName) -> Option<Vec<Problem>> {
        let entry = self.entries.get_mut(name)?;
        let problems = entry.reading.update(&entry.record);
        let namespace =
            self.settings.namespace_selector.is_none() || self.namespaces.contains(&name.namespace);
        entry.selection = select(&entry.record, entry.reading.is_ignored(), namespace, &self.settings);
        Some(problems)
    }

    pub(super) fn wish(&self, entry: &ServiceEntry) -> Wish {
        let ServiceEntry { reading, record, given, .. } = entry;
        self.role.wish(reading, record, self.standing(entry), &given.addresses, &self.settings)
    }

    /// Returns the addresses of a served Service's `spec.externalIPs` that a node could announce, if that
    /// is off. No other host is known to have them.
    fn unserved_external_ips(&self, entry: &ServiceEntry) -> Vec<IpAddr> {
        if self.settings.external_ips || self.standing(entry) == Standing::Bound {
            return Vec::new();
        }
        let is_announceable = |vip: &&IpAddr| entry.record.has_family(**vip) && !self.refuses(**vip);
        entry.record.external_ips.iter().filter(is_announceable).copied().collect()
    }

    pub(crate) fn assess(&mut self, name: &ServiceName) -> Vec<Command> {
        let mut commands = Vec::new();
        // What it was just given counts here.
        self.touched.services.remove(name);
        // A touched Service may be gone by now.
        let Some(mut problems) = self.read(name) else { return commands };
        self.touched.statuses.insert(name.clone());
        let Some(entry) = self.entries.get(name) else { return commands };
        let wish = if entry.selection.is_ok() {
            let is_elsewhere = self.standing(entry) == Standing::Bound;
            problems.extend(oversights(&entry.record, is_elsewhere, &self.settings));
            let lacks = self.lacks(entry).to_vec();
            let has_class = entry.record.class.is_some();
            let waits = |lack: &Lack| lack.may_pass() || !has_class && lack.may_be_anothers();
            let is_over = self.patience.is_over(name, lacks.iter().any(waits));
            let entry = self.entries.get(name).expect("invariant: it was there above");
            let lacks = lacks.into_iter().filter(|lack| is_over || !waits(lack));
            problems.extend(lacks.map(Problem::Lacking));
            let wish = self.wish(entry);
            problems.extend(self.insistence(entry, &wish.for_status));
            let mut unserved = self.unserved_external_ips(entry);
            unserved.retain(|vip| wish.wanted.iter().all(|wanted| wanted.vip != *vip));
            problems.extend((!unserved.is_empty()).then_some(Problem::ExternalIpsUnserved { unserved }));
            wish
        } else {
            // Problems of a Service that is not served are not reported.
            problems.clear();
            self.patience.is_over(name, false);
            Wish::default()
        };
        problems.extend(wish.problems);
        let Some(entry) = self.entries.get_mut(name) else { return commands };
        entry.was_ours |= !wish.wanted.is_empty();
        let whose = statuses::control_problems(
            &entry.record,
            entry.selection,
            entry.was_ours,
            self.turns.get(name),
            &self.settings,
        );
        if whose.iter().any(Problem::is_contest) {
            problems.retain(|problem| !problem.is_of_status());
        }
        problems.extend(whose);
        entry.for_status = wish.for_status;
        let notified = std::mem::replace(&mut entry.problems, problems.clone());
        notify_change(name, notified, &problems, &mut commands);
        let before = std::mem::replace(&mut entry.wanted, wish.wanted.clone());
        for wanted in before.iter().filter(|wanted| wish.wanted.iter().all(|now| now.vip != wanted.vip)) {
            self.leave(name, wanted.vip);
        }
        for Wanted { vip, place } in wish.wanted {
            let services = &mut self.vips.entry(vip).or_default().services;
            match services.binary_search_by(|(service, _)| service.cmp(name)) {
                Ok(known) => services[known].1 = place,
                Err(gap) => {
                    services.reserve_exact(1);
                    services.insert(gap, (name.clone(), place));
                }
            }
            self.touched.vips.insert(vip);
        }
        commands
    }
}
