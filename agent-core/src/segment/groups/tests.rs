use proptest::prelude::*;

use super::*;

const ETH0: u32 = 2;
const ETH1: u32 = 3;

fn ip(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

fn join(ifindex: u32, vip: &str) -> Command {
    Command::Join(Membership::of(ifindex, ip(vip)))
}

fn leave(ifindex: u32, vip: &str) -> Command {
    Command::Leave(Membership::of(ifindex, ip(vip)))
}

fn all(groups: &mut Groups) -> Vec<Command> {
    let mut commands = Vec::new();
    while let Some(command) = groups.next(true) {
        groups.on_done(command);
        commands.push(command);
    }
    commands
}

#[test]
fn a_group_has_the_last_24_bits_and_is_found_in_its_address() {
    let table = [
        ("2001:db8::10", "ff02::1:ff00:10"),
        ("2001:db8::1:ffab:cdef", "ff02::1:ffab:cdef"),
        ("fe80::1234:5678", "ff02::1:ff34:5678"),
    ];
    for (vip, group) in table {
        assert_eq!(Group::of(ip(vip)).to_string(), group);
        assert_eq!(Group::from_address(ip(group)), Some(Group::of(ip(vip))));
        assert_eq!(Group::from_address(ip(vip)), None, "{vip}");
    }
    for other in ["ff02::1", "ff02::1:fe00:10", "ff05::1:ff00:10", "ff02::2:ff00:10"] {
        assert_eq!(Group::from_address(ip(other)), None, "{other}");
    }
}

/// Changes of VIPs: the interface, the VIP, and whether it is wanted.
type Changes<'a> = &'a [(u32, &'a str, bool)];

#[test]
fn memberships_follow_the_vips() {
    let (a, shares, b) = ("2001:db8::10", "2001:db8:1::10", "2001:db8::20");
    let table: [(&str, Changes, &[Command]); 9] = [
        ("the first VIP joins", &[(ETH0, a, true)], &[join(ETH0, a)]),
        ("once", &[(ETH0, a, true)], &[]),
        ("another VIP of the group shares it", &[(ETH0, shares, true)], &[]),
        ("the first is released", &[(ETH0, a, false)], &[]),
        ("the last one leaves", &[(ETH0, shares, false)], &[leave(ETH0, a)]),
        ("what was never wanted costs nothing", &[(ETH0, b, false)], &[]),
        (
            "joins come first",
            &[(ETH0, a, true), (ETH1, a, true), (ETH0, b, true)],
            &[join(ETH0, a), join(ETH0, b), join(ETH1, a)],
        ),
        ("leaves come last", &[(ETH0, a, false), (ETH1, b, true)], &[join(ETH1, b), leave(ETH0, a)]),
        (
            "a join that is not needed any more is not made",
            &[(ETH0, a, true), (ETH0, a, false), (ETH0, b, false)],
            &[leave(ETH0, b)],
        ),
    ];
    let mut groups = Groups::default();
    for (about, changes, expected) in table {
        for (ifindex, vip, wish) in changes {
            groups.on_vip(*ifindex, ip(vip), *wish);
        }
        assert_eq!(all(&mut groups), expected, "{about}");
    }
}

#[test]
fn leftovers_are_left_only_when_that_is_allowed() {
    let mut groups = Groups::default();
    let vip = ip("2001:db8::10");
    groups.on_vip(ETH0, vip, true);
    groups.on_observed(BTreeSet::from([Membership::of(ETH0, vip), Membership::of(ETH1, vip)]));
    assert_eq!(groups.next(false), None, "the configuration has not been read");
    assert_eq!(all(&mut groups), [leave(ETH1, "2001:db8::10")]);
}

#[test]
fn a_refused_command_is_tried_again_after_the_next_reading() {
    let mut groups = Groups::default();
    let vip = "2001:db8::10";
    groups.on_vip(ETH0, ip(vip), true);
    groups.on_refused(join(ETH0, vip), "no such device".to_owned());
    assert_eq!(groups.next(true), None);
    assert_eq!(groups.refused().collect::<Vec<_>>(), [(join(ETH0, vip), "no such device")]);
    groups.on_observed(BTreeSet::new());
    assert_eq!(groups.refused().count(), 0);
    assert_eq!(all(&mut groups), [join(ETH0, vip)]);
}

#[derive(Clone, Debug)]
enum Step {
    Vip(u32, u8, bool),
    Vips(BTreeSet<(u32, Ipv6Addr)>),
    /// The interface goes down, and the kernel forgets its memberships.
    Down(u32),
    Work(usize),
    Observe,
}

/// Returns one of 16 VIPs in 8 groups.
fn vip(number: u8) -> Ipv6Addr {
    let number = u16::from(number);
    Ipv6Addr::new(0x2001, 0xdb8, number / 8, 0, 0, 0, 0, number % 8)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let on_one = || (ETH0..=ETH1, 0_u8..16);
    let step = prop_oneof![
        4 => (on_one(), any::<bool>()).prop_map(|((ifindex, number), wanted)| Step::Vip(ifindex, number, wanted)),
        1 => proptest::collection::vec(on_one(), 0..12)
            .prop_map(|vips| Step::Vips(vips.into_iter().map(|(ifindex, n)| (ifindex, vip(n))).collect())),
        1 => (ETH0..=ETH1).prop_map(Step::Down),
        3 => (0_usize..6).prop_map(Step::Work),
        1 => Just(Step::Observe),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    /// The kernel refuses every change on one interface at first.
    #[test]
    fn the_kernel_gets_the_wanted_memberships_from_any_leftovers(
        leftovers in proptest::collection::btree_set((ETH0..=ETH1, 0_u8..16), 0..10),
        steps in steps(),
        refuses in proptest::option::of(ETH0..=ETH1),
    ) {
        let of = |(ifindex, number)| Membership::of(ifindex, vip(number));
        let mut kernel: BTreeSet<Membership> = leftovers.into_iter().map(of).collect();
        let mut wanted: BTreeSet<(u32, Ipv6Addr)> = BTreeSet::new();
        let mut groups = Groups::default();
        groups.on_observed(kernel.clone());
        let work = |groups: &mut Groups, kernel: &mut BTreeSet<Membership>, refuses, most| {
            for _ in 0..most {
                let Some(command) = groups.next(true) else { return };
                let membership = command.membership();
                if refuses == Some(membership.ifindex) {
                    groups.on_refused(command, "refused".to_owned());
                    continue;
                }
                match command {
                    Command::Join(_) => kernel.insert(membership),
                    Command::Leave(_) => kernel.remove(&membership),
                };
                groups.on_done(command);
            }
            assert!(groups.next(true).is_none() || most < 100, "the commands never end");
        };
        for step in steps {
            match step {
                Step::Vip(ifindex, number, is_wanted) => {
                    let key = (ifindex, vip(number));
                    if is_wanted { wanted.insert(key) } else { wanted.remove(&key) };
                    groups.on_vip(ifindex, vip(number), is_wanted);
                }
                Step::Vips(vips) => {
                    groups.on_vips(&vips);
                    wanted = vips;
                }
                Step::Down(ifindex) => kernel.retain(|membership| membership.ifindex != ifindex),
                Step::Work(most) => work(&mut groups, &mut kernel, refuses, most),
                Step::Observe => groups.on_observed(kernel.clone()),
            }
        }
        work(&mut groups, &mut kernel, refuses, 100);
        groups.on_observed(kernel.clone());
        let expected: BTreeSet<Membership> =
            wanted.iter().map(|(ifindex, vip)| Membership::of(*ifindex, *vip)).collect();
        let changes = expected.symmetric_difference(&kernel).count();
        let mut commands = 0;
        while let Some(command) = groups.next(true) {
            groups.on_done(command);
            commands += 1;
            match command {
                Command::Join(membership) => kernel.insert(membership),
                Command::Leave(membership) => kernel.remove(&membership),
            };
        }
        prop_assert_eq!(commands, changes);
        prop_assert_eq!(kernel, expected);
    }
}
