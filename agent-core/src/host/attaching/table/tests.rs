use vipward_common::{ETHERTYPE_8021Q, VlanTag};

use super::*;

const CARD: u32 = 2;
const VLAN: u32 = 3;
const BOND: u32 = 4;
const PORTS: [u32; 2] = [5, 6];
const ON_BOND: u32 = 7;
const PROGRAM: u32 = 40;
const ANOTHER: u32 = 41;

/// A host with a VLAN device on a card and on a bond, and the attachments of its agent.
#[derive(Clone)]
struct World {
    view: NetView,
    attach: Attach,
    wanted: Vec<u32>,
    table: Attachments,
}

impl World {
    fn new() -> Self {
        let vlan = |index, lower| Interface {
            kind: "vlan".to_owned(),
            lower: Some(lower),
            vlan: Some(VlanTag::new(ETHERTYPE_8021Q, 10)),
            ..Interface::sample(index, &format!("if{lower}.10"))
        };
        let bond = Interface { kind: "bond".to_owned(), ..Interface::sample(BOND, "bond0") };
        let port =
            |index| Interface { master: Some(BOND), ..Interface::sample(index, &format!("port{index}")) };
        let interfaces = [Interface::sample(CARD, "eth0"), vlan(VLAN, CARD), bond, vlan(ON_BOND, BOND)];
        let interfaces = interfaces.into_iter().chain(PORTS.map(port)).map(|it| (it.index, it));
        let view = NetView { interfaces: interfaces.collect(), ..NetView::default() };
        Self { view, attach: Attach::Auto, wanted: vec![CARD, VLAN], table: Attachments::default() }
    }

    /// Returns a host with a native program on the card, which sees the frames of the VLAN device.
    fn on_card(mode: Mode) -> Self {
        let mut world = Self::new();
        world.run(CARD, mode, false);
        world.table.lead(VLAN, [tagged(CARD, 10)].into());
        world
    }

    /// Returns a host with a native program on the ports of the bond, which sees the frames of its VLAN
    /// device.
    fn on_ports() -> Self {
        let mut world = Self { attach: Attach::Native, wanted: vec![BOND, ON_BOND], ..Self::new() };
        world.run(BOND, Mode::Native, true);
        world.table.lead(BOND, PORTS.map(untagged).into());
        world.table.lead(ON_BOND, PORTS.map(|port| tagged(port, 10)).into());
        world
    }

    fn run(&mut self, ifindex: u32, mode: Mode, on_ports: bool) {
        self.table.insert(ifindex, OwnProgram { mode, id: PROGRAM, on_ports });
        mode.note(self.at(ifindex), PROGRAM);
    }

    fn at(&mut self, ifindex: u32) -> &mut Interface {
        self.view.interfaces.get_mut(&ifindex).expect("an interface")
    }

    fn is_well_attached(&self) -> bool {
        self.table.is_well_attached(&self.view, self.attach, &self.wanted)
    }

    fn step(&self, ifindex: u32) -> Option<Step<'static>> {
        self.table.step(&self.view, self.attach, &self.view.interfaces[&ifindex])
    }
}

fn untagged(ifindex: u32) -> VlanKey {
    VlanKey { ifindex, outer: 0, inner: 0 }
}

fn tagged(ifindex: u32, outer: u16) -> VlanKey {
    VlanKey { ifindex, outer, inner: 0 }
}

type Row<T> = (&'static str, fn(&mut World), T);

fn check<T: PartialEq + std::fmt::Debug>(world: &World, rows: &[Row<T>], of: impl Fn(&World) -> T) {
    for (what, change, expected) in rows {
        let mut world = world.clone();
        change(&mut world);
        assert_eq!(of(&world), *expected, "{what}");
    }
}

#[test]
fn a_program_on_a_card_is_right_while_it_runs_in_the_best_mode_and_sees_the_vlan_device() {
    let rows: [Row<bool>; 13] = [
        ("as it should be", |_| (), true),
        ("gone from the kernel", |it| it.at(CARD).xdp_programs.clear(), false),
        ("another program in its place", |it| it.at(CARD).xdp_programs = vec![ANOTHER], false),
        ("the card is gone", |it| _ = it.view.interfaces.remove(&CARD), false),
        ("the VLAN device is gone", |it| _ = it.view.interfaces.remove(&VLAN), false),
        ("another tag", |it| it.at(VLAN).vlan = Some(VlanTag::new(ETHERTYPE_8021Q, 11)), false),
        ("the VLAN device is down", |it| it.at(VLAN).up = false, false),
        ("the card takes tags off", |it| it.at(CARD).strips_tags = true, false),
        ("the card is not wanted", |it| it.wanted = vec![VLAN], false),
        ("tc is wanted", |it| it.attach = Attach::Tc, false),
        ("the VLAN device has no keys", |it| _ = it.table.lead(VLAN, BTreeSet::new()), true),
        ("nothing is attached", |it| it.table = Attachments::default(), true),
        (
            "it could not be attached elsewhere",
            |it| it.table.set_unattached([(BOND, String::new())].into()),
            true,
        ),
    ];
    check(&World::on_card(Mode::Native), &rows, World::is_well_attached);
}

#[test]
fn a_program_in_the_second_mode_is_right_once_the_better_one_was_refused() {
    let rows: [Row<bool>; 5] = [
        ("the better one was not tried", |_| (), false),
        ("it was refused", |it| it.table.refuse(CARD), true),
        ("it was refused elsewhere", |it| it.table.refuse(BOND), false),
        ("the card takes tags off", |it| it.at(CARD).strips_tags = true, true),
        ("tc programs cannot be read", |it| (it.attach, it.at(CARD).tc_programs) = (Attach::Tc, None), true),
    ];
    check(&World::on_card(Mode::Tc), &rows, World::is_well_attached);
}

#[test]
fn a_program_on_ports_is_right_while_it_has_the_frames_of_each_port_that_may_answer() {
    let rows: [Row<bool>; 7] = [
        ("as it should be", |_| (), true),
        ("gone from the kernel", |it| it.at(BOND).xdp_programs.clear(), false),
        ("not the program for ports", |it| it.run(BOND, Mode::Native, false), false),
        ("a port left", |it| it.at(PORTS[0]).master = None, false),
        ("a port came", |it| it.at(CARD).master = Some(BOND), false),
        ("one port is active", |it| it.at(BOND).active_port = Some(PORTS[0]), false),
        ("a port takes tags off", |it| it.at(PORTS[1]).strips_tags = true, false),
    ];
    check(&World::on_ports(), &rows, World::is_well_attached);
}

#[test]
fn the_next_step_follows_the_mode_the_kernel_and_what_was_refused() {
    let rows: [Row<Option<Step<'static>>>; 6] = [
        ("tc, and native is better", |_| (), Some(Step::Add(&[Mode::Native]))),
        ("native was refused", |it| it.table.refuse(CARD), Some(Step::Keep)),
        ("tc is wanted", |it| it.attach = Attach::Tc, Some(Step::Keep)),
        ("gone from the kernel", |it| it.at(CARD).tc_programs = Some(vec![ANOTHER]), Some(Step::Replace)),
        ("a card that became a bond", |it| it.at(CARD).kind = "bond".to_owned(), Some(Step::Keep)),
        ("no program of its own", |it| it.table.remove(CARD), None),
    ];
    check(&World::on_card(Mode::Tc), &rows, |it| it.step(CARD));
    let rows: [Row<Option<Step<'static>>>; 2] = [
        ("native", |_| (), Some(Step::Keep)),
        ("a card that became a bond", |it| it.at(CARD).kind = "bond".to_owned(), Some(Step::Replace)),
    ];
    check(&World::on_card(Mode::Native), &rows, |it| it.step(CARD));
}

#[test]
fn a_table_names_the_interfaces_whose_frames_a_program_sees_and_where() {
    let mut world = World::on_ports();
    world.run(CARD, Mode::Tc, false);
    world.table.lead(VLAN, [tagged(CARD, 10)].into());
    let table = &world.table;
    let points = [CARD, VLAN, BOND, PORTS[0], ON_BOND].map(|ifindex| table.point_of(ifindex));
    assert_eq!(points, [Some(CARD), Some(CARD), Some(BOND), None, Some(BOND)]);
    assert_eq!(table.points().collect::<Vec<_>>(), [(CARD, Mode::Tc), (BOND, Mode::Native)]);
    let attached = [(CARD, Mode::Tc), (BOND, Mode::Native), (VLAN, Mode::Tc), (ON_BOND, Mode::Native)];
    assert_eq!(table.attached().collect::<Vec<_>>(), attached, "each once, and own programs first");
    let native = [CARD, VLAN, BOND, ON_BOND].map(|segment| table.native_point(&world.view, segment));
    assert_eq!(native, [None; 4], "tc, and a bond");
    let card = World::on_card(Mode::Native);
    let native = [CARD, VLAN, BOND].map(|segment| card.table.native_point(&card.view, segment));
    assert_eq!(native.map(|it| it.map(|it| it.index)), [Some(CARD), Some(CARD), None]);
}

#[test]
fn only_native_programs_of_a_bond_see_frames_on_its_ports() {
    let keys = |world: &World, ifindex| world.table.own_keys(&world.view, &world.view.interfaces[&ifindex]);
    let both = BTreeSet::from(PORTS.map(untagged));
    let rows: [Row<BTreeSet<VlanKey>>; 4] = [
        ("native", |_| (), both),
        ("one port is active", |it| it.at(BOND).active_port = Some(PORTS[1]), [untagged(PORTS[1])].into()),
        ("tc", |it| it.run(BOND, Mode::Tc, false), BTreeSet::new()),
        ("no program", |it| it.table.remove(BOND), BTreeSet::new()),
    ];
    check(&World::on_ports(), &rows, |it| keys(it, BOND));
    assert_eq!(keys(&World::on_card(Mode::Native), CARD), BTreeSet::new());
}

#[test]
fn a_key_is_stale_when_no_interface_has_it() {
    let mut table = World::on_ports().table;
    assert_eq!(table.lead(BOND, [untagged(PORTS[0])].into()), [untagged(PORTS[1])]);
    table.insert_key(VLAN, tagged(PORTS[0], 10));
    assert_eq!(table.lead(ON_BOND, BTreeSet::new()), [tagged(PORTS[1], 10)], "a new device has the other");
    assert_eq!(table.unseen(), [0; 0]);
    table.remove(BOND);
    assert_eq!(table.unseen(), [VLAN, BOND]);
    assert_eq!(table.attached().count(), 0);
}

#[test]
fn a_refusal_lasts_as_long_as_the_interface() {
    let mut world = World::on_card(Mode::Tc);
    world.table.refuse(CARD);
    world.table.forget_gone(&world.view);
    assert!(world.table.was_refused(CARD));
    world.view.interfaces.remove(&CARD);
    world.table.forget_gone(&world.view);
    assert!(!world.table.was_refused(CARD));
}
