//! A node a of a cluster, beside a node b.

use std::time::Duration;

use vipward_common::{Policy, Role};

use super::{
    api::*,
    fixtures::SETTINGS,
    world::{BEGIN, World, key, ms, vip},
    *,
};
use crate::{
    agent::cluster::{self, Input as News, Seen},
    liveness::Scale,
    ownership::{Entry, Event, Found, Settings},
    records::{KeyId, LeaseRecord, Mode, NodeName, Offer, Wid},
    services,
};

pub(super) fn settings() -> Settings {
    Settings {
        node: "a".into(),
        lease: LEASE,
        renewal: RENEWAL,
        margin: MARGIN,
        policy: Policy::Hold,
        hold_for: HOLD_FOR,
        restart_lease: Duration::from_mins(1),
        stable_for: Duration::from_hours(9),
        handover_pace: RENEWAL,
        honour_exclude_label: true,
        clock_late: ms(4),
        most_new: 32,
        probing: SETTINGS.probe.longest(),
        wire: None,
        seed: 1,
    }
}

impl World {
    /// Returns a node a of a cluster that has not begun. It has these VIPs pinned as held, in its
    /// first session, and its lease deadline lies ahead.
    pub(super) fn cluster_with(settings: &Settings, pins: &[u8]) -> Self {
        let deadline_until = BEGIN + Duration::from_secs(3);
        let found = Found {
            session: Some(session("a", 1)),
            deadline: deadline_until,
            answers_until: deadline_until + HOLD_FOR,
            entries: pins.iter().map(|host| (vip(*host), Entry::Held)).collect(),
            ..Found::default()
        };
        let services = services::Agent::alone(services::Settings::default());
        let cluster = Cluster::start(settings.clone(), found, services, None, true, BEGIN);
        let mut world = Self::new(|network| Start {
            config: cluster::config(settings, SETTINGS.announce),
            network,
            max_vips: 8,
            yields_settled: 0,
            proofs: BTreeMap::new(),
            source: Source::Cluster(Box::new(cluster)),
            seed: 1,
        });
        for host in pins {
            world.pin(*host, Role::Held);
        }
        world.lease_deadline.deadline_ns = deadline_until.as_nanos();
        world.lease_deadline.grace_until_ns = (deadline_until + HOLD_FOR).as_nanos();
        world.lease_deadline.session = session("a", 1).number();
        world.api.put_lease(lease("a", None));
        world.api.put_lease(lease("b", None));
        world.api.renewing = ["b".into()].into();
        world.api.next_renewals = Some(BEGIN + RENEWAL);
        world
    }

    pub(super) fn cluster(pins: &[u8]) -> Self {
        Self::cluster_with(&settings(), pins)
    }

    /// Lists everything: the Nodes, Leases, claims and Services.
    pub(super) fn list(&mut self) -> Vec<String> {
        let mut seen = vec![node("a"), node("b")];
        seen.extend(self.api.leases.values().map(seen_lease));
        seen.extend(self.api.claims.values().map(seen_claim));
        seen.extend(self.api.services.iter().cloned().map(seen_service));
        seen.push(Seen::Listed { slices: false, all: true });
        self.see(seen)
    }

    pub(super) fn see(&mut self, seen: Vec<Seen>) -> Vec<String> {
        self.notify(Input::Cluster(News::Seen(seen)))
    }

    pub(super) fn owned(&mut self, event: Event) -> Vec<String> {
        self.notify(Input::Cluster(News::Owned(vec![event])))
    }

    /// Returns a running node a beside b. It holds these VIPs, whose claims have rested.
    pub(super) fn living(held_here: &[u8], held_there: &[u8]) -> Self {
        Self::living_with(&settings(), held_here, held_there)
    }

    pub(super) fn living_with(settings: &Settings, held_here: &[u8], held_there: &[u8]) -> Self {
        let mut world = Self::cluster_with(settings, held_here);
        world.notify(Input::Begin);
        for host in held_here {
            world.api.put_claim(claim(vip(*host), held("a"), 1));
        }
        for host in held_there {
            world.api.put_claim(claim(vip(*host), held("b"), 1));
        }
        world.api.services = held_here.iter().chain(held_there).map(|host| service(*host)).collect();
        world.list();
        world.after(REST + RENEWAL);
        for host in held_here {
            assert_eq!(world.entries[&key(*host)].role, Role::Held, "{host} is held");
        }
        world
    }

    /// Returns such a node that takes part in wire failover.
    pub(super) fn wired(held_here: &[u8], held_there: &[u8]) -> Self {
        let settings = Settings { wire: Some(Scale::Two), ..settings() };
        let mut world = Self::living_with(&settings, held_here, held_there);
        world.owned(Event::WireKeys(vec![KeyId(1)]));
        world.owned(Event::WireSelf(Some(wid("a"))));
        let offer = Offer {
            wid: wid("b"),
            mode: Mode::Off,
            round: 0,
            invited: vec![wid("a")],
            set: Vec::new(),
            need: 0,
            keys: vec![KeyId(1)],
        };
        world.api.put_lease(lease("b", Some(offer)));
        world.after(RENEWAL * 2);
        world
    }

    /// Ends the session of b, as another node.
    pub(super) fn end_b(&mut self) -> Vec<String> {
        self.api.renewing.clear();
        let record = self.api.leases[&NodeName::from("b")].clone();
        self.api.put_lease(LeaseRecord { session: None, ended: vec![session("b", 1)], ..record });
        let seen = seen_lease(&self.api.leases[&NodeName::from("b")]);
        self.see(vec![seen])
    }
}

fn wid(node: &str) -> Wid {
    Wid::from_number(u64::from(node.as_bytes()[0])).expect("a number that is not zero")
}
