mod peers;

use proptest::prelude::*;

use super::{case::MAX_OFFENDERS, *};
use crate::base::samples::{HOLDER, at, key, last_octet, unknown_host};

const SOURCE: MacAddr = MacAddr([2, 0, 0, 0, 0, 99]);
const SETTINGS: Settings = Settings { defend: Defend::Always, quiet: Duration::from_mins(5) };

fn sight(host: u16, mac: MacAddr, times: u64) -> Sight {
    Sight {
        key: key(host),
        what: What::Held,
        mac,
        source: SOURCE,
        oper: 2,
        holder: HOLDER,
        times,
        // The agent reads the event as soon as it comes.
        at: Monotonic::from_nanos(u64::MAX),
        right: Right::NoClaims,
    }
}

fn counted(host: u16, mac: MacAddr, (first, last): (u64, u64), claims: u64) -> Counted {
    let offender =
        Offender { mac, source: SOURCE, oper: 2, first: at(first), last: at(last), claims, answerer: None };
    Counted { key: key(host), offender }
}

/// Returns the commands in few words: each with its kind, and the VIP's host, MACs or numbers.
fn words(commands: &[Command]) -> Vec<String> {
    let host = |key: &VipKey| last_octet(key.addr);
    let word = |command: &Command| match command {
        Command::Defend(key) => format!("defend {}", host(key)),
        Command::Ask(_) => "ask".to_owned(),
        Command::Count => "count".to_owned(),
        Command::Report(Line::Began { conflict, sight }) => {
            format!("began {} {} {}", host(&conflict.key), conflict.what.name(), sight.mac.0[5])
        }
        Command::Report(Line::NewOffender { conflict, mac }) => {
            format!("new {} {}", host(&conflict.key), mac.0[5])
        }
        Command::Report(Line::Named { conflict, mac }) => {
            format!("named {} {}", host(&conflict.key), mac.0[5])
        }
        Command::Report(Line::GoesOn { conflict, times }) => {
            format!("goes on {} {times}", host(&conflict.key))
        }
        Command::Report(Line::Ended { conflict, why }) => {
            format!("ended {} {} {}", host(&conflict.key), conflict.claims, why.name())
        }
        Command::Report(Line::Doubled { conflict }) => {
            format!("{} {}", if conflict.doubled { "doubled" } else { "alone" }, host(&conflict.key))
        }
        Command::Report(Line::TooMany { times }) => format!("too many {times}"),
    };
    commands.iter().map(word).collect()
}

/// Conflicts, and an event loop that meets their deadlines.
struct Run {
    conflicts: Conflicts,
    now: Monotonic,
}

impl Run {
    fn start(settings: &Settings) -> Self {
        Self { conflicts: Conflicts::start(settings, at(0)), now: at(0) }
    }

    fn notify(&mut self, event: Event) -> Vec<String> {
        words(&self.conflicts.on_event(event, self.now))
    }

    fn tick(&mut self) -> Vec<String> {
        words(&self.conflicts.on_tick(|sight| sight.right, self.now))
    }

    fn receive(&mut self, millis: u64, sight: Sight) -> Vec<String> {
        let mut notified = self.until(millis);
        notified.extend(self.notify(Event::Sighted(sight)));
        notified
    }

    /// Returns the commands that are due until then, without requests for counts.
    fn until(&mut self, millis: u64) -> Vec<String> {
        let mut notified = Vec::new();
        while let Some(deadline) = self.conflicts.next_deadline().filter(|deadline| *deadline <= at(millis)) {
            // A summary may have been due without anything to report.
            self.now = deadline.max(self.now);
            notified.extend(self.tick().into_iter().filter(|word| word != "count"));
        }
        self.now = at(millis);
        notified
    }
}

#[test]
fn a_conflict_is_one_thing_with_a_beginning_summaries_and_an_end() {
    let mut run = Run::start(&Settings { defend: Defend::Never, ..SETTINGS });
    let (one, two) = (unknown_host(1), unknown_host(2));
    let table: [(&str, u64, Option<Sight>, &[&str]); 9] = [
        ("the first claim", 10_000, Some(sight(1, one, 1)), &["began 1 held 1"]),
        ("the same again", 11_000, Some(sight(1, one, 9)), &[]),
        ("another MAC", 12_000, Some(sight(1, two, 1)), &["new 1 2"]),
        ("a minute after the start", 70_000, None, &["goes on 1 9"]),
        ("a minute without a claim", 130_000, None, &[]),
        ("both again", 140_000, Some(sight(1, two, 5)), &[]),
        ("reported at once, since the last summary is old", 140_001, None, &["goes on 1 5"]),
        ("almost five quiet minutes", 439_999, None, &[]),
        ("five quiet minutes", 440_000, None, &["ended 1 16 no claims any more"]),
    ];
    for (what, millis, received, expected) in table {
        let mut notified = run.until(millis);
        notified.extend(received.map(|sight| run.notify(Event::Sighted(sight))).unwrap_or_default());
        assert_eq!(notified, expected, "{what}");
    }
    assert_eq!(run.conflicts.shown().count(), 0);
    assert_eq!(run.receive(500_000, sight(1, two, 1)), ["began 1 held 2"], "the next one is another");
}

#[test]
fn rfc_5227_2_4_each_claim_on_a_held_vip_asks_for_a_defence_by_the_policy() {
    // Number of defences after several claims in a row. The announcer keeps DEFEND_INTERVAL.
    for (defend, expected) in [(Defend::Match, 3), (Defend::Always, 3), (Defend::Once, 1), (Defend::Never, 0)]
    {
        let mut run = Run::start(&Settings { defend, ..SETTINGS });
        let notified: Vec<String> =
            (0..3).flat_map(|second| run.receive(second * 1_000, sight(1, unknown_host(1), 1))).collect();
        assert_eq!(notified.iter().filter(|word| *word == "defend 1").count(), expected, "{defend:?}");
        run.until(400_000);
        let again = run.receive(500_000, sight(1, unknown_host(1), 1)).contains(&"defend 1".to_owned());
        assert_eq!(again, defend != Defend::Never, "{defend:?}: another conflict");
    }
}

#[test]
fn rfc_5227_2_4_what_is_not_held_is_not_defended() {
    for what in [What::Guarded, What::InUse] {
        let mut run = Run::start(&SETTINGS);
        let notified = run.notify(Event::Sighted(Sight { what, ..sight(1, unknown_host(1), 1) }));
        assert_eq!(notified, [format!("began 1 {} 1", what.name())]);
    }
}

#[test]
fn those_whose_claims_the_program_swallowed_are_named_from_its_counts() {
    let mut run = Run::start(&SETTINGS);
    run.receive(10_000, sight(1, unknown_host(1), 1));
    assert_eq!(run.conflicts.next_deadline(), Some(at(10_200)), "counts are read soon");
    run.now = at(10_200);
    assert_eq!(run.tick(), ["count"]);
    let counts = vec![
        counted(1, unknown_host(1), (10_000, 10_001), 2),
        counted(1, unknown_host(2), (10_001, 10_001), 1),
        counted(1, unknown_host(3), (10_001, 10_001), 1),
        counted(1, unknown_host(4), (1_000, 9_000), 70),
        counted(2, unknown_host(5), (10_001, 10_001), 1),
    ];
    assert_eq!(run.notify(Event::Counted(counts.clone())), ["new 1 2", "new 1 3"]);
    let conflict = run.conflicts.shown().next().expect("it is open").clone();
    let claims: Vec<(u8, u64)> =
        conflict.offenders.iter().map(|offender| (offender.mac.0[5], offender.claims)).collect();
    assert_eq!((claims, conflict.claims), (vec![(1, 2), (2, 1), (3, 1)], 4));
    assert_eq!(run.notify(Event::Counted(counts)), Vec::<String>::new(), "they are named once");
    assert_eq!(
        run.conflicts.next_deadline(),
        Some(at(70_000)),
        "nothing more to count before the next claim"
    );
}

#[test]
fn claims_that_came_before_the_first_was_reported_are_counted() {
    let mut run = Run::start(&SETTINGS);
    run.until(10_050);
    run.notify(Event::Sighted(Sight { at: at(10_000), ..sight(1, unknown_host(1), 1) }));
    run.notify(Event::Counted(vec![counted(1, unknown_host(1), (10_000, 10_000), 5)]));
    assert_eq!(run.conflicts.shown().next().map(|conflict| conflict.claims), Some(5));
}

#[test]
fn claims_from_before_the_conflict_are_not_counted_to_it() {
    let mut run = Run::start(&SETTINGS);
    run.receive(10_000, sight(1, unknown_host(1), 1));
    run.notify(Event::Counted(vec![counted(1, unknown_host(1), (1_000, 10_000), 501)]));
    assert_eq!(run.conflicts.shown().next().map(|conflict| conflict.claims), Some(1));
    run.notify(Event::Counted(vec![counted(1, unknown_host(1), (1_000, 11_000), 511)]));
    assert_eq!(run.conflicts.shown().next().map(|conflict| conflict.claims), Some(11));
}

#[test]
fn a_claim_that_was_swallowed_and_counted_is_not_counted_again_when_it_is_reported() {
    let mut run = Run::start(&SETTINGS);
    run.receive(10_000, sight(1, unknown_host(1), 1));
    run.notify(Event::Counted(vec![counted(1, unknown_host(1), (10_000, 10_050), 5)]));
    // The next event reports that the program swallowed four claims before it.
    run.receive(11_000, sight(1, unknown_host(2), 5));
    let both = vec![
        counted(1, unknown_host(1), (10_000, 10_050), 5),
        counted(1, unknown_host(2), (11_000, 11_000), 1),
    ];
    run.notify(Event::Counted(both));
    assert_eq!(run.conflicts.shown().next().map(|conflict| conflict.claims), Some(6));
}

#[test]
fn counts_are_read_once_a_second_at_most_however_many_claims_come() {
    let mut run = Run::start(&SETTINGS);
    let mut counts = 0;
    for tenth in 0..100 {
        let millis = tenth * 100;
        while let Some(deadline) = run.conflicts.next_deadline().filter(|deadline| *deadline <= at(millis)) {
            run.now = deadline;
            counts += run.tick().iter().filter(|word| *word == "count").count();
        }
        run.now = at(millis);
        for host in 0..50 {
            run.notify(Event::Sighted(sight(host, unknown_host(host), 100)));
        }
    }
    assert!((9..=11).contains(&counts), "{counts} in ten seconds");
}

#[test]
fn an_offender_that_is_a_peer_after_all_was_none() {
    let mut run = Run::start(&SETTINGS);
    run.receive(1_000, sight(1, unknown_host(1), 1));
    run.receive(1_000, sight(2, unknown_host(1), 1));
    run.receive(1_000, sight(2, unknown_host(2), 1));
    assert_eq!(run.notify(Event::Recognised { ifindex: 4, mac: unknown_host(1) }), Vec::<String>::new());
    let notified = run.notify(Event::Recognised { ifindex: 3, mac: unknown_host(1) });
    assert_eq!(notified, ["ended 1 1 the offender is a peer", "goes on 2 0"], "without it");
    let left = run.conflicts.about(&key(2)).expect("the other takes part still");
    assert_eq!(left.offenders.iter().map(|offender| offender.mac).collect::<Vec<_>>(), [unknown_host(2)]);
}

#[test]
fn who_comes_to_hold_a_vip_in_a_conflict_begins_it_anew() {
    let mut run = Run::start(&Settings { defend: Defend::Once, ..SETTINGS });
    let guarded = Sight { what: What::Guarded, ..sight(1, unknown_host(1), 1) };
    assert_eq!(run.receive(1_000, guarded), ["began 1 guarded 1"]);
    let turned = run.receive(2_000, sight(1, unknown_host(1), 1));
    let expected = ["ended 1 1 this node is something else to the VIP now", "defend 1", "began 1 held 1"];
    assert_eq!(turned, expected);
}

#[test]
fn a_conflict_ends_when_the_address_is_free_or_wanted_no_more() {
    let mut run = Run::start(&SETTINGS);
    run.receive(1_000, Sight { what: What::InUse, holder: MacAddr::ZERO, ..sight(1, unknown_host(1), 1) });
    run.receive(1_000, sight(2, unknown_host(1), 1));
    assert_eq!(run.notify(Event::Free(key(1))), ["ended 1 1 the address is free"]);
    assert_eq!(run.notify(Event::Forgotten(key(2))), ["ended 2 1 this node does not watch for it any more"]);
    assert_eq!(run.notify(Event::Free(key(1))), Vec::<String>::new());
}

#[test]
fn rfc_5227_2_1_1_an_address_that_is_asked_about_once_a_minute_is_in_use_between_two_attempts() {
    let mut run = Run::start(&Settings { quiet: Duration::from_secs(1), ..SETTINGS });
    let in_use = Sight { what: What::InUse, holder: MacAddr::ZERO, ..sight(1, unknown_host(1), 1) };
    let mut notified = Vec::new();
    for minute in 0..5 {
        notified.extend(run.receive(minute * 60_000, in_use));
    }
    assert_eq!(notified, ["began 1 in_use 1", "goes on 1 1", "goes on 1 1", "goes on 1 1"], "one conflict");
    assert_eq!(run.until(419_999).last().map(String::as_str), Some("goes on 1 1"));
    assert_eq!(run.until(420_000), ["ended 1 5 no claims any more"], "no host asks any more");
}

#[test]
fn a_flood_from_ever_new_macs_names_a_few_and_counts_all() {
    let mut run = Run::start(&Settings { defend: Defend::Never, ..SETTINGS });
    let mut notified = Vec::new();
    for number in 0..1_000 {
        notified.extend(run.receive(u64::from(number), sight(1, unknown_host(number), 1)));
    }
    assert_eq!(notified.len(), MAX_OFFENDERS, "{notified:?}");
    let conflict = run.conflicts.shown().next().expect("it is open");
    assert_eq!((conflict.claims, conflict.offenders.len(), conflict.more), (1_000, MAX_OFFENDERS, true));
}

#[test]
fn conflicts_beyond_the_bound_are_counted_together() {
    let mut run = Run::start(&Settings { defend: Defend::Never, ..SETTINGS });
    let most = u16::try_from(MOST_CASES).expect("it fits");
    for host in 0..most {
        run.notify(Event::Sighted(sight(host, unknown_host(1), 1)));
    }
    for host in most..most + 10 {
        assert_eq!(run.notify(Event::Sighted(sight(host, unknown_host(1), 3))), Vec::<String>::new());
    }
    run.conflicts.configure(&SETTINGS);
    let defended = run.notify(Event::Sighted(sight(most, unknown_host(1), 0)));
    assert_eq!(defended.len(), 1, "they are defended all the same: {defended:?}");
    assert_eq!(run.conflicts.shown().count(), MOST_CASES);
    assert!(run.until(500).contains(&"too many 30".to_owned()));
}

#[test]
fn each_state_is_reported_at_once_and_repeated_claims_are_folded() {
    use What::{Contested, Guarded, Held, InUse, Moved, Sighted, Yielded};
    // Each loss of a VIP is reported, because losses are rare and important.
    let table = [(Held, 1), (Guarded, 1), (InUse, 1), (Sighted, 1), (Contested, 1), (Moved, 1), (Yielded, 3)];
    for (what, expected) in table {
        let mut run = Run::start(&Settings { defend: Defend::Never, ..SETTINGS });
        let lines: Vec<String> = (0..3)
            .flat_map(|second| run.receive(second * 1_000, Sight { what, ..sight(1, unknown_host(1), 1) }))
            .collect();
        assert_eq!(lines, vec![format!("began 1 {} 1", what.name()); expected], "{what:?}");
    }
}

#[test]
fn kinds_vips_and_interfaces_are_conflicts_of_their_own() {
    let mut run = Run::start(&Settings { defend: Defend::Never, ..SETTINGS });
    let claim = sight(1, unknown_host(1), 1);
    let others = [
        claim,
        Sight { what: What::Sighted, ..claim },
        Sight { what: What::Moved, ..claim },
        sight(2, unknown_host(1), 1),
        Sight { key: VipKey { ifindex: 4, ..claim.key }, ..claim },
    ];
    for other in others {
        let lines = run.notify(Event::Sighted(other));
        assert!(lines.len() == 1 && lines[0].starts_with("began"), "{other:?}: {lines:?}");
    }
}

#[test]
fn a_flood_of_unknown_hosts_hides_nothing_that_peers_do() {
    use What::{Contested, Held, Moved, Sighted, Yielded};
    for (what, expected) in
        [(Held, 0), (Sighted, 0), (Contested, MOST_CASES), (Moved, MOST_CASES), (Yielded, MOST_CASES)]
    {
        let mut run = Run::start(&Settings { defend: Defend::Never, ..SETTINGS });
        let mut claim_all = |what, from: usize| -> usize {
            (from..from + MOST_CASES + 10)
                .map(|host| sight(u16::try_from(host).expect("few hosts"), unknown_host(1), 1))
                .map(|sight| run.notify(Event::Sighted(Sight { what, ..sight })).len())
                .sum()
        };
        assert_eq!(claim_all(Held, 0), MOST_CASES);
        assert_eq!(claim_all(what, 10_000), expected, "{what:?}");
    }
}

fn states() -> impl Strategy<Value = What> {
    prop_oneof![Just(What::Held), Just(What::Sighted), Just(What::Contested), Just(What::Moved)]
}

/// Rights that do not explain an announcement.
fn rights() -> impl Strategy<Value = Right> {
    prop_oneof![Just(Right::NoClaims), Just(Right::NotGiven(Epoch(1)))]
}

proptest! {
    #[test]
    fn every_claim_is_counted_once_and_every_conflict_that_begins_ends_once(
        claims in proptest::collection::vec(
            (0_u64..200_000, states(), 0_u16..4, 0_u16..30, 1_u64..5, rights()),
            1..80,
        ),
    ) {
        let quiet = Duration::from_secs(100);
        let mut run = Run::start(&Settings { defend: Defend::Never, quiet });
        let (mut now, mut received, mut lines) = (0, 0, Vec::new());
        for (pause, what, host, mac, times, right) in claims {
            now += pause;
            received += times;
            lines.extend(run.receive(now, Sight { what, right, ..sight(host, unknown_host(mac), times) }));
        }
        lines.extend(run.until(now + 1_000_000));
        let of = |word: &str| lines.iter().filter(|line| line.starts_with(word)).count();
        prop_assert_eq!(of("began"), of("ended"));
        let counted: u64 = lines
            .iter()
            .filter(|word| word.starts_with("ended"))
            .filter_map(|word| word.split(' ').nth(2)?.parse::<u64>().ok())
            .sum();
        prop_assert_eq!(counted, received);
        prop_assert_eq!(run.conflicts.next_deadline(), None);
    }
}

#[test]
fn the_sort_of_a_host_is_named_only_in_a_conflict_about_an_address_in_use() {
    let rows = [
        (What::InUse, 1, 1, vec!["named 1 1"]),
        (What::InUse, 1, 2, vec![]),
        (What::InUse, 2, 1, vec![]),
        (What::Held, 1, 1, vec![]),
    ];
    for (what, host, mac, expected) in rows {
        let mut run = Run::start(&SETTINGS);
        run.notify(Event::Sighted(Sight { what, ..sight(1, unknown_host(1), 1) }));
        let answerer = Answerer::Proxy;
        let named = run.notify(Event::Named { key: key(host), mac: unknown_host(mac), answerer });
        assert_eq!(named, expected, "{what:?}, VIP {host}, MAC {mac}");
        let offender = run.conflicts.shown().next().expect("a conflict").offenders[0];
        assert_eq!(offender.answerer.is_some(), !expected.is_empty());
        run.notify(Event::Sighted(Sight { what, ..sight(1, unknown_host(1), 1) }));
        let offender = run.conflicts.shown().next().expect("a conflict").offenders[0];
        assert_eq!(offender.answerer.is_some(), !expected.is_empty(), "later claims change nothing");
    }
}
