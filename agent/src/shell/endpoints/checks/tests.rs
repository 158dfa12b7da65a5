use vipward_common::{MacAddr, Proof, VipKey};
use vipward_core::{
    agent::{InterfaceSnapshot, VipSnapshot},
    diagnosis::doctor::Refusal,
};

use super::*;
use crate::shell::endpoints::metrics;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn vip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn entry(ifindex: u32, last: u8, role: Role, mac: MacAddr) -> pinned::Entry {
    pinned::Entry { key: VipKey::new(ifindex, vip(last)), ..pinned::Entry::sample(vip(last), role, mac) }
}

fn snapshot(mode: Mode, vips: &[(u8, Entry)]) -> Snapshot {
    let vips =
        vips.iter().map(|(last, entry)| VipSnapshot { vip: vip(*last), entry: *entry, yielded: false });
    metrics::snapshot(mode, &vips.collect::<Vec<_>>())
}

/// A description, the mode, the event loop's state, the map's entries, and the expected faults.
type Row<'a> = (&'a str, Mode, &'a [(u8, Entry)], Vec<pinned::Entry>, &'a [&'a str]);

#[test]
fn entries_that_are_not_as_believed_are_named() {
    use Role::{Foreign, Held};
    let held = [(10, Entry::Held)];
    let guarded = [(1, Entry::Foreign { mac: OTHER })];
    let yielded = pinned::Entry { yielded: true, ..entry(2, 10, Foreign, OTHER) };
    let table: [Row<'_>; 9] = [
        ("nothing is wanted", Mode::Standalone, &[], vec![], &[]),
        (
            "held on one interface, foreign on the other",
            Mode::Standalone,
            &held,
            vec![entry(2, 10, Held, OWN), entry(3, 10, Foreign, MacAddr::ZERO)],
            &[],
        ),
        ("no entry", Mode::Standalone, &held, vec![], &["192.0.2.10 is believed held and is not"]),
        (
            "yielded",
            Mode::Standalone,
            &held,
            vec![yielded],
            &["192.0.2.10 is believed held and was yielded to 02:00:00:00:00:02"],
        ),
        (
            "held too much",
            Mode::Kubernetes,
            &[],
            vec![entry(2, 10, Held, OWN)],
            &["192.0.2.10 is held and believed not to be"],
        ),
        ("guarded", Mode::Standalone, &guarded, vec![entry(2, 1, Foreign, OTHER)], &[]),
        (
            "guarded at another MAC",
            Mode::Standalone,
            &guarded,
            vec![entry(2, 1, Foreign, OWN)],
            &["192.0.2.1 is to be guarded at 02:00:00:00:00:02 and is not"],
        ),
        ("another node's, on a segment that this one is not on", Mode::Kubernetes, &guarded, vec![], &[]),
        (
            "held instead of guarded",
            Mode::Standalone,
            &guarded,
            vec![entry(2, 1, Held, OWN)],
            &[
                "192.0.2.1 is held and believed not to be",
                "192.0.2.1 is to be guarded at 02:00:00:00:00:02 and is not",
            ],
        ),
    ];
    for (what, mode, vips, entries, wrong) in table {
        let checks = of_kernel(&snapshot(mode, vips), Ok(Contents::sample(entries)));
        assert_eq!(
            checks[0],
            Check::of("entries", wrong.iter().map(ToString::to_string).collect()),
            "{what}"
        );
    }
}

#[test]
fn of_very_many_differences_a_few_are_named() {
    let vips: Vec<_> = (1..=100).map(|last| (last, Entry::Held)).collect();
    let checks = of_kernel(&snapshot(Mode::Standalone, &vips), Ok(Contents::sample(Vec::new())));
    assert_eq!(checks[0].wrong.len(), MOST_NAMED + 1);
    assert_eq!(checks[0].wrong.last().map(String::as_str), Some("and 92 more"));
}

#[test]
fn before_the_cluster_has_been_read_entries_are_not_judged() {
    let mut unread = snapshot(Mode::Kubernetes, &[(10, Entry::Held)]);
    unread.agent.started = false;
    let checks = of_event_loop(&unread);
    assert_eq!(checks[0], Check::failed("cluster", "the cluster has not been read yet"));
    assert_eq!(of_kernel(&unread, Ok(Contents::sample(Vec::new())))[0], Check::ok("entries"));
}

#[test]
fn a_lease_deadline_that_is_in_its_grace_period_is_not_valid() {
    let mut read = Contents::sample(Vec::new());
    read.pass_deadline();
    let checks = of_kernel(&snapshot(Mode::Kubernetes, &[]), Ok(read));
    assert_eq!(
        checks[1],
        Check::failed("lease-deadline", "the lease deadline has passed: the Lease was not renewed")
    );
}

#[test]
fn links_that_run_another_program_or_could_not_be_attached_are_named() {
    let mut snapshot = snapshot(Mode::Standalone, &[]);
    assert_eq!(of_event_loop(&snapshot), [Check::ok("config"), Check::ok("links"), Check::ok("vips")]);
    snapshot.agent.interfaces[0].attached = false;
    assert_eq!(of_event_loop(&snapshot)[1], Check::failed("links", "eth0 runs another program, or none"));
    let occupied = "interface eth1 has another XDP program already";
    snapshot.agent.interfaces.push(InterfaceSnapshot {
        ifindex: 3,
        interface: "eth1".to_owned(),
        failure: Some(occupied.to_owned()),
        ..snapshot.agent.interfaces[0].clone()
    });
    let wrong = ["eth0 runs another program, or none", &format!("eth1 is not attached: {occupied}")];
    assert_eq!(of_event_loop(&snapshot)[1], Check::of("links", wrong.map(ToOwned::to_owned).to_vec()));
    snapshot.agent.interfaces.clear();
    assert_eq!(
        of_event_loop(&snapshot)[1],
        Check::failed("links", "the program is attached to no interface")
    );
}

#[test]
fn a_link_whose_program_is_blind_is_named_and_an_unproven_one_is_well() {
    let mut snapshot = snapshot(Mode::Standalone, &[]);
    for (proof, expected) in [
        (Proof::Proven, Check::ok("links")),
        (Proof::Unproven, Check::ok("links")),
        (Proof::Blind, Check::failed("links", "eth0: the program does not see the interface's frames")),
        (Proof::Bypassed, Check::failed("links", "eth0: requests for VIPs get past the program")),
    ] {
        snapshot.agent.interfaces[0].proof = proof;
        assert_eq!(of_event_loop(&snapshot)[1], expected, "{proof:?}");
    }
    snapshot.agent.interfaces[0].attached = false;
    let wrong = Check::failed("links", "eth0 runs another program, or none");
    assert_eq!(of_event_loop(&snapshot)[1], wrong, "the first fault is named");
}

#[test]
fn vips_that_are_not_answered_are_named_with_their_reason_and_in_one_check() {
    let vips: Vec<_> = (1..=12).map(|last| (last, Entry::Held)).collect();
    let mut snapshot = snapshot(Mode::Kubernetes, &vips);
    snapshot.agent.unanswered.insert(vip(10), "eth0: no carrier".to_owned());
    let notified = |snapshot: &Snapshot| of_event_loop(snapshot).pop().expect("the last check");
    assert_eq!(notified(&snapshot), Check::failed("vips", "192.0.2.10 is not answered: eth0: no carrier"));

    // One check does not repeat the other check's faults.
    let read =
        || Ok(Contents::sample((1..=9).chain([12]).map(|last| entry(2, last, Role::Held, OWN)).collect()));
    let wrong = Check::failed("entries", "192.0.2.11 is believed held and is not");
    assert_eq!(of_kernel(&snapshot, read())[0], wrong);

    snapshot.agent.unanswered =
        vips.iter().map(|(last, _)| (vip(*last), "the lease deadline has passed".to_owned())).collect();
    let all = notified(&snapshot).wrong;
    assert_eq!((all.len(), all[8].as_str()), (9, "and 4 more"));
    assert_eq!(all[0], "192.0.2.1 is not answered: the lease deadline has passed");
}

/// The form of kube-apiserver's `/readyz?verbose` and `/readyz/{check}`.
#[test]
fn checks_are_shown_as_the_api_server_shows_its_own() {
    let well = [Check::ok("event-loop"), Check::ok("lease-deadline")];
    let ill = [Check::ok("event-loop"), Check::of("links", vec!["a".to_owned(), "b".to_owned()])];
    let table = [
        (&well, None, 200, "[+]event-loop ok\n[+]lease-deadline ok\nreadyz check passed\n"),
        (&ill, None, 503, "[+]event-loop ok\n[-]links failed: a; b\nreadyz check failed\n"),
        (&ill, Some("event-loop"), 200, "[+]event-loop ok\nreadyz check passed\n"),
        (&ill, Some("links"), 503, "[-]links failed: a; b\nreadyz check failed\n"),
        (&ill, Some("moon"), 404, "no check moon in readyz; there are: event-loop, links\n"),
    ];
    for (checks, asked, status, text) in table {
        let expected = (StatusCode::from_u16(status).expect("a status"), text.to_owned());
        assert_eq!(report("readyz", checks, asked), expected, "{asked:?}");
    }
}

#[test]
fn a_file_that_was_refused_is_a_remark_and_the_host_stays_ready() {
    let mut snapshot = snapshot(Mode::Standalone, &[]);
    let file = snapshot.file.as_mut().expect("a file");
    file.refused = Some(Refusal { why: "a:1:1: one\na:2:1: two".to_owned(), seconds_ago: 5 });
    let (status, text) = report("readyz", &of_event_loop(&snapshot), Some("config"));
    assert_eq!(status, StatusCode::OK);
    let expected = "[+]config ok, but the file on disk was refused 5s ago (a:1:1: one; a:2:1: two); the agent runs \
        with the one that it read 1m ago\nreadyz check passed\n";
    assert_eq!(text, expected);
}
