//! The steps for each answer of the kernel, row by row.

use vipward_common::{ETHERTYPE_8021Q, VlanTag};

use super::*;
use crate::host::attaching::OwnProgram;

const CARD: u32 = 2;
const VLAN: u32 = 3;
const VETH: u32 = 4;

/// A kernel that refuses some modes, with the requests that it got.
#[derive(Default)]
struct Kernel {
    table: Attachments,
    refuses: Vec<Mode>,
    /// True if it refuses the keys of frames.
    is_full: bool,
    /// True if no program can be detached.
    is_stuck: bool,
    ids: u32,
    done: Vec<String>,
}

impl Programs for Kernel {
    type Error = &'static str;

    fn attachments(&self) -> &Attachments {
        &self.table
    }

    fn attachments_mut(&mut self) -> &mut Attachments {
        &mut self.table
    }

    fn attach(&mut self, interface: &Interface, mode: Mode) -> Result<(), &'static str> {
        if self.refuses.contains(&mode) {
            self.done.push(format!("refuses {mode} on {}", interface.name));
            return Err("mode");
        }
        self.done.push(format!("attach {mode} to {}", interface.name));
        self.ids += 1;
        self.table.insert(interface.index, OwnProgram { mode, id: self.ids, on_ports: false });
        Ok(())
    }

    fn lead(&mut self, ifindex: u32, keys: BTreeSet<VlanKey>) -> Result<(), &'static str> {
        if self.is_full && !keys.is_empty() {
            return Err("full");
        }
        if keys != self.table.keys_of(ifindex) {
            self.done.push(format!("{} keys lead to {ifindex}", keys.len()));
        }
        self.table.lead(ifindex, keys);
        Ok(())
    }

    fn detach_own(&mut self, ifindex: u32) -> Result<(), &'static str> {
        if self.is_stuck {
            return Err("stuck");
        }
        if self.table.own(ifindex).is_some() {
            self.done.push(format!("detach from {ifindex}"));
        }
        self.table.remove(ifindex);
        Ok(())
    }

    fn detach_mode(&mut self, ifindex: u32, mode: Mode) -> Result<(), &'static str> {
        self.done.push(format!("detach {mode} from {ifindex}"));
        Ok(())
    }

    fn offers_native(&self, _ifindex: u32) -> bool {
        true
    }

    fn is_about_the_mode(error: &&'static str) -> bool {
        *error == "mode"
    }

    fn in_words(error: &&'static str) -> String {
        (*error).to_owned()
    }
}

/// A host with a card, a VLAN device on it, and a veth.
struct World {
    kernel: Kernel,
    view: NetView,
    setting: Attach,
}

impl World {
    fn new() -> Self {
        let vlan = Interface {
            kind: "vlan".to_owned(),
            lower: Some(CARD),
            vlan: Some(VlanTag::new(ETHERTYPE_8021Q, 10)),
            ..Interface::sample(VLAN, "eth0.10")
        };
        let veth = Interface { kind: "veth".to_owned(), ..Interface::sample(VETH, "veth0") };
        let interfaces = [Interface::sample(CARD, "eth0"), vlan, veth].map(|it| (it.index, it)).into();
        let view = NetView { interfaces, ..NetView::default() };
        Self { kernel: Kernel::default(), view, setting: Attach::Auto }
    }

    /// Returns a host with these interfaces attached by a kernel that refuses some modes.
    fn with(wanted: &[u32], refuses: &[Mode]) -> Self {
        let mut world = Self::new();
        world.kernel.refuses = refuses.to_vec();
        world.attach(wanted).expect("no error but of the mode");
        world.kernel.done.clear();
        world
    }

    fn attach(&mut self, wanted: &[u32]) -> Result<Vec<Line>, &'static str> {
        let mut lines = Vec::new();
        attach(&mut self.kernel, &mut self.view, self.setting, wanted, &mut lines).map(|()| lines)
    }

    /// Returns the requests to the kernel that attach these interfaces.
    fn done(&mut self, wanted: &[u32]) -> Vec<String> {
        self.attach(wanted).expect("no error but of the mode");
        std::mem::take(&mut self.kernel.done)
    }

    fn forget_programs(&mut self, ifindex: u32) {
        let interface = self.view.interfaces.get_mut(&ifindex).expect("an interface");
        (interface.xdp_programs, interface.tc_programs) = (Vec::new(), Some(Vec::new()));
    }
}

#[test]
fn an_interface_gets_the_first_mode_that_the_kernel_accepts() {
    type Row = (u32, Attach, &'static [Mode], &'static [&'static str], bool);
    let rows: [Row; 6] = [
        (CARD, Attach::Auto, &[], &["attach native to eth0"], true),
        (CARD, Attach::Auto, &[Mode::Native], &["refuses native on eth0", "attach tc to eth0"], true),
        (CARD, Attach::Auto, &Mode::ALL, &["refuses native on eth0", "refuses tc on eth0"], false),
        (CARD, Attach::Native, &[Mode::Native], &["refuses native on eth0"], false),
        (CARD, Attach::Generic, &[], &["attach generic to eth0"], true),
        (VETH, Attach::Auto, &[], &["attach tc to veth0"], true),
    ];
    for (ifindex, setting, refuses, expected, is_attached) in rows {
        let mut world = World { setting, ..World::new() };
        world.kernel.refuses = refuses.to_vec();
        assert_eq!(world.done(&[ifindex]), expected, "{setting:?}");
        assert_eq!(world.kernel.table.runs_on(&world.view, ifindex), is_attached, "{setting:?} {refuses:?}");
        assert_eq!(world.kernel.table.unattached().contains_key(&ifindex), !is_attached);
        assert_eq!(world.kernel.table.was_refused(ifindex), is_attached && !refuses.is_empty());
        if is_attached {
            assert_eq!(world.done(&[ifindex]), [""; 0], "nothing is left to do");
        }
    }
}

#[test]
fn a_better_mode_is_tried_beside_the_one_that_runs_and_a_refused_one_is_not_tried_again() {
    let mut world = World::with(&[CARD], &[Mode::Native]);
    assert_eq!(world.done(&[CARD]), [""; 0], "it was refused");
    world.setting = Attach::Native;
    let lines = world.attach(&[CARD]).expect("no error but of the mode");
    assert_eq!(world.kernel.table.unattached().get(&CARD).map(String::as_str), Some("mode"), "{lines:?}");
    world.kernel.done.clear();
    world.kernel.refuses.clear();
    assert_eq!(world.done(&[CARD]), ["attach native to eth0", "detach tc from 2"]);
}

#[test]
fn a_program_of_an_earlier_agent_stays_where_a_better_mode_is_refused() {
    let mut world = World::new();
    world.kernel.table.insert(CARD, OwnProgram { mode: Mode::Tc, id: 50, on_ports: false });
    Mode::Tc.note(world.view.interfaces.get_mut(&CARD).expect("a card"), 50);
    world.kernel.refuses = vec![Mode::Native];
    let lines = world.attach(&[CARD]).expect("no error but of the mode");
    assert_eq!(lines, [Line::Stays("eth0".to_owned(), Mode::Tc, "mode".to_owned())]);
    world.kernel.done.clear();
    assert_eq!(world.done(&[CARD]), [""; 0], "it is not tried again");
    assert!(world.kernel.table.runs_on(&world.view, CARD));
}

#[test]
fn what_could_not_be_attached_is_known_although_the_round_ends_with_an_error() {
    let mut world = World::with(&[CARD, VETH], &[]);
    world.forget_programs(CARD);
    world.kernel.refuses = Mode::ALL.to_vec();
    world.kernel.is_stuck = true;
    assert_eq!(world.attach(&[CARD]), Err("stuck"), "the veth is not wanted any more");
    assert_eq!(world.kernel.table.unattached().get(&CARD).map(String::as_str), Some("stuck"));
}

#[test]
fn a_program_that_the_kernel_does_not_run_is_replaced() {
    let mut world = World::with(&[CARD], &[]);
    world.forget_programs(CARD);
    assert_eq!(world.done(&[CARD]), ["detach from 2", "attach native to eth0"]);
    world.forget_programs(CARD);
    let mut lines = Vec::new();
    attach_again(&mut world.kernel, &mut world.view, Attach::Auto, CARD, &mut lines).expect("no error");
    assert_eq!(world.kernel.done, ["detach from 2", "attach native to eth0"]);
    assert_eq!(lines.len(), 2, "{lines:?}");
}

#[test]
fn a_vlan_device_is_led_to_the_program_below_and_gets_its_own_where_that_fails() {
    let mut world = World::new();
    let below = ["attach native to eth0", "1 keys lead to 3"];
    assert_eq!(world.done(&[VLAN, CARD]), below, "the lower one comes first");
    assert_eq!(world.done(&[VLAN, CARD]), [""; 0]);
    let key = VlanKey { ifindex: CARD, outer: 10, inner: 0 };
    assert_eq!(world.kernel.table.keys_of(VLAN), [key].into());
    assert_eq!(world.done(&[VLAN]), ["attach tc to eth0.10", "0 keys lead to 3", "detach from 2"]);

    let mut world = World::new();
    world.kernel.is_full = true;
    let lines = world.attach(&[CARD, VLAN]).expect("no error but of the keys");
    assert_eq!(world.kernel.done, ["attach native to eth0", "attach tc to eth0.10"]);
    assert!(lines.contains(&Line::NotThrough("eth0.10".to_owned(), "full".to_owned())), "{lines:?}");
}

#[test]
fn what_is_not_wanted_or_gone_is_detached() {
    let mut world = World::with(&[CARD, VLAN, VETH], &[]);
    assert_eq!(world.done(&[CARD, VETH]), ["0 keys lead to 3"]);
    world.view.interfaces.remove(&VETH);
    assert_eq!(world.done(&[CARD, VETH]), ["detach from 4"]);
    assert_eq!(world.done(&[]), ["detach from 2"]);
    assert_eq!(world.kernel.table.attached().count(), 0);
}

#[test]
fn the_line_of_a_card_that_takes_tags_off_names_the_remedy() {
    let mut world = World::new();
    let card = world.view.interfaces.get_mut(&CARD).expect("a card");
    card.strips_tags = true;
    let lines = world.attach(&[CARD]).expect("no error");
    let attached = Line::Attached {
        interface: "eth0".to_owned(),
        through: None,
        vlan: None,
        mode: Mode::Tc,
        mac: Interface::sample(CARD, "eth0").mac,
        refused: None,
    };
    assert_eq!(lines, [attached, Line::StripsTags("eth0".to_owned())]);
}
