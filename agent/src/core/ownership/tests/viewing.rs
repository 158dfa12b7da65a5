//! What the engine tells metrics and people about itself.

use super::world::*;
use crate::core::{
    cluster::Epoch,
    ownership::{Event, Standing},
};

impl World {
    fn standing(&self) -> Vec<Standing> {
        self.engine.standings(self.now).collect()
    }
}

fn standing(epoch: u64, has_holder: bool) -> [Standing; 1] {
    [Standing { vip: VIP, epoch: Epoch(epoch), has_holder }]
}

#[test]
fn a_vip_has_a_holder_while_the_node_that_its_claim_names_lives() {
    let mut world = World::living("a", &["b"]);
    assert_eq!(world.standing(), [], "nobody wants it");
    world.claim(held("b"), 3);
    world.want();
    assert_eq!(world.standing(), standing(3, true));
    world.after(REST);
    world.kill("b");
    world.after(just_before(REST));
    assert_eq!(world.standing(), standing(3, true), "it may live");
    world.after(ms(1));
    assert_eq!(world.standing(), standing(3, false), "it is dead, and nobody else has it yet");
    world.answer();
    world.answer();
    assert!(world.holds());
    assert_eq!(world.standing(), standing(4, true));
}

#[test]
fn a_vip_that_nobody_has_had_yet_has_no_holder() {
    let mut world = World::living("a", &["b"]);
    world.want();
    assert_eq!(world.standing(), standing(0, false));
    world.answer();
    assert_eq!(world.standing(), standing(1, true));
}

#[test]
fn the_view_names_claims_nodes_and_what_is_under_way() {
    let mut world = World::holding(&["b"]);
    let view = world.engine.view(world.now);
    assert_eq!(view.session, Some(session("a", 1).to_string()));
    assert!(view.fence_left_seconds > 0.0, "{view:?}");
    let nodes: Vec<_> = view.nodes.iter().map(|node| (node.node.as_str(), node.alive)).collect();
    assert_eq!(nodes, [("a", true), ("b", true)]);
    let vip = &view.vips[0];
    assert_eq!(
        (vip.claim, vip.holder.as_deref(), vip.entry.as_deref()),
        (Some("held"), Some("a"), Some("held"))
    );
    assert_eq!((vip.held_in_epoch, vip.pending), (Some(vip.epoch), None));

    world.tell(Event::Demand(VIP_2, Some(demand())));
    let view = world.engine.view(world.now);
    let pending: Vec<_> = view.vips.iter().map(|vip| (vip.vip, vip.pending)).collect();
    assert_eq!(pending, [(VIP, None), (VIP_2, Some("hold"))]);
}
