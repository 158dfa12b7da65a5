//! Rounds of listening: whether the network takes what this host sends from its VIPs.

use std::time::Duration;

use vipward_common::{MacAddr, Twin, VipEntry};

use super::{world::*, *};
use crate::{base::samples::last_octet, segment::proving::LISTEN};

const VIPS: &str = "vips: [{address: 10.0.0.10, force: true}, {address: 10.0.0.11, force: true}]\n";
const WITHOUT_ONE: &str = "vips: [{address: 10.0.0.11, force: true}]\n";

fn gateway() -> IpAddr {
    vip(99)
}

impl World {
    /// Returns an agent that runs, holds two VIPs and has a gateway. It has found these entries. Its first
    /// round is over.
    fn with_gateway(entries: BTreeMap<VipKey, VipEntry>) -> Self {
        let mut world = Self::file(VIPS);
        world.view.next_hops.insert(gateway());
        world.entries = entries;
        world.notify(Input::Begin);
        world.changed();
        world.after(ms(1_000));
        world.asked_round(&[]);
        world
    }

    /// Has the round that is under way or the next one. The gateway answers the own address, and those of
    /// these VIPs in whose names it is asked. Returns the lines.
    fn asked_round(&mut self, answered: &[u8]) -> Vec<String> {
        let round = self.listening();
        self.take();
        let mac = MacAddr([2, 0, 0, 0, 0, 254]);
        let mut lines =
            self.notify(Input::Answered { segment: ETH0, round, host: gateway(), mac, own: vip(1) });
        let asked = std::mem::take(&mut self.asked).into_iter().map(|(_, vip)| vip);
        let vips: BTreeSet<IpAddr> = asked.filter(|vip| answered.contains(&last_octet(*vip))).collect();
        lines.extend(self.notify(Input::Halfway { segment: ETH0, round, heard: vips.clone() }));
        self.after(LISTEN);
        let answers = [(gateway(), egress::Answers { own: 3, vips })].into();
        let egress = egress::Outcome { answers, has_lost: false };
        let (frames, counted) = (3, 3);
        let listened = Listened {
            segment: ETH0,
            round,
            frames,
            counted,
            answered: BTreeSet::new(),
            egress,
            of_others: BTreeMap::new(),
            twin: Twin::None,
        };
        lines.extend(self.notify(Input::Listened(listened)));
        only(lines, "ask 10|put fault|log unheard")
    }

    fn faults(&self) -> Vec<u8> {
        let faulty = self.entries.iter().filter(|(_, entry)| entry.fault().is_some());
        faulty.map(|(key, _)| last_octet(key.addr)).collect()
    }
}

#[test]
fn a_vip_that_a_gateway_does_not_answer_twice_is_unheard_until_it_does() {
    let mut world = World::with_gateway(BTreeMap::new());
    assert_eq!(world.asked_round(&[11]), ["ask 10.0.0.99 as 10 11", "ask 10.0.0.99 as 10"]);
    let found = ["put fault 10 unheard", "log unheard [10], over []"];
    let asked = ["ask 10.0.0.99 as 10", "ask 10.0.0.99 as 10"];
    assert_eq!(world.asked_round(&[11]), [&asked[..], &found].concat());
    assert_eq!(world.faults(), [10]);
    assert_eq!(world.roles(), ["10 held 01", "11 held 01"], "the program answers on");
    let silent = world.after_only(Duration::from_secs(6), "log silent");
    assert_eq!(silent, ["log silent [10], over []"]);
    let unanswered = world.agent.unanswered();
    assert_eq!(unanswered.len(), 1);
    assert!(unanswered[&vip(10)].starts_with("eth0: unheard"), "{unanswered:?}");

    // No reconciliation and no later agent forgets it.
    world.reload(Some(VIPS), true);
    assert_eq!(world.faults(), [10]);
    let mut next = World::with_gateway(world.entries.clone());
    assert_eq!(next.faults(), [10]);
    assert_eq!(next.asked_round(&[10, 11])[1..], ["put fault 10 none", "log unheard [], over [10]"]);
    assert_eq!(next.faults(), [0; 0]);

    let over = ["ask 10.0.0.99 as 10", "put fault 10 none", "log unheard [], over [10]"];
    assert_eq!(world.asked_round(&[10, 11]), over);
    assert_eq!(world.faults(), [0; 0]);
    let silent = world.after_only(Duration::from_secs(6), "log silent");
    assert_eq!(silent, ["log silent [], over [10]"]);
}

#[test]
fn a_vip_that_is_released_or_taken_again_has_no_fault() {
    let mut world = World::with_gateway(BTreeMap::new());
    world.asked_round(&[11]);
    world.asked_round(&[11]);
    assert_eq!(world.faults(), [10]);
    world.reload(Some(WITHOUT_ONE), false);
    assert_eq!(world.faults(), [0; 0]);
    world.reload(Some(VIPS), false);
    assert_eq!(
        (world.faults(), world.roles()),
        (vec![], vec!["10 held 01".to_owned(), "11 held 01".to_owned()])
    );
    // It is asked for anew, at once.
    world.after(ms(3_000));
    assert_eq!(world.asked_round(&[10, 11]), ["ask 10.0.0.99 as 10"]);
}
