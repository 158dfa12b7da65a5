use std::{net::Ipv4Addr, time::Duration};

use super::{super::seldom::STANDS, *};

const SECOND: Duration = Duration::from_secs(1);
const BEGIN: Monotonic = Monotonic::from_nanos(1_000_000_000_000);

fn deleted(vip: u32, outcome: Outcome<()>) -> Event {
    Event::ClaimDeleted { vip: IpAddr::V4(Ipv4Addr::from_bits(vip)), outcome }
}

fn refused(message: &str) -> Outcome<()> {
    Outcome::Refused(message.into())
}

fn notified(vip: u32, message: &str) -> News {
    News::Refused(RefusedRequest::DeleteClaim(IpAddr::V4(Ipv4Addr::from_bits(vip))), message.into())
}

fn over(vip: u32) -> News {
    News::Over(RefusedRequest::DeleteClaim(IpAddr::V4(Ipv4Addr::from_bits(vip))))
}

#[test]
fn a_refusal_is_logged_when_it_begins_changes_is_over_and_comes_back() {
    let table = [
        ("it begins", 1, refused("no permission"), Some(notified(1, "no permission"))),
        ("it goes on", 1, refused("no permission"), None),
        ("of another claim", 2, refused("no permission"), Some(notified(2, "no permission"))),
        ("in other words", 1, refused("a webhook says no"), Some(notified(1, "a webhook says no"))),
        ("no answer says nothing", 1, Outcome::Unknown, None),
        ("it goes on after that", 1, refused("a webhook says no"), None),
        ("it is done", 1, Outcome::Done(()), Some(over(1))),
        ("and done again", 1, Outcome::Done(()), None),
        ("it comes back", 1, refused("a webhook says no"), Some(notified(1, "a webhook says no"))),
        ("a conflict is no refusal", 1, Outcome::Conflict, Some(over(1))),
        ("nor is that it is gone", 2, Outcome::Missing, Some(over(2))),
        ("it begins, and is unknown for long", 3, refused("no"), Some(notified(3, "no"))),
    ];
    let mut refusals = Refusals::default();
    for (second, (about, vip, outcome, expected)) in (0..).zip(table) {
        let news = refusals.on_answer(&deleted(vip, outcome), BEGIN + SECOND * second);
        assert_eq!(news, expected, "{about}");
    }
    let later = BEGIN + STANDS * 2;
    assert_eq!(refusals.on_answer(&deleted(4, refused("no")), later), Some(notified(4, "no")));
    assert_eq!(
        refusals.on_answer(&deleted(3, Outcome::Done(())), later),
        Some(over(3)),
        "whatever others do"
    );
}

#[test]
fn requests_about_one_claim_are_distinguished() {
    let vip = IpAddr::from([192, 0, 2, 10]);
    let mut refusals = Refusals::default();
    let message: Arc<str> = "no permission".into();
    let write = Event::ClaimWritten { vip, outcome: Outcome::Refused(Arc::clone(&message)) };
    assert_eq!(
        refusals.on_answer(&write, BEGIN),
        Some(News::Refused(RefusedRequest::WriteClaim(vip), message))
    );
    let read = Event::ClaimRead { vip, outcome: Outcome::Missing };
    assert_eq!(refusals.on_answer(&read, BEGIN), None, "to be allowed to read is not to be allowed to write");
    assert_eq!(refusals.on_answer(&write, BEGIN), None);
}

/// Covers a request that is not needed any more, so that no success is seen either.
#[test]
fn a_refusal_after_a_long_silence_is_new() {
    let mut refusals = Refusals::default();
    let mut now = BEGIN;
    assert_eq!(refusals.on_answer(&deleted(1, refused("no")), now), Some(notified(1, "no")));
    for _ in 0..100 {
        now = now + SECOND * 5;
        assert_eq!(refusals.on_answer(&deleted(1, refused("no")), now), None);
    }
    assert_eq!(refusals.on_answer(&deleted(1, refused("no")), now + STANDS), Some(notified(1, "no")));
}

#[test]
fn a_bound_number_is_remembered_and_all_others_are_one_line() {
    let mut refusals = Refusals::default();
    let mut lines = 0;
    for round in 0..3 {
        for vip in 0..20_000 {
            let news = refusals.on_answer(&deleted(vip, refused("no")), BEGIN + SECOND * round * 5);
            lines += usize::from(news.is_some());
            assert!(refusals.said.number() <= MOST);
        }
    }
    assert_eq!(lines, MOST + 1);

    // Some are not needed any more: there is room, and it fills again.
    let half = BEGIN + STANDS;
    for vip in 0..100 {
        assert_eq!(refusals.on_answer(&deleted(vip, refused("no")), half), None);
    }
    let begin = BEGIN + STANDS + SECOND * 10;
    let news: Vec<_> =
        (30_000..30_157).filter_map(|vip| refusals.on_answer(&deleted(vip, refused("no")), begin)).collect();
    assert_eq!((news.len(), news.last()), (157, Some(&News::More)));
    assert_eq!(refusals.said.number(), MOST);

    // Stale refusals make room.
    let later = BEGIN + STANDS * 3;
    assert_eq!(refusals.on_answer(&deleted(20_000, refused("no")), later), Some(notified(20_000, "no")));
    assert_eq!(refusals.said.number(), 1);
}

#[test]
fn a_refused_status_is_one_problem_from_the_first_refusal_to_the_next_other_answer() {
    let web = ServiceName { namespace: "shop".into(), name: "web".into() };
    let problem = |why: &str| Some(Problem::StatusRefused { why: why.into() });
    let table = [
        ("it begins", refused("no permission"), (None, problem("no permission"))),
        ("it goes on", refused("no permission"), (None, None)),
        ("no answer says nothing", Outcome::Unknown, (None, None)),
        ("in other words", refused("a policy"), (problem("no permission"), problem("a policy"))),
        ("another has written it", Outcome::Conflict, (problem("a policy"), None)),
        ("it is written", Outcome::Done(()), (None, None)),
        ("it comes back", refused("a policy"), (None, problem("a policy"))),
        ("the Service is gone", Outcome::Missing, (problem("a policy"), None)),
    ];
    let mut statuses = RefusedStatuses::default();
    for (about, outcome, expected) in table {
        assert_eq!(statuses.on_answer(&web, &outcome), expected, "{about}");
    }
}
