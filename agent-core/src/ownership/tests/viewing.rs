//! Reports of the engine about itself, for metrics and users.

use super::world::*;
use crate::{
    ownership::{Event, HolderClaim, VipSummary},
    records::{Epoch, Session},
    segment::conflict::Right,
};

impl World {
    fn standing(&self) -> Vec<VipSummary> {
        self.engine.standings(self.now).collect()
    }

    /// Returns the rights of two nodes to announce the VIP.
    fn rights(&self, nodes: [&str; 2]) -> [Right; 2] {
        nodes.map(|node| self.engine.right(VIP, mac(node), self.now))
    }
}

fn standing(epoch: u64, has_holder: bool) -> [VipSummary; 1] {
    [VipSummary { vip: VIP, epoch: Epoch(epoch), has_holder }]
}

#[test]
fn a_vip_has_a_holder_while_the_node_that_its_claim_names_lives() {
    let mut world = World::living("a", &["b"]);
    assert_eq!(world.standing(), [], "no Service wants it");
    world.claim(held("b"), 3);
    world.want();
    assert_eq!(world.standing(), standing(3, true));
    world.after(REST);
    world.kill("b");
    world.after(just_before(REST));
    assert_eq!(world.standing(), standing(3, true), "it may live");
    world.after(ms(1));
    assert_eq!(world.standing(), standing(3, false), "it is dead, and no other node has it yet");
    world.answer();
    world.answer();
    assert!(world.holds());
    assert_eq!(world.standing(), standing(4, true));
}

#[test]
fn a_new_vip_has_no_holder() {
    let mut world = World::living("a", &["b"]);
    world.want();
    assert_eq!(world.standing(), standing(0, false));
    world.answer();
    assert_eq!(world.standing(), standing(1, true));
}

#[test]
fn a_claim_is_worth_what_is_known_of_the_session_that_it_names() {
    let said = |world: &World| world.engine.holder_claim(VIP, world.now);
    let here = |taken| Some((session("a", 1), HolderClaim::Here { taken }));
    let vips = |world: &World| -> [Vec<_>; 2] {
        [world.engine.claimed_here().collect(), world.engine.left_behind(world.now).collect()]
    };
    let world = World::holding(&["b"]);
    assert_eq!((said(&world), vips(&world)), (here(true), [vec![VIP], vec![]]));

    let mut world = World::living("a", &["b"]);
    world.claim(held("a"), 3);
    assert_eq!(said(&world), None, "no Service wants it");
    world.want();
    assert_eq!(said(&world), here(false), "this process has not written it");
    assert_eq!(vips(&world), [vec![VIP], vec![]]);

    let mut world = World::living("a", &["b"]);
    world.claim(held("b"), 3);
    world.want();
    world.after(REST);
    assert_eq!((said(&world), vips(&world)), (None, [vec![], vec![]]), "a living node has it");
    world.kill("b");
    world.after(REST);
    assert_eq!(said(&world), None, "it may live until it is expired");
    world.answer();
    let b: (Session, HolderClaim) = (session("b", 1), HolderClaim::Ended("b".into()));
    assert_eq!((said(&world), vips(&world)), (Some(b), [vec![], vec![VIP]]));
    world.answer();
    assert_eq!((said(&world), vips(&world)), (here(true), [vec![VIP], vec![]]));
}

#[test]
fn the_view_names_claims_nodes_and_what_is_under_way() {
    let mut world = World::holding(&["b"]);
    let view = world.engine.view(world.now);
    assert_eq!(view.session, Some(session("a", 1).to_string()));
    assert!(view.lease_deadline_left_seconds > 0.0, "{view:?}");
    let nodes: Vec<_> = view.nodes.iter().map(|node| (node.node.as_str(), node.alive)).collect();
    assert_eq!(nodes, [("a", true), ("b", true)]);
    let vip = &view.vips[0];
    assert_eq!(
        (vip.claim, vip.holder.as_deref(), vip.entry.as_deref()),
        (Some("held"), Some("a"), Some("held"))
    );
    assert_eq!((vip.held_in_epoch, vip.pending), (Some(vip.epoch), None));

    world.notify(Event::Demand(VIP_2, Some(demand())));
    let view = world.engine.view(world.now);
    let pending: Vec<_> = view.vips.iter().map(|vip| (vip.vip, vip.pending)).collect();
    assert_eq!(pending, [(VIP, None), (VIP_2, Some("hold"))]);
}

#[test]
fn a_peer_has_the_right_to_a_vip_that_its_claim_gives_it() {
    let (given, not_given) = (Right::Given, |epoch| Right::NotGiven(Epoch(epoch)));
    let mut world = World::living("a", &["b", "c"]);
    assert_eq!(world.rights(["b", "c"]), [given, given], "no Service wants it: it may be anybody's");
    world.want();
    assert_eq!(world.rights(["b", "c"]), [not_given(0), not_given(0)], "there is no claim");
    world.claim(held("b"), 3);
    while !world.is_idle() {
        world.answer();
    }
    assert_eq!(world.rights(["b", "c"]), [given, not_given(3)]);
    world.claim(offered("b", "c"), 4);
    assert_eq!(world.rights(["b", "c"]), [not_given(4), given], "the successor announces it when it has it");
    world.claim(held("c"), 4);
    assert_eq!(world.rights(["b", "c"]), [not_given(4), given]);
}

#[test]
fn a_node_that_cannot_read_claims_knows_only_what_it_has_read() {
    let unknown = |epoch| Right::Unknown(Epoch(epoch));
    let mut world = World::living("a", &["b", "c"]).by_hand();
    world.claim(held("b"), 3);
    world.want();
    world.after(ms(5_000));
    assert!(world.lease_deadline().deadline < world.now, "the lease deadline has passed");
    assert_eq!(world.rights(["b", "c"]), [Right::Given, unknown(3)]);

    let world = World::start("a", World::pinned("a", &[]));
    assert_eq!(world.rights(["b", "c"]), [unknown(0), unknown(0)], "nothing has been listed yet");
}
