//! The steps that observe the network, the answers, and the memberships in groups.

use std::collections::BTreeMap;

use vipward_common::{DeadlineState, MacAddr, SeenEntry, VipKey};

use super::Agent;
use crate::{
    agent::{
        answers::{Examination, Examined, Known, Surroundings},
        effect::{Effect, Line, Reading},
        input::{Changed, Network},
        memberships::SHARE,
        segment::{Authority as _, Input},
        source::Source,
        work::{Waiting, Work, Writing},
    },
    base::time::Monotonic,
    host::{
        interfaces,
        net::InterfaceFault,
        placement::{self, Placement},
    },
    ownership,
    segment::groups::Command as Change,
    services::{self, HostNetwork},
};

impl Agent {
    pub(super) fn observe(&mut self, changed: Option<(Changed, Monotonic)>) {
        self.read(Reading::Network, Waiting::Network(changed));
    }

    /// Handles the network, if it could be observed.
    pub(super) fn on_observed(
        &mut self,
        observed: Option<Network>,
        changed: Option<(Changed, Monotonic)>,
        now: Monotonic,
    ) {
        let mut before = None;
        if let Some(Network { view, attachments, name_servers }) = observed {
            let old = std::mem::replace(&mut self.view, view);
            (self.attachments, self.name_servers) = (attachments, name_servers);
            let lost: Vec<_> = self.attachments.lost(&old, &self.view).map(Line::removed).collect();
            self.effects.extend(lost.into_iter().map(Effect::Log));
            self.on_segment(Input::Network(&old), now);
            before = Some(old);
        }
        // Containers come and go: a change that concerns no VIP must not cost a reading of all maps.
        let mut work = Vec::new();
        if before.is_some() {
            if !self.is_settled(now) {
                work.push(Work::RECONCILE);
            }
            work.push(Work::Segments);
        }
        if let Some((changed, at)) = changed {
            let before = before.unwrap_or_else(|| self.view.clone());
            work.push(Work::Notices(Box::new((changed, at, before))));
        }
        work.push(Work::Interfaces);
        self.work.next(work);
    }

    /// Returns true if the network, as it is now, needs nothing beyond the last full round.
    fn is_settled(&self, now: Monotonic) -> bool {
        let place = |placed: &BTreeMap<_, _>| self.place(placed, &|_| false);
        let is_well_attached =
            |wanted: &[u32]| self.attachments.is_well_attached(&self.view, self.config.attach, wanted);
        let attached = self.attached();
        self.host.is_settled(&self.segment, place, (&attached, is_well_attached), &self.context(now))
    }

    /// Places the wanted VIPs. `placed` has their present interfaces. `is_there` returns true for
    /// existing entries.
    pub(super) fn place(
        &self,
        placed: &BTreeMap<std::net::IpAddr, u32>,
        is_there: &dyn Fn(&VipKey) -> bool,
    ) -> Placement {
        let vips = self.source.wanted(&self.config);
        placement::place(&self.config.selection(), vips, &self.view, placed, is_there, self.max_vips)
    }

    /// Passes interfaces and addresses to the engine and to the Services.
    pub(super) fn report_interfaces(&mut self, now: Monotonic) {
        let Some(cluster) = self.cluster() else { return };
        // The order decides which interfaces of very many are reported.
        let attached: Vec<u32> = self.attachments.attached().map(|(ifindex, _)| ifindex).collect();
        let own = interfaces::node_interfaces(&self.view, &attached, |segment| {
            let visibility = &self.visibility;
            (visibility.resting.vips(segment).collect(), visibility.inquiry.findings(segment).collect())
        });
        let node = cluster.settings().node.clone();
        let network = HostNetwork::of(node, &self.view, &attached, self.name_servers.clone());
        self.with_cluster(|cluster| {
            cluster.notify_services(services::Event::HostNetwork(network), now);
            cluster.decide(ownership::Event::Interfaces(own), now);
        });
    }

    /// Begins to examine the answers, if that is due.
    pub(super) fn examine(&mut self, now: Monotonic) {
        if self.segment.is_started() && self.answers.is_open(now) {
            self.read(Reading::LeaseDeadline, Waiting::LeaseDeadline);
        }
    }

    pub(super) fn on_lease_deadline(
        &mut self,
        lease_deadline: DeadlineState,
        any_yielded: bool,
        now: Monotonic,
    ) {
        let with_fault = |(ifindex, _)| {
            let interface = self.view.interfaces.get(&ifindex);
            let mac = interface.map_or(MacAddr::ZERO, |interface| interface.mac);
            let runs = self.attachments.runs_on(&self.view, ifindex);
            (ifindex, (mac, InterfaceFault::of(interface, runs, mac, self.visibility.proof(ifindex))))
        };
        let interfaces = self.attachments.attached().map(with_fault).collect();
        let surroundings = Surroundings { lease_deadline, any_yielded, interfaces };
        let left_behind = self.source.left_behind(now);
        let said = |of: Option<&_>| self.source.said(&self.config, of, now);
        let examination = self.answers.begin(surroundings, left_behind, said, &self.segment, now);
        self.examine_next(Box::new(examination), now);
    }

    fn examine_next(&mut self, mut examination: Box<Examination>, now: Monotonic) {
        while let Some(keys) = examination.next_part() {
            if !keys.is_empty() {
                self.read(Reading::Seen(keys), Waiting::Seen(examination));
                return;
            }
            self.examine_part(&mut examination, &BTreeMap::new(), now);
        }
        let Examined { all, begun, over, gone } = self.answers.end(*examination, now);
        if !begun.is_empty() || !over.is_empty() || !gone.is_empty() {
            let reason = |vip| (vip, self.answers.reason(vip).map(ToString::to_string));
            let begun = begun.into_iter().map(reason).collect();
            self.log(Line::Silences { begun, over, gone });
        }
        let answers = &self.answers;
        if let Source::Cluster(cluster) = &mut self.source {
            cluster.show_answers(&all, answers, now);
        }
    }

    fn examine_part(
        &mut self,
        examination: &mut Examination,
        entries: &BTreeMap<VipKey, SeenEntry>,
        now: Monotonic,
    ) {
        let known = Known {
            view: &self.view,
            host: &self.host,
            segment: &self.segment,
            stale: &self.stale,
            unattached: self.attachments.unattached(),
            settles_by_age: self.source.settles_by_age(),
        };
        self.answers.on_entries(examination, entries, (&known, now));
    }

    pub(super) fn on_seen(
        &mut self,
        entries: &BTreeMap<VipKey, SeenEntry>,
        mut examination: Box<Examination>,
        now: Monotonic,
    ) {
        self.examine_part(&mut examination, entries, now);
        self.examine_next(examination, now);
    }

    /// Begins the writes of findings that are due.
    pub(super) fn show(&mut self, now: Monotonic) {
        let quiet = self.config.conflicts.quiet;
        if let Source::Cluster(cluster) = &mut self.source {
            cluster.show_due((&self.segment, &self.view, &self.answers), quiet, now);
            self.effects.extend(cluster.take_effects());
        }
    }

    /// Reads and changes memberships in groups, if that is due.
    pub(super) fn groups_due(&mut self, now: Monotonic) {
        if self.memberships.next_deadline().is_none_or(|due| now < due) {
            return;
        }
        if self.memberships.must_be_read(now) {
            self.read(Reading::Groups, Waiting::Groups);
        } else {
            self.change_groups(None, now);
        }
    }

    /// Changes as many memberships as there is time for, and then ends a full round.
    pub(super) fn change_groups(&mut self, then: Option<Box<Writing>>, now: Monotonic) {
        self.change_group(now + SHARE, then, now);
    }

    pub(super) fn change_group(&mut self, until: Monotonic, then: Option<Box<Writing>>, now: Monotonic) {
        match self.memberships.next(self.source.is_known()) {
            Some(change) if now < until => {
                self.wait(Effect::ChangeGroup(change), Waiting::Group { until, then });
                return;
            }
            Some(_) => self.memberships.put_off(now),
            None => {}
        }
        if let Some(writing) = then {
            self.end_full(*writing, now);
        }
    }

    pub(super) fn on_group(&mut self, change: Change, result: Result<(), String>) {
        match result {
            Ok(()) => self.memberships.on_done(change),
            Err(error) => self.memberships.on_refused(change, error),
        }
    }
}
