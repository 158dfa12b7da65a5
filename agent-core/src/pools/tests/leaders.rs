//! Two allocators that both believe to lead, in every order of their reads and writes.

use proptest::prelude::*;

use super::{super::*, *};

#[derive(Clone, Debug)]
enum Step {
    Service(u8, bool),
    Read(usize),
    Write(usize),
    Release(u8),
    Crash(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..6_u8, any::<bool>()).prop_map(|(number, asks)| Step::Service(number, asks)),
        8 => (0..2_usize).prop_map(Step::Read),
        8 => (0..2_usize).prop_map(Step::Write),
        1 => (1..6_u8).prop_map(Step::Release),
        1 => (0..2_usize).prop_map(Step::Crash),
    ];
    prop::collection::vec(step, 1..120)
}

/// A leader with the events that it has yet to read, and the commands that it has yet to send.
#[derive(Default)]
struct Leader {
    allocator: Allocator,
    unread: Vec<Event>,
    unsent: Vec<ReservationWrite>,
}

struct Cluster {
    store: Store,
    services: BTreeMap<ServiceName, Request>,
    leaders: [Leader; 2],
}

impl Cluster {
    fn new(keep: &str) -> Self {
        let store = Store::default();
        let mut cluster = Self { store, services: BTreeMap::new(), leaders: Default::default() };
        for leader in 0..2 {
            cluster.start(leader, keep);
        }
        cluster
    }

    /// Starts a leader with all that the API server lists.
    fn start(&mut self, leader: usize, keep: &str) {
        let record = PoolRecord { keep: Some(keep.into()), ..pool("a", &["192.0.2.1-192.0.2.5"]) };
        let mut events = vec![Event::Time(1), Event::Pool(Box::new(record))];
        let asking = self.services.iter();
        events.extend(asking.map(|(name, request)| Event::Request(name.clone(), Box::new(request.clone()))));
        events.extend(self.store.objects.keys().map(|vip| self.store.event(*vip)));
        events.push(Event::Synced);
        self.leaders[leader] = Leader { unread: events, ..Leader::default() };
    }

    fn notify_all(&mut self, event: &Event) {
        for leader in &mut self.leaders {
            leader.unread.push(event.clone());
        }
    }

    fn step(&mut self, step: &Step, keep: &str) {
        match *step {
            Step::Service(number, asks) => {
                let name = service(&format!("s{number}"));
                let request = Request { families: vec![Family::V4], ..Request::default() };
                let event = if asks {
                    self.services.insert(name.clone(), request.clone());
                    Event::Request(name, Box::new(request))
                } else {
                    self.services.remove(&name);
                    Event::Withdrawn(name)
                };
                self.notify_all(&event);
            }
            Step::Read(leader) => self.read(leader),
            Step::Write(leader) => self.write(leader),
            Step::Release(number) => {
                let vip = IpAddr::from([192, 0, 2, number]);
                if self.store.objects.contains_key(&vip) {
                    self.store.wishes.insert(vip);
                    self.notify_all(&self.store.event(vip));
                }
            }
            Step::Crash(leader) => self.start(leader, keep),
        }
    }

    fn read(&mut self, leader: usize) {
        let leader = &mut self.leaders[leader];
        if leader.unread.is_empty() {
            return;
        }
        let event = leader.unread.remove(0);
        for command in leader.allocator.on_event(event, &Around::default()) {
            if let Command::Write(write) = command {
                leader.unsent.push(write);
            }
        }
    }

    fn write(&mut self, leader: usize) {
        if self.leaders[leader].unsent.is_empty() {
            return;
        }
        let write = self.leaders[leader].unsent.remove(0);
        let vip = write.vip;
        if self.store.carry_out(&write) {
            self.notify_all(&self.store.event(vip));
            self.leaders[leader].unread.push(Event::Answered(vip));
        } else {
            // The writer reads the object before it reports that its record was outdated.
            self.leaders[leader].unread.push(self.store.event(vip));
            self.leaders[leader].unread.push(Event::Answered(vip));
        }
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.leaders.iter().all(|leader| leader.unread.is_empty() && leader.unsent.is_empty()) {
                return;
            }
            for leader in 0..2 {
                self.read(leader);
                self.write(leader);
            }
        }
        panic!("the leaders never come to rest");
    }
}

proptest! {
    #[test]
    fn each_service_ends_with_one_address_and_no_address_is_lost(steps in steps(), keeps in any::<bool>()) {
        let keep = if keeps { "1h" } else { "0s" };
        let mut cluster = Cluster::new(keep);
        for step in &steps {
            cluster.step(step, keep);
        }
        cluster.settle();
        let mut has = BTreeMap::<ServiceName, usize>::new();
        for (vip, reservation) in &cluster.store.objects {
            let reservation = reservation.as_ref().expect("only reservations are made");
            let exists = cluster.services.contains_key(&reservation.service);
            prop_assert_eq!(reservation.kept.is_none(), exists, "{}: {:?}", vip, reservation);
            prop_assert!(exists || keeps, "{} is lost: {:?}", vip, reservation);
            if exists {
                *has.entry(reservation.service.clone()).or_default() += 1;
            }
        }
        let free = 5 - cluster.store.objects.len();
        let wishes = &cluster.store.wishes;
        prop_assert!(wishes.is_empty() || free == 0, "{:?} are not released, and {} are free", wishes, free);
        for name in cluster.services.keys() {
            let count = has.get(name).copied().unwrap_or_default();
            prop_assert!(count == 1 || count == 0 && free == 0, "{} has {}, and {} are free", name, count, free);
        }
    }
}
