//! Eligibility: hard reasons move a VIP, and soft reasons move it only if another node can take it.

use std::{collections::BTreeMap, net::IpAddr};

use vipward_common::VipFault;

use super::world::*;
use crate::{
    ownership::{Event, Settings, StopReason},
    records::{
        ClaimState, Demand, Epoch, LeaseRecord, Local, NodeInterface, NodeRecord, PoolPolicy, Reach,
        Unreached,
    },
    segment::inquiry::Question,
};

const HANDED_OVER: [&str; 2] = ["entry handover b for 4.275s", "write claim: offered to b1 by a1, epoch 2"];
const LET_GO_OF: [&str; 2] = ["entry foreign ?", "write claim: released, epoch 1"];

/// A reason that makes a node unfit, or less fit.
type Reason = (&'static str, fn(&mut World, &'static str) -> Vec<String>);

fn excluded(name: &str) -> NodeRecord {
    let label = "node.kubernetes.io/exclude-from-external-load-balancers";
    NodeRecord { labels: [(label.to_owned(), String::new())].into(), ..node(name) }
}

/// Hard reasons with which the node can still answer: it hands over.
const HARD: [Reason; 7] = [
    ("the exclude label", |world, name| world.notify(Event::Node(excluded(name)))),
    ("the out-of-service taint", |world, name| {
        world.notify(Event::Node(NodeRecord { out_of_service: true, ..node(name) }))
    }),
    ("NetworkUnavailable", |world, name| {
        world.notify(Event::Node(NodeRecord { network_unavailable: true, ..node(name) }))
    }),
    ("going away", |world, name| match name {
        "a" => world.notify(Event::Stop(StopReason::Leave)),
        other => world.lease(LeaseRecord { leaving: true, ..world.stored_lease(other) }),
    }),
    ("no local endpoint", |world, name| {
        let local = ["a", "b"].into_iter().filter(|other| *other != name).map(Into::into).collect();
        world.want_so(Demand { reach: Reach::On(local), ..demand() })
    }),
    ("a Service that leaves it out", |world, name| {
        let other = if name == "a" { "b" } else { "a" };
        world.notify(Event::Node(NodeRecord { labels: BTreeMap::new(), ..node(name) }));
        let labels = [("zone".to_owned(), "z".to_owned())].into();
        world.notify(Event::Node(NodeRecord { labels, ..node(other) }));
        world.want_so(Demand { nodes: Some(selector("zone=z")), ..demand() })
    }),
    ("a pool that leaves it out", |world, name| {
        let other = if name == "a" { "b" } else { "a" };
        world.notify(Event::Node(labelled(other, &["zone"])));
        world.want_so(Demand { policy: Some(policy(&["zone"], &["eth0"], None)), ..demand() })
    }),
];

/// Hard reasons with which the node can no longer answer: it lets go at once.
const CUT_OFF: [Reason; 2] = [
    ("no carrier", |world, name| {
        world.notify(Event::Interfaces(changed_interface(name, |interface| interface.carrier = false)))
    }),
    ("no interface on the segment", |world, _| world.notify(Event::Interfaces(Vec::new()))),
];

const SOFT: [Reason; 2] = [
    ("cordoned", |world, name| world.cordon(name, true)),
    ("not ready", |world, name| world.notify(Event::Node(NodeRecord { ready: false, ..node(name) }))),
];

#[test]
fn a_holder_with_a_hard_reason_hands_over() {
    for (description, happens) in HARD {
        let mut world = World::holding(&["b"]);
        assert_eq!(happens(&mut world, "a"), HANDED_OVER, "{description}");
    }
}

#[test]
fn a_holder_with_a_hard_reason_lets_go_even_if_no_node_can_take_the_vip() {
    for (description, happens) in HARD {
        let mut world = World::holding(&[]);
        assert_eq!(happens(&mut world, "a"), LET_GO_OF, "{description}");
        assert!(!world.holds(), "{description}");
    }
}

#[test]
fn a_holder_that_is_cut_off_from_the_segment_lets_go_at_once() {
    for (description, happens) in CUT_OFF {
        let mut world = World::holding(&["b"]);
        let lines = happens(&mut world, "a");
        let entry = lines.iter().position(|line| line.starts_with("entry foreign ?"));
        let write = lines.iter().position(|line| line == "write claim: released, epoch 1");
        assert!(entry.is_some() && entry < write, "{description}: {lines:?}");
        assert!(!world.holds(), "{description}");
    }
}

#[test]
fn a_holder_with_a_soft_reason_hands_over_to_one_that_has_none() {
    for (description, happens) in SOFT {
        let mut world = World::holding(&["b"]);
        assert_eq!(happens(&mut world, "a"), HANDED_OVER, "{description}");
    }
}

#[test]
fn a_holder_with_a_soft_reason_keeps_the_vip_when_it_is_alone() {
    for (description, happens) in SOFT {
        let mut world = World::holding(&[]);
        assert_eq!(happens(&mut world, "a"), [""; 0], "{description}");
        assert_eq!(world.after(ms(600_000)), [""; 0], "{description}");
        assert!(world.holds(), "{description}");
    }
}

#[test]
fn a_holder_with_a_soft_reason_keeps_the_vip_when_all_have_one() {
    for (description, happens) in SOFT {
        let mut world = World::holding(&["b"]);
        world.notify(Event::Node(NodeRecord { ready: false, ..node("b") }));
        assert_eq!(happens(&mut world, "a"), [""; 0], "{description}");
        assert_eq!(world.after(just_before(STABLE_FOR)), [""; 0], "{description}");
        assert!(world.holds(), "{description}");
    }
}

impl World {
    /// Lets a node come last for VIPs on its interface.
    fn find_unreached(&mut self, name: &str, last_for: &[IpAddr]) -> Vec<String> {
        let interface = NodeInterface { last_for: last_for.to_vec(), ..interface(name) };
        if name == "a" {
            return self.notify(Event::Interfaces(vec![interface]));
        }
        let record = LeaseRecord { interfaces: vec![interface], ..self.stored_lease(name) };
        self.lease(record)
    }
}

#[test]
fn an_unreached_vip_moves_to_a_node_that_may_be_reached_and_stays_where_all_were_tried() {
    let many: Vec<IpAddr> = (1..=40).map(|last| IpAddr::from([198, 51, 100, last])).collect();
    let table: [(&[IpAddr], &[IpAddr], bool); 6] = [
        // (unreached at a, unreached at b, a hands over)
        (&[VIP], &[], true),
        (&[VIP, VIP_2], &[VIP_2], true),
        (&[VIP_2], &[], false),
        (&[VIP], &[VIP], false),
        // A long list stands for all.
        (&many, &[], true),
        (&many, &many[..9], false),
    ];
    for (at_a, at_b, moves) in table {
        let mut world = World::holding(&["b"]);
        world.find_unreached("b", at_b);
        let lines = [world.find_unreached("a", at_a), world.after_renewals(120)].concat();
        let is_handed_over = lines.iter().any(|line| line == HANDED_OVER[0]);
        assert_eq!(is_handed_over, moves, "{at_a:?}, {at_b:?}: {lines:?}");
        assert_eq!(world.holds(), !moves, "{at_a:?}, {at_b:?}");
    }
}

#[test]
fn what_another_node_found_counts_for_the_tenure_that_it_is_about() {
    let mut world = World::holding(&["b"]);
    let found = |world: &mut World, vips: &[(IpAddr, u64)]| {
        let unreached = vips.iter().map(|(vip, epoch)| Unreached {
            vip: *vip,
            epoch: Epoch(*epoch),
            fault: VipFault::Blind,
        });
        let interfaces = vec![NodeInterface { unreached: unreached.collect(), ..interface("b") }];
        let record = LeaseRecord { interfaces, ..world.stored_lease("b") };
        world.lease(record)
    };
    assert_eq!(found(&mut world, &[(VIP, 2), (VIP_2, 1)]), [""; 0], "it holds {VIP} in epoch 1");
    assert_eq!(found(&mut world, &[(VIP, 1)]), [format!("unreached: {VIP} blind")]);
    assert_eq!(world.renew("b"), [""; 0]);
    assert_eq!(found(&mut world, &[]), ["unreached: "]);
    found(&mut world, &[(VIP, 1)]);
    assert!(world.end("b").contains(&"unreached: ".to_owned()), "b is gone");
}

/// Returns a node's interface, which has an address of each family.
fn with_address(node: &str) -> NodeInterface {
    let own = ["192.0.2.7/24", "2001:db8::7/64"].map(|net| net.parse().expect("an address"));
    NodeInterface { subnets: own.into(), ..interface(node) }
}

#[test]
fn one_of_the_nodes_that_can_ask_for_a_vip_and_do_not_hold_it_asks_once_its_claim_has_rested() {
    const NODES: [&str; 4] = ["a", "b", "c", "d"];
    // One node has no address of its own there.
    for (holder, without) in [("a", ""), ("b", ""), ("c", ""), ("d", ""), ("d", "a"), ("d", "b"), ("d", "c")]
    {
        let of = |node: &str| if node == without { interface(node) } else { with_address(node) };
        let questions = NODES.map(|us| {
            let others: Vec<_> = NODES.into_iter().filter(|other| *other != us).collect();
            let mut world = World::living(us, &others);
            world.notify(Event::Interfaces(vec![of(us)]));
            for other in &others {
                let record = LeaseRecord { interfaces: vec![of(other)], ..world.stored_lease(other) };
                world.lease(record);
            }
            world.want();
            world.claim(held(holder), 3);
            let asks = |world: &World| world.engine.questions("eth0", None, world.now).0;
            if us != holder {
                assert_eq!(asks(&world), [], "{us}, {holder}: the former holder may answer");
            }
            world.after_renewals(10);
            assert_eq!(world.engine.questions("eth1", None, world.now).0, []);
            asks(&world)
        });
        let asked: Vec<_> = questions.into_iter().flatten().collect();
        let host = IpAddr::from([192, 0, 2, 7]);
        assert_eq!(asked, [Question { vip: VIP, mac: mac(holder), host, epoch: Epoch(3) }], "{holder}");
    }
}

#[test]
fn an_unreached_vip_moves_to_a_node_with_any_other_soft_reason() {
    for (description, happens) in SOFT {
        let mut world = World::holding(&["b"]);
        assert_eq!(happens(&mut world, "b"), [""; 0], "{description}");
        assert_eq!(world.find_unreached("a", &[VIP]), HANDED_OVER, "{description}");

        let mut world = World::holding(&["b"]);
        world.find_unreached("b", &[VIP]);
        world.find_unreached("a", &[VIP]);
        assert_eq!(happens(&mut world, "a"), HANDED_OVER, "{description}, where no node is reached");
    }
}

#[test]
fn a_holder_with_a_hard_reason_hands_over_even_to_one_with_a_soft_one() {
    for (description, happens) in &HARD[..4] {
        let mut world = World::holding(&["b"]);
        world.cordon("b", true);
        assert_eq!(happens(&mut world, "a"), HANDED_OVER, "{description}");
    }
}

#[test]
fn a_vip_that_is_free_is_not_taken_by_one_with_a_hard_reason() {
    for (description, happens) in HARD.into_iter().chain(CUT_OFF) {
        let mut world = World::living("a", &["b"]);
        world.claim(held("b"), 1);
        world.want();
        world.after(REST);
        happens(&mut world, "a");
        world.claim(ClaimState::Released, 1);
        let lines = world.after(ms(60_000));
        assert!(!lines.iter().any(|line| line.contains("held")), "{description}: {lines:?}");
    }
}

#[test]
fn a_vip_that_is_free_goes_to_one_without_a_soft_reason_first() {
    for (description, happens) in SOFT {
        let mut world = World::living("a", &["b"]);
        world.claim(held("b"), 1);
        world.want();
        world.after(REST);
        happens(&mut world, "a");
        world.claim(ClaimState::Released, 1);
        let lines = world.timeline(ms(1_000));
        assert_eq!(lines, ["0.500 write claim: held by a1, epoch 2"], "{description}");
    }
}

#[test]
fn an_excluded_node_can_be_notified_not_to_care() {
    let settings = Settings { honour_exclude_label: false, ..settings("a") };
    let mut world = World::start_with(&settings, "a", World::pinned("a", &[]));
    world.introduce(&[]);
    world.notify(Event::Node(excluded("a")));
    world.sync();
    let lines = world.want();
    assert_eq!(lines.last().map(String::as_str), Some("create claim: held by a1, epoch 1"));
}

#[test]
fn a_node_without_a_node_object_takes_nothing() {
    let mut world = World::living("a", &["b"]);
    world.notify(Event::NodeGone("a".into()));
    assert_eq!(world.want(), ["entry foreign ?"]);
    let lines = world.after(ms(60_000));
    assert!(!lines.iter().any(|line| line.contains("held")), "{lines:?}");
}

#[test]
fn a_service_that_names_interfaces_gets_no_other() {
    let mut world = World::living("a", &["b"]);
    let interfaces =
        vec![NodeInterface { name: named("eth1"), mac: mac("z"), ..interface("a") }, interface("a")];
    world.notify(Event::Interfaces(interfaces));
    world.after(REST);
    let interfaces = vec!["eth1".parse().expect("a pattern")];
    let lines = world.want_so(Demand { interfaces, ..demand() });
    assert_eq!(lines, ["entry foreign ?", "create claim: held by a1 at z, epoch 1"]);
}

/// An upgrade has renamed eth1, or the Service names it by the MAC.
#[test]
fn a_service_names_an_interface_by_an_alternative_name_or_its_mac() {
    for text in ["eth1", "eth[1-9]", &mac("z").to_string()] {
        let mut world = World::living("a", &["b"]);
        let renamed = NodeInterface {
            name: named("enp1s0"),
            altnames: vec![named("lan"), named("eth1")],
            mac: mac("z"),
            ..interface("a")
        };
        world.notify(Event::Interfaces(vec![interface("a"), renamed]));
        world.after(REST);
        let interfaces = vec![text.parse().expect("a pattern")];
        let lines = world.want_so(Demand { interfaces, ..demand() });
        assert_eq!(lines, ["entry foreign ?", "create claim: held by a1 at z, epoch 1"], "{text}");
    }
}

#[test]
fn a_holder_whose_interface_is_not_named_any_more_lets_go_of_the_vip() {
    let mut world = World::holding(&[]);
    let interfaces = vec!["eth1".parse().expect("a pattern")];
    let lines = world.want_so(Demand { interfaces, ..demand() });
    assert_eq!(lines, ["entry foreign ? on no interface", "write claim: released, epoch 1"]);
}

/// The Service's annotations and the pool, each of them with nodes and interfaces. Both must hold.
#[test]
fn a_service_and_its_pool_must_both_allow_the_node_and_the_interface() {
    type Row<'a> = (&'a str, &'a str, &'a [&'a str], &'a str, &'a [&'a str], Result<&'a str, String>);
    let both = || {
        let second = NodeInterface { name: named("eth1"), mac: mac("z"), ..interface("a") };
        vec![interface("a"), second]
    };
    let of_service = "annotation vipward.io/nodes leaves it out";
    let of_pool = "spec.announce.nodeSelector of VIPPool lan leaves it out";
    let named_by_service = "annotation vipward.io/interface leaves out eth0, which is in the VIP's subnet";
    let named_by_pool = |interface: &str| {
        format!(
            "spec.announce.interfaces of VIPPool lan leaves out {interface}, which is in the VIP's subnet"
        )
    };
    let rows: [Row<'_>; 12] = [
        ("no limit", "", &[], "", &[], Ok("eth0")),
        ("the pool has its interface", "", &[], "", &["eth1"], Ok("eth1")),
        ("the Service has its interface", "", &["eth1"], "", &[], Ok("eth1")),
        ("both, with one in common", "", &["eth*"], "", &["eth1", "bond*"], Ok("eth1")),
        ("both, with none in common", "", &["eth1"], "", &["eth0"], Err(named_by_pool("eth1"))),
        ("the pool has none of it", "", &[], "", &["bond*"], Err(named_by_pool("eth0"))),
        ("the Service has none of it", "", &["bond*"], "", &["eth0"], Err(named_by_service.into())),
        ("both have the node", "zone", &[], "zone", &["eth1"], Ok("eth1")),
        ("the Service leaves the node out", "none", &[], "zone", &[], Err(of_service.into())),
        ("the pool leaves the node out", "zone", &[], "none", &[], Err(of_pool.into())),
        ("both leave it out", "none", &[], "none", &[], Err(of_service.into())),
        ("the pool leaves out node and interface", "", &[], "none", &["bond*"], Err(of_pool.into())),
    ];
    for (description, nodes, interfaces, pool_nodes, pool_interfaces, expected) in rows {
        let demand = Demand {
            nodes: (!nodes.is_empty()).then(|| selector(nodes)),
            interfaces: interfaces.iter().map(|text| text.parse().expect("a pattern")).collect(),
            policy: Some(policy(&[pool_nodes], pool_interfaces, None)),
            ..demand()
        };
        let (node, interfaces) = (labelled("a", &["zone"]), both());
        let facts = crate::ownership::NodeFacts {
            exists: true,
            session: crate::records::Session::from_number(1),
            alive: true,
            leaving: false,
            interfaces: &interfaces,
            node: Some(&node),
            proxy: None,
            keeps: false,
        };
        let found = crate::ownership::eligibility(&facts, VIP, &demand, true);
        let found = found.map(|able| &*able.interface.name).map_err(|why| why.to_string());
        assert_eq!(found, expected, "{description}");
    }
}

#[test]
fn a_pool_lifts_no_condition_about_the_subnet_and_a_service_that_names_an_interface_does() {
    let elsewhere = NodeInterface { subnets: Vec::new(), ..interface("a") };
    let of_pool = Demand { policy: Some(policy(&[], &["eth0"], None)), ..demand() };
    assert_eq!(of_pool.interface(std::slice::from_ref(&elsewhere), VIP, None), None);
    let of_both = Demand { interfaces: vec!["eth*".parse().expect("a pattern")], ..of_pool };
    assert_eq!(of_both.interface(std::slice::from_ref(&elsewhere), VIP, None), Some(&elsewhere));
}

#[test]
fn a_holder_changes_its_interface_with_the_pool_and_keeps_the_vip() {
    let mut world = World::holding(&["b"]);
    let second = NodeInterface { name: named("eth1"), mac: mac("z"), ..interface("a") };
    world.notify(Event::Interfaces(vec![interface("a"), second]));
    world.after(REST);
    let lines = world.want_so(Demand { policy: Some(policy(&[], &["eth1"], None)), ..demand() });
    assert_eq!(
        lines,
        ["entry held", "write claim: held by a1 at z, epoch 1"],
        "an entry for another interface"
    );
    assert!(world.holds());
}

#[test]
fn a_pool_that_has_its_addresses_announced_nowhere_takes_the_vip_from_its_holder() {
    let mut world = World::holding(&["b"]);
    let nowhere = PoolPolicy { allowances: Vec::new(), ..PoolPolicy::clone(&policy(&[], &[], None)) };
    let lines = world.want_so(Demand { policy: Some(nowhere.into()), ..demand() });
    assert_eq!(lines, ["entry foreign ? on no interface", "write claim: released, epoch 1"]);
}

#[test]
fn a_local_service_without_any_endpoint_is_held_by_no_node_and_comes_back_with_its_endpoint() {
    let mut world = World::holding(&["b"]);
    let nowhere = Demand { reach: Reach::On(Local::default()), ..demand() };
    assert_eq!(world.want_so(nowhere), LET_GO_OF);
    world.answer();
    let here = Demand { reach: Reach::On(["a".into()].into_iter().collect()), ..demand() };
    let lines = world.want_so(here);
    let lines = [lines, world.after(REST)].concat();
    assert!(lines.contains(&"write claim: held by a1, epoch 2".to_owned()), "{lines:?}");
}

/// Returns what a world does in ten renewals, but for its Lease.
fn doings(world: &mut World) -> Vec<String> {
    let mut lines = world.after_renewals(10);
    lines.retain(|line| line.contains("claim") || line.contains("entry") || line.contains("tell"));
    lines
}

#[test]
fn while_endpoints_are_unknown_a_vip_stays_with_its_holder_and_no_node_takes_it_or_complains() {
    let unknown = || Demand { reach: Reach::Unknown, ..demand() };
    let prefers_b = || Demand { preferred: Some(selector("best")), ..demand() };
    let reasons: [Reason; 5] = [
        ("none", |_, _| Vec::new()),
        HARD[0],
        SOFT[0],
        ("a better node", |world, _| world.notify(Event::Node(labelled("b", &["best"])))),
        ("a wish", |world, _| world.wish("b")),
    ];
    for (description, happens) in reasons {
        let mut holder = World::holding(&["b"]);
        holder.want_so(prefers_b());
        assert_eq!(holder.want_so(Demand { reach: Reach::Unknown, ..prefers_b() }), [""; 0]);
        assert_eq!(happens(&mut holder, "a"), [""; 0], "{description}");
        holder.after(STABLE_FOR);
        assert_eq!(doings(&mut holder), [""; 0], "{description}");
        assert!(holder.holds(), "{description}");
    }
    let mut leaving = World::holding(&["b"]);
    leaving.want_so(unknown());
    assert_eq!(leaving.notify(Event::Stop(StopReason::Leave)), HANDED_OVER);

    let mut other = World::living("a", &["b"]);
    other.want_so(unknown());
    assert_eq!(doings(&mut other), [""; 0]);
    let lines = [other.want(), doings(&mut other)].concat();
    assert!(lines.iter().any(|line| line.contains("held by a1")), "{lines:?}");
}

#[test]
fn a_mac_that_changes_is_reported_in_the_claim_and_the_holder_stays() {
    let mut world = World::holding(&["b"]);
    let lines = world.notify(Event::Interfaces(changed_interface("a", |interface| interface.mac = mac("z"))));
    let lines = [lines, world.after(REST * 2)].concat();
    assert!(lines.contains(&"write claim: held by a1 at z, epoch 1".to_owned()), "{lines:?}");
    assert!(world.holds());
}
