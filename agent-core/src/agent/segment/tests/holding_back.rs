//! VIPs that wait until their addresses are known to be free.

use vipward_common::{ETHERTYPE_8021Q, VlanTag};

use super::*;
use crate::host::{net::Interface, placement::DesiredEntry};

/// Returns a desired state with one held VIP, bound on an interface.
fn wanted() -> Desired {
    Desired {
        entries: [(key(10), DesiredEntry::new(Role::Held, HOLDER))].into(),
        binds: [("lo".to_owned(), key(10).addr)].into(),
        ..Desired::default()
    }
}

fn found(entry: Option<VipEntry>) -> Observed {
    Observed { entries: entry.map(|entry| (key(10), entry)).into_iter().collect(), ..Observed::default() }
}

fn net() -> IpNet {
    "10.0.0.10/24".parse().expect("an address")
}

impl Host {
    /// Adds a device of another program with the VIP's address.
    fn add_device(&mut self, name: &str, kind: &str, lower: Option<u32>, vlan: Option<u16>) {
        const DEVICE: u32 = 9;
        let mut device = Interface::sample(DEVICE, name);
        (device.kind, device.lower) = (kind.to_owned(), lower);
        device.vlan = vlan.map(|id| VlanTag::new(ETHERTYPE_8021Q, id));
        device.addresses.push(net());
        self.site.view.interfaces.insert(DEVICE, device);
    }

    fn hold_back(&mut self, observed: &Observed) -> (Desired, Vec<String>) {
        let mut desired = wanted();
        let effects = self.with(|segment, context| segment.hold_back(&mut desired, observed, context));
        (desired, words(&effects))
    }

    /// Returns a host that probes a held-back address.
    fn that_probes() -> Self {
        let mut host = Self::new();
        host.hold_back(&found(None));
        assert_eq!(host.on(Input::Written), [""; 0]);
        assert!(host.segment.is_probed(&key(10)));
        host
    }
}

/// Fate of a wanted VIP.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Held,
    Silent,
    Audible,
}

#[test]
fn a_vip_waits_only_if_it_was_never_held_here_and_its_address_may_be_in_use() {
    use Then::{Audible, Held, Silent};
    type Change = fn(&mut Host);
    let same: Change = |_| {};
    let has_address: Change = |host| host.site.interface(ETH0).addresses.push(net());
    let forced_beside_it: Change = |host| {
        host.site.source.must_be_free = false;
        host.site.interface(ETH0).addresses.push(net());
    };
    let held = Some(entry(Role::Held, HOLDER, 1));
    let on_macvlan: Change = |host| host.add_device("vrrp.7", "macvlan", Some(ETH0), None);
    let on_vlan: Change = |host| host.add_device("eth0.7", "vlan", Some(ETH0), Some(7));
    let on_other_card: Change = |host| host.site.interface(ETH1).addresses.push(net());
    let rows: [(&str, Option<VipEntry>, Change, Then); 12] = [
        ("it is new", None, same, Silent),
        ("it was guarded", Some(entry(Role::Foreign, PEER, 1)), same, Silent),
        ("it is held", held, same, Held),
        ("it is handed over", Some(entry(Role::Handover, PEER, 1)), same, Held),
        ("it was found free, or is forced", None, |host| host.site.source.must_be_free = false, Held),
        ("probing is off", None, |host| host.configure(|it| it.probe.count = 0), Held),
        ("another program has the address here", None, has_address, Audible),
        ("another program has the address on a macvlan device", None, on_macvlan, Audible),
        ("another program has the address on a VLAN's segment", None, on_vlan, Silent),
        ("another program has the address on another card's segment", None, on_other_card, Silent),
        ("another program has added the address of a held VIP", held, has_address, Held),
        ("it is forced, and another program has the address here", None, forced_beside_it, Held),
    ];
    for (what, before, change, then) in rows {
        let mut host = Host::new();
        change(&mut host);
        let (desired, _) = host.hold_back(&found(before));
        let role = desired.entries.get(&key(10)).map(|entry| (entry.role, entry.mac));
        let expected = match then {
            Held => Some((Role::Held, HOLDER)),
            Silent => Some((Role::Foreign, MacAddr::ZERO)),
            // The kernel answers for the other program.
            Audible => None,
        };
        assert_eq!((role, desired.binds.is_empty()), (expected, then != Held), "{what}");
        assert_eq!(host.segment.own_addresses(&host.site.view).is_empty(), then != Audible, "{what}");
    }
}

#[test]
fn a_held_back_address_is_probed_once_its_entry_is_written() {
    let mut host = Host::that_probes();
    let words = host.wait(1_000);
    assert_eq!(words, ["probe 10", "probe 10", "probe 10", "free 10"]);
    host.on(Input::Freed(&[key(10).addr].into()));
    assert_eq!(host.segment.held_back().count(), 0);
}

#[test]
fn a_held_back_address_is_not_probed_where_no_probe_reaches_a_host() {
    type Change = fn(&mut Interface);
    let rows: [(&str, Change); 3] = [
        ("no carrier", |eth0| eth0.carrier = false),
        ("the interface is down", |eth0| eth0.up = false),
        ("another program has the address", |eth0| eth0.addresses.push(net())),
    ];
    for (what, change) in rows {
        let mut host = Host::new();
        change(host.site.interface(ETH0));
        host.hold_back(&found(None));
        host.on(Input::Written);
        assert_eq!(host.wait(1_000), [""; 0], "{what}");
    }
}

#[test]
fn a_carrier_that_goes_stops_the_probes_and_its_return_begins_them_again() {
    let mut host = Host::that_probes();
    host.wait(300);
    let gone = host.has_carrier(false);
    assert_eq!(gone, [""; 0]);
    assert_eq!(host.wait(3_000), [""; 0], "silence means nothing now");
    let back = host.has_carrier(true);
    assert_eq!(back, ["unsettle"], "a reconciliation writes the entry, and then probes");
    host.on(Input::Written);
    assert_eq!(host.wait(1_000).last().map(String::as_str), Some("free 10"));
}

#[test]
fn each_interface_counts_as_one_that_comes_when_the_agent_starts() {
    let rows: [(bool, &[&str], usize); 2] =
        [(true, &["unsettle", "announce 11 Taking(0)"], 6), (false, &[], 0)];
    for (carrier, expected, rounds) in rows {
        let mut host = Host::that_starts();
        host.site.interface(ETH0).carrier = carrier;
        host.hold_back(&found(None));
        host.on(Input::Started);
        host.takes(key(11));
        host.wait(10);
        let mut words = host.on(Input::Network(&NetView::default()));
        assert_eq!(words, *expected, "carrier: {carrier}");
        words.extend(host.wait(10_000));
        let announced = words.iter().filter(|word| word.starts_with("announce")).count();
        assert_eq!(announced, rounds, "carrier: {carrier}");
    }
}

#[test]
fn an_address_that_another_program_adds_is_probed_no_longer() {
    let mut host = Host::that_probes();
    host.site.interface(ETH0).addresses.push(net());
    assert_eq!(host.on(Input::Written), [""; 0]);
    assert_eq!(host.wait(3_000), [""; 0]);
}

#[test]
fn a_vip_that_need_not_wait_any_longer_is_probed_no_longer() {
    let mut host = Host::that_probes();
    host.wait(110);
    host.receives(event(EventKind::Sighted, unknown_host(1)));
    assert_eq!(host.segment.in_use().collect::<Vec<_>>(), [key(10).addr]);
    host.site.source.must_be_free = false;
    let (_, words) = host.hold_back(&found(None));
    assert_eq!(words, ["ended in_use 10: this node does not watch for it any more"]);
    assert_eq!((host.segment.held_back().count(), host.segment.undecided()), (0, 0));
}

/// Returns an answer to a probe.
fn answer(kind: EventKind, mac: MacAddr) -> Event {
    Event { oper: OPER_REPLY, ..event(kind, mac) }
}

/// Returns a host that has found an address free and holds its VIP, for this many milliseconds.
fn that_holds(millis: u64) -> Host {
    let mut host = Host::that_probes();
    assert_eq!(host.wait(1_000).last().map(String::as_str), Some("free 10"));
    host.site.source.must_be_free = false;
    host.on(Input::Freed(&[key(10).addr].into()));
    host.takes(key(10));
    host.site.source.must_be_free = true;
    host.wait(millis);
    host
}

#[test]
fn a_host_that_answers_late_gets_its_address_back() {
    use EventKind::{Conflict, Contested, Probed};
    let own = Interface::sample(ETH1, "eth1").mac;
    let used: &[&str] = &["began in_use 10", "note: in use 10", "late 10", "give back 10"];
    let late = answer(Conflict, unknown_host(1));
    let announcement = Event { oper: OPER_REQUEST, ..late };
    let rows: [(&str, u64, Event, &[&str]); 8] = [
        ("soon", 100, late, used),
        ("at the last moment", 1_980, late, used),
        ("later: a conflict", 2_000, late, &["announce 10 Defence", "began held 10"]),
        ("an announcement, no answer", 100, announcement, &["announce 10 Defence", "began held 10"]),
        ("forced since", 100, late, &["announce 10 Defence", "began held 10"]),
        ("a configured peer", 100, answer(Contested, PEER), used),
        ("a host that probes", 100, event(Probed, unknown_host(1)), &[]),
        ("a frame of this host", 100, answer(Conflict, own), &[]),
    ];
    for (what, millis, event, expected) in rows {
        let mut host = that_holds(millis);
        host.site.source.right = Right::NoClaims;
        host.site.source.is_forced = what == "forced since";
        assert_eq!(host.receives(event), expected, "{what}");
        let gives_back = expected == used;
        assert_eq!(host.segment.is_probed(&key(10)), gives_back, "{what}");
        // A full round leaves it so, also if its entry could not be written.
        host.hold_back(&found(Some(entry(Role::Held, HOLDER, 1))));
        assert_eq!(host.segment.held_back().count(), usize::from(gives_back), "{what}");
    }
}

#[test]
fn a_hold_of_an_earlier_time_is_not_given_back() {
    let mut host = Host::new();
    host.takes(key(10));
    host.wait(100);
    let words = host.receives(answer(EventKind::Conflict, unknown_host(1)));
    assert_eq!(words, ["announce 10 Defence", "began held 10"]);
}

#[test]
fn where_no_host_was_heard_a_vip_waits_and_says_so_once() {
    let mut host = Host::new();
    host.hold_back(&found(None));
    host.on(Input::Written);
    let until = at(35_000);
    assert_eq!(host.on(Input::Unheard([(ETH0, until)].into())), [""; 0]);
    let words = host.wait(10_000);
    assert_eq!(words.iter().filter(|word| *word == "note: unheard").count(), 1, "{words:?}");
    assert!(words.contains(&"unheard 10".to_owned()) && !words.contains(&"free 10".to_owned()), "{words:?}");
    host.on(Input::Unheard(BTreeMap::new()));
    let words = host.wait(700);
    assert_eq!(words.last().map(String::as_str), Some("free 10"), "{words:?}");
}

#[test]
fn vips_are_announced_and_probed_when_hosts_are_heard_again() {
    let mut host = Host::new();
    host.takes(key(10));
    host.wait(20_000);
    assert_eq!(host.on(Input::HeardAgain(ETH1)), [""; 0], "the VIP is on another interface");
    assert_eq!(host.on(Input::HeardAgain(ETH0)), ["announce 10 Failover"]);
    assert_eq!(host.on(Input::Tick), ["probe held 10"]);
}
