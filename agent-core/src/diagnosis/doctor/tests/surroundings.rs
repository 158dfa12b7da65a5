use vipward_common::{EventKind, Offender, OffenderKey};

use super::*;
use State::{Green, NotApplicable, Red, Unknown, Yellow};

fn entries(facts: &mut Facts, entries: u32) {
    facts.neighbours.read_mut().entries = entries;
}

#[test]
fn the_neighbour_table() {
    let remedy: &[&str] = &["gc_thresh3=4096", "gc_thresh2=2048"];
    assert_rows(
        None,
        &[
            ("room", |_| {}, "neighbour-table", Green, &["12 entries", "1024"], &[]),
            ("nearly full", |it| entries(it, 800), "neighbour-table", Yellow, &["nearly full"], remedy),
            ("full", |it| entries(it, 1_020), "neighbour-table", Red, &["full", "cannot be reached"], remedy),
            (
                "it was full once",
                |it| it.neighbours.read_mut().overflows = 3,
                "neighbour-table",
                Yellow,
                &["3 times"],
                remedy,
            ),
            (
                "tiny",
                |it| it.neighbours.read_mut().limits = [16, 32, 64],
                "neighbour-table",
                Yellow,
                &["limits 32 and 64", "less than the kernel's default 1024"],
                remedy,
            ),
            (
                "of no room at all",
                |it| it.neighbours.read_mut().limits = [0, 0, 0],
                "neighbour-table",
                Red,
                &["full"],
                remedy,
            ),
            (
                "a namespace has none of its own",
                |it| it.neighbours = Fact::skipped("only in the initial namespace"),
                "neighbour-table",
                NotApplicable,
                &["initial namespace"],
                &[],
            ),
            (
                "the limits cannot be read",
                |it| it.neighbours = Fact::failed("an odd value"),
                "neighbour-table",
                Unknown,
                &["an odd value"],
                &[],
            ),
        ],
    );
}

#[test]
fn other_software_that_holds_addresses() {
    assert_rows(
        None,
        &[
            ("no rival", |_| {}, "other-vip-software", Green, &["none runs here"], &[]),
            (
                "not read",
                |it| it.processes = Fact::failed("no /proc"),
                "other-vip-software",
                Unknown,
                &["no /proc"],
                &[],
            ),
            (
                "in a container's PID namespace",
                |it| it.sees_all_processes = Read(false),
                "other-vip-software",
                Unknown,
                &["none is seen", "PID namespace"],
                &["on the node itself", "hostPID: true"],
            ),
            (
                "no process knows in which",
                |it| it.sees_all_processes = Fact::failed("no /proc/self"),
                "other-vip-software",
                Unknown,
                &["no /proc/self"],
                &[],
            ),
            (
                "in that namespace too",
                |it| {
                    it.sees_all_processes = Read(false);
                    it.processes = Read(vec![process(77, "keepalived", "keepalived")]);
                },
                "other-vip-software",
                Yellow,
                &["keepalived (pid 77)"],
                &["stop the other"],
            ),
            (
                "by its name",
                |it| it.processes = Read(vec![process(77, "keepalived", "sh")]),
                "other-vip-software",
                Yellow,
                &["keepalived (pid 77)"],
                &["stop the other", "range"],
            ),
            (
                "by its path",
                |it| {
                    it.processes =
                        Read(vec![process(78, "main", "speaker"), process(79, "kube-vip", "kube-vip")]);
                },
                "other-vip-software",
                Yellow,
                &["MetalLB", "(pid 78)", "kube-vip (pid 79)"],
                &[],
            ),
            (
                "ucarp",
                |it| it.processes = Read(vec![process(80, "ucarp", "ucarp")]),
                "other-vip-software",
                Yellow,
                &["ucarp (pid 80)"],
                &[],
            ),
        ],
    );
}

/// Records claims of one MAC on VIPs, with the time since the last of them.
fn claims(facts: &mut Facts, kind: EventKind, vips: &[u8], ago: u64) {
    let now_ns = 1_000 * SECOND;
    facts.contents_mut().now_ns = now_ns;
    for last in vips {
        let mac = [0, 0, 0x5e, 0, 0x53, 1];
        let key = OffenderKey {
            vip: vipward_common::VipKey::new(2, [192, 0, 2, *last]),
            mac: vipward_common::MacAddr(mac),
        };
        let last_ns = now_ns - ago * SECOND;
        let offender = Offender {
            first_ns: 0,
            last_ns,
            claims: 3,
            kind,
            oper: 2,
            source: mac,
            answered: 0,
            strays: 0,
            defended_ns: 0,
        };
        facts.offenders.read_mut().insert(key, offender);
    }
}

#[test]
fn other_hosts_that_claim_vips() {
    assert_rows(
        None,
        &[
            ("none", |_| {}, "unknown-hosts", Green, &["no other host"], &[]),
            (
                "one that claims a VIP",
                |it| claims(it, EventKind::Conflict, &[10], 20),
                "unknown-hosts",
                Yellow,
                &["00:00:5e:00:53:01", "claims 192.0.2.10"],
                &["vipward who-has 192.0.2.10"],
            ),
            (
                "one that goes on to claim a held VIP",
                |it| claims(it, EventKind::Conflict, &[10], 9),
                "unknown-hosts",
                Red,
                &["claims 192.0.2.10", "192.0.2.10 is held here, and the claims go on"],
                &["vipward who-has 192.0.2.10"],
            ),
            (
                "one that goes on to claim another node's VIP",
                |it| claims(it, EventKind::Conflict, &[11], 1),
                "unknown-hosts",
                Yellow,
                &["claims 192.0.2.11"],
                &[],
            ),
            (
                "one that claims several",
                |it| claims(it, EventKind::Conflict, &[10, 11], 20),
                "unknown-hosts",
                Yellow,
                &["claims 192.0.2.10, 192.0.2.11"],
                &["perhaps it is a node without an agent", "ipvs.strictARP: true", "who-has"],
            ),
            (
                "so many that not all are listed",
                |it| claims(it, EventKind::Conflict, &[10, 11, 12, 13, 14, 15], 20),
                "unknown-hosts",
                Yellow,
                &["192.0.2.13 and 2 more"],
                &[],
            ),
            ("long ago", |it| claims(it, EventKind::Conflict, &[10], 301), "unknown-hosts", Green, &[], &[]),
            ("a peer", |it| claims(it, EventKind::Contested, &[10], 20), "unknown-hosts", Green, &[], &[]),
            ("no peer", |it| claims(it, EventKind::Conflict, &[10], 1), "doubled", Green, &["no peer"], &[]),
            (
                "a peer that answers too",
                |it| claims(it, EventKind::Contested, &[10], 6),
                "doubled",
                Red,
                &["a peer answers too for 192.0.2.10 (00:00:5e:00:53:01)"],
                &["the younger hold yields", "peers:"],
            ),
            ("a peer that did", |it| claims(it, EventKind::Contested, &[10], 7), "doubled", Green, &[], &[]),
            (
                "a peer's claim on no VIP",
                |it| claims(it, EventKind::Contested, &[99], 1),
                "doubled",
                Green,
                &[],
                &[],
            ),
            ("nothing pinned", |it| it.plane = Read(None), "unknown-hosts", NotApplicable, &[], &[]),
            (
                "the map of claims is not read",
                |it| it.offenders = Fact::skipped("it was not read"),
                "unknown-hosts",
                Unknown,
                &["it was not read"],
                &[],
            ),
        ],
    );
}
