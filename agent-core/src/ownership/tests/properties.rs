//! Properties that hold for any events in any order. There is no panic, no second request about one
//! subject, and no busy loop (`World` checks these at every step). A held VIP was written before
//! the lease deadline.

use proptest::prelude::*;

use super::world::*;
use crate::{
    ownership::{Entry, Event, Found, StopReason, Wire},
    records::{ClaimState, Demand, LeaseRecord, NodeRecord, Reach},
};

const NODES: [&str; 3] = ["a", "b", "c"];

/// An event in a sequence.
#[derive(Clone, Debug)]
enum Happens {
    Wait(u64),
    Answer,
    LoseAnswer,
    Lose,
    Miss,
    Refuse,
    Lease { node: usize, life: u8, ended: u8, is_long: bool, is_seen: bool },
    DeleteLease(usize),
    Claim { state: usize, node: usize, life: u8, epoch: u64, is_seen: bool },
    SeeClaim,
    EraseClaim,
    AskToDelete,
    Wish(usize),
    Node { node: usize, cordoned: bool, ready: bool, is_out: bool },
    NodeGone(usize),
    Want { reach: Reach },
    Unwant,
    Link { has_carrier: bool, is_new: bool },
    NoLink,
    Received { what: usize, node: usize },
    Stop(usize),
}

fn happens() -> impl Strategy<Value = Happens> {
    let node = 0..NODES.len();
    prop_oneof![
        8 => (1_u64..6_001).prop_map(Happens::Wait),
        12 => Just(Happens::Answer),
        2 => Just(Happens::LoseAnswer),
        2 => Just(Happens::Lose),
        1 => Just(Happens::Miss),
        1 => Just(Happens::Refuse),
        4 => (node.clone(), 0_u8..3, 0_u8..3, any::<bool>(), any::<bool>())
            .prop_map(|(node, life, ended, is_long, is_seen)| Happens::Lease { node, life, ended, is_long, is_seen }),
        1 => node.clone().prop_map(Happens::DeleteLease),
        6 => (0_usize..4, node.clone(), 1_u8..3, 0_u64..5, any::<bool>())
            .prop_map(|(state, node, life, epoch, is_seen)| Happens::Claim { state, node, life, epoch, is_seen }),
        2 => Just(Happens::SeeClaim),
        1 => Just(Happens::EraseClaim),
        1 => Just(Happens::AskToDelete),
        1 => node.clone().prop_map(Happens::Wish),
        2 => (node.clone(), any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(node, cordoned, ready, is_out)| Happens::Node { node, cordoned, ready, is_out }),
        1 => node.clone().prop_map(Happens::NodeGone),
        3 => prop::sample::select(vec![Reach::Anywhere, Reach::On(["b".into()].into_iter().collect()), Reach::Unknown])
            .prop_map(|reach| Happens::Want { reach }),
        1 => Just(Happens::Unwant),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(has_carrier, is_new)| Happens::Link { has_carrier, is_new }),
        1 => Just(Happens::NoLink),
        3 => (0_usize..3, node).prop_map(|(what, node)| Happens::Received { what, node }),
        1 => (0_usize..30).prop_map(Happens::Stop),
    ]
}

fn claim_state(state: usize, node: usize, life: u8) -> ClaimState {
    let to = holder(NODES[node], life);
    let from = NODES[(node + 1) % NODES.len()];
    match state {
        0 => ClaimState::Held(to),
        1 => ClaimState::Offered { to, from: (from.into(), session(from, 1)) },
        2 => ClaimState::Released,
        _ => ClaimState::Blank,
    }
}

fn happen(world: &mut World, happens: &Happens) {
    match *happens {
        Happens::Wait(millis) => drop(world.after(ms(millis))),
        Happens::Answer if !world.is_idle() => drop(world.answer()),
        Happens::LoseAnswer if !world.is_idle() => drop(world.lose_answer()),
        Happens::Lose if !world.is_idle() => drop(world.lose()),
        Happens::Miss if !world.is_idle() => drop(world.miss()),
        Happens::Refuse if !world.is_idle() => drop(world.refuse()),
        Happens::Lease { node, life, ended, is_long, is_seen } => {
            let name = NODES[node];
            let ended: Vec<_> = (1..=ended).map(|life| session(name, life)).collect();
            let record = lease(name, (life > 0).then(|| session(name, life)), &ended);
            let duration = if is_long { RESTART_LEASE } else { LEASE };
            world.store_lease(LeaseRecord { duration, ..record });
            if is_seen {
                world.see_lease(name);
            }
        }
        Happens::DeleteLease(node) => drop(world.delete_lease(NODES[node])),
        Happens::Claim { state, node, life, epoch, is_seen } => {
            world.store_claim(claim_state(state, node, life), epoch);
            if is_seen {
                world.watch_shows(VIP);
            }
        }
        Happens::SeeClaim => drop(world.watch_shows(VIP)),
        Happens::EraseClaim => world.erase_claim(),
        Happens::AskToDelete if world.has_claim() => drop(world.ask_to_delete()),
        Happens::Wish(to) if world.has_claim() => drop(world.wish(NODES[to])),
        Happens::Answer
        | Happens::LoseAnswer
        | Happens::Lose
        | Happens::Miss
        | Happens::Refuse
        | Happens::AskToDelete
        | Happens::Wish(_) => {}
        Happens::Node { node: of, cordoned, ready, is_out } => {
            let record = NodeRecord { cordoned, ready, out_of_service: is_out, ..node(NODES[of]) };
            world.notify(Event::Node(record));
        }
        Happens::NodeGone(node) => drop(world.notify(Event::NodeGone(NODES[node].into()))),
        Happens::Want { ref reach } => drop(world.want_so(Demand { reach: reach.clone(), ..demand() })),
        Happens::Unwant => drop(world.notify(Event::Demand(VIP, None))),
        Happens::Link { has_carrier, is_new } => {
            let interfaces = changed_interface("a", |interface| {
                interface.carrier = has_carrier;
                interface.mac = mac(if is_new { "z" } else { "a" });
            });
            world.notify(Event::Interfaces(interfaces));
        }
        Happens::NoLink => drop(world.notify(Event::Interfaces(Vec::new()))),
        Happens::Received { what, node } => {
            let mac = mac(NODES[node]);
            let received = [Wire::Moved { mac }, Wire::Contested { mac }, Wire::Yielded { mac }][what];
            world.notify(Event::Wire { vip: VIP, received });
        }
        Happens::Stop(which) => {
            let reasons = [StopReason::Restart, StopReason::Leave, StopReason::Uninstall];
            if let Some(reason) = reasons.get(which) {
                world.notify(Event::Stop(*reason));
            }
        }
    }
}

/// Returns one of the worlds that sequences begin in.
fn begin(which: usize) -> World {
    let world = match which {
        0 => World::start("a", Found::default()),
        1 => World::start("a", World::pinned("a", &[(VIP, Entry::Held)])),
        2 => World::living("a", &["b", "c"]),
        _ => World::holding(&["b", "c"]),
    };
    world.by_hand()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_sequence_of_events_is_survived(
        which in 0_usize..4,
        sequence in proptest::collection::vec(happens(), 1..120),
        synced_at in 0_usize..20,
    ) {
        let mut world = begin(which);
        for (step, next) in sequence.iter().enumerate() {
            if step == synced_at {
                world.sync();
            }
            happen(&mut world, next);
            prop_assert!(
                !world.holds() || matches!(world.entry(), Some(Entry::Held | Entry::Handover { .. }) | None),
                "held, and its entry is {:?}", world.entry()
            );
        }
    }

    #[test]
    fn a_node_comes_to_rest_when_everything_is_well_again(
        which in 0_usize..4,
        sequence in proptest::collection::vec(happens(), 1..60),
    ) {
        let mut world = begin(which);
        world.sync();
        for next in sequence.iter().filter(|next| !matches!(next, Happens::Stop(_))) {
            happen(&mut world, next);
        }
        // No other node is there, and the API server works. A node may
        // wait for two restart Leases in a row.
        for other in ["b", "c"] {
            world.bury(other);
        }
        for _ in 0..15 {
            world.settle();
        }
        let lines = world.settle();
        let is_over = world.is_over();
        prop_assert!(is_over || world.holds(), "{lines:?}");
        prop_assert!(is_over || matches!(world.entry(), Some(Entry::Held)), "{:?}", world.entry());
        prop_assert!(lines.is_empty(), "{lines:?}");
    }
}

impl World {
    /// Passes ten seconds in which every request is answered at
    /// once, and the watches show everything.
    fn settle(&mut self) -> Vec<String> {
        self.see_lease("a");
        self.see_claim();
        self.notify(Event::Interfaces(vec![interface("a")]));
        self.notify(Event::Node(node("a")));
        self.want();
        let mut lines = Vec::new();
        for _ in 0..40 {
            let mut answers = 0;
            while !self.is_idle() {
                lines.extend(self.answer());
                answers += 1;
                assert!(answers < 50, "it asks and asks: {lines:?}");
            }
            lines.extend(self.after(ms(250)));
        }
        lines.retain(|line| !line.starts_with("lease deadline") && !line.starts_with("write lease of a"));
        lines
    }
}
