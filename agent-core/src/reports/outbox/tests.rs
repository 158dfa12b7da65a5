use std::net::{IpAddr, Ipv4Addr};

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const BEGIN: Monotonic = Monotonic::from_nanos(1_000_000_000_000);

fn message(reason: Reason, vip: u32, note: &str) -> Message {
    Message::new(Object::VirtualIp(IpAddr::V4(Ipv4Addr::from_bits(vip))), None, reason, note)
}

fn moved(vip: u32) -> Message {
    message(Reason::Moved, vip, "it moved")
}

fn conflict(vip: u32) -> Message {
    message(Reason::Conflict, vip, "another host claims it")
}

impl Outbox {
    /// Returns the request that is due now. Fails if a report is due.
    fn write(&mut self, now: Monotonic) -> Option<Write> {
        let mut commands = self.due(now);
        match (commands.pop(), commands.is_empty()) {
            (None, true) => None,
            (Some(Command::Write(write)), true) => Some(write),
            other => panic!("not a request alone: {other:?}"),
        }
    }

    /// Answers every request that is due now with success. Returns the requests, without reports.
    fn write_all(&mut self, now: Monotonic) -> Vec<Write> {
        let mut written = Vec::new();
        loop {
            let due = self.due(now).into_iter().find_map(|command| match command {
                Command::Write(write) => Some(write),
                Command::Report { .. } => None,
            });
            let Some(write) = due else { return written };
            written.push(write);
            self.on_outcome(Outcome::Done, 0.0, now);
        }
    }

    /// Answers every request from `now` to `end` with success, each
    /// at its time. Returns their messages.
    fn write_until(&mut self, mut now: Monotonic, end: Monotonic) -> Vec<Message> {
        let mut written = Vec::new();
        while let Some(next) = self.next_deadline().filter(|next| *next < end) {
            now = now.max(next);
            written.extend(self.write_all(now).into_iter().map(|write| write.message));
        }
        written
    }
}

#[test]
fn the_same_message_is_one_event_and_its_count_is_written_after_ten_minutes() {
    let mut outbox = Outbox::start(BEGIN);
    outbox.post(moved(1), BEGIN);
    let created = outbox.write(BEGIN).expect("a request");
    assert_eq!((created.message, created.count), (moved(1), None));
    outbox.on_outcome(Outcome::Done, 0.0, BEGIN);
    for second in 1..=100 {
        outbox.post(moved(1), BEGIN + SECOND * second);
        assert_eq!(outbox.write(BEGIN + SECOND * second), None);
    }
    assert_eq!(outbox.next_deadline(), Some(BEGIN + MINUTE * 10));
    let counted = outbox.write(BEGIN + MINUTE * 10).expect("a request");
    assert_eq!((counted.name, counted.count), (created.name.clone(), Some(101)));
    assert_eq!(counted.age, SECOND * 500, "since it was posted last");
    outbox.on_outcome(Outcome::Done, 0.0, BEGIN + MINUTE * 10);
    assert_eq!(outbox.next_deadline(), None, "it was not posted again");

    outbox.post(moved(1), BEGIN + MINUTE * 22);
    let counted = outbox.write(BEGIN + MINUTE * 22).expect("a request");
    assert_eq!((counted.name, counted.count), (created.name, Some(102)));
}

#[test]
fn there_is_one_request_at_a_time() {
    let mut outbox = Outbox::start(BEGIN);
    outbox.post(moved(1), BEGIN);
    outbox.post(moved(2), BEGIN);
    assert!(outbox.write(BEGIN).is_some());
    assert_eq!((outbox.write(BEGIN), outbox.next_deadline()), (None, None));
    outbox.on_outcome(Outcome::Done, 0.0, BEGIN);
    assert_eq!(outbox.write(BEGIN).map(|write| write.message), Some(moved(2)));
}

#[test]
fn in_ten_minutes_no_more_are_written_than_the_burst_and_one_a_second() {
    let mut outbox = Outbox::start(BEGIN);
    let mut written = 0;
    for tick in 0..6_000 {
        let now = BEGIN + Duration::from_millis(100) * tick;
        for vip in 0..4 {
            outbox.post(message(Reason::Conflict, vip, &tick.to_string()), now);
        }
        written += outbox.write_all(now).len();
    }
    assert!((600..=650).contains(&written), "{written}");
}

#[test]
fn warnings_are_written_in_the_middle_of_a_flood_of_moves() {
    let mut outbox = Outbox::start(BEGIN);
    for vip in 0..10_000 {
        outbox.post(moved(vip), BEGIN);
    }
    assert_eq!(outbox.write_all(BEGIN).len(), (BURST - FOR_WARNINGS) as usize);
    for vip in 0..100 {
        outbox.post(conflict(vip), BEGIN);
    }
    assert_eq!(outbox.write_all(BEGIN).len(), FOR_WARNINGS as usize);
    let next = outbox.write_all(BEGIN + SECOND);
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].message.reason, Reason::Conflict, "warnings go first after that, too");
}

#[test]
fn moves_wait_as_far_as_there_is_room_and_the_others_are_reported() {
    const MOVES: usize = 400;
    let mut outbox = Outbox::start(BEGIN);
    for vip in 0..MOVES {
        outbox.post(moved(u32::try_from(vip).expect("a small number")), BEGIN);
        outbox.write_all(BEGIN);
    }
    let at_once = (BURST - FOR_WARNINGS) as usize;
    let left_out = MOVES - at_once - queue::MOST_MOVES;
    assert_eq!(outbox.left_out, left_out as u64);
    assert_eq!(outbox.write_until(BEGIN, BEGIN + REPORT).len(), 59, "one a second");
    let commands = outbox.due(BEGIN + REPORT);
    assert_eq!(commands[1..], [Command::Report { left_out: left_out as u64, unwritten: 0 }]);
    outbox.on_outcome(Outcome::Done, 0.0, BEGIN + REPORT);
    assert_eq!(outbox.write_until(BEGIN + REPORT, BEGIN + FRESH).len(), queue::MOST_MOVES - 60);
    assert_eq!(outbox.next_deadline(), None, "the same is not reported twice");
}

#[test]
fn moves_that_waited_for_minutes_are_left_out_and_conflicts_are_not() {
    let mut outbox = Outbox::start(BEGIN);
    for vip in 0..500 {
        outbox.post(conflict(vip), BEGIN);
    }
    outbox.post(moved(1_000), BEGIN);
    let written = outbox.write_until(BEGIN, BEGIN + MINUTE * 10);
    assert_eq!(written.len(), 500);
    assert!(written.iter().all(|message| message.reason == Reason::Conflict));
    assert_eq!(outbox.left_out, 0, "it has been reported");
    assert_eq!(outbox.next_deadline(), None);
}

#[test]
fn the_last_news_about_an_object_is_written() {
    let mut outbox = Outbox::start(BEGIN);
    for vip in 0..50 {
        outbox.post(conflict(vip), BEGIN);
    }
    assert_eq!(outbox.write_all(BEGIN).len(), 50);
    let over = message(Reason::ConflictOver, 60, "the conflict is over");
    for news in [conflict(60), over.clone(), moved(60)] {
        outbox.post(news, BEGIN);
    }
    assert_eq!(outbox.write_until(BEGIN, BEGIN + MINUTE * 5), [over, moved(60)]);
}

#[test]
fn older_news_that_waits_is_dropped_when_what_was_said_before_is_so_again() {
    let mut outbox = Outbox::start(BEGIN);
    outbox.post(moved(60), BEGIN);
    outbox.write_all(BEGIN);
    outbox.post(message(Reason::NoHolder, 60, "no node can hold it"), BEGIN);
    outbox.post(moved(60), BEGIN);
    assert_eq!(outbox.write_until(BEGIN, BEGIN + MINUTE * 5), []);
}

#[test]
fn a_problem_that_is_over_is_withdrawn() {
    let service = ServiceName { namespace: "shop".into(), name: "web".into() };
    let problem = |last: u16| Problem::Refused {
        address: [0x2001, 0xdb8, 0, 0, 0, 0, 0, last].into(),
        place: crate::services::Place::Addresses,
        why: crate::services::Refusal::NoSegment,
    };
    let of_problem = |last| Message::of_problem(service.clone(), None, &problem(last));
    let mut outbox = Outbox::start(BEGIN);
    for last in 1..=3 {
        outbox.post(of_problem(last), BEGIN);
    }
    outbox.withdraw(&service, &problem(2));
    let written = outbox.write_all(BEGIN).into_iter().map(|write| write.message);
    assert_eq!(written.collect::<Vec<_>>(), [of_problem(1), of_problem(3)]);
    outbox.withdraw(&service, &problem(1));
}

/// Returns the times of the attempts for an Event that is never written, from the beginning.
fn attempts(jitter: f64) -> Vec<Duration> {
    let mut outbox = Outbox::start(BEGIN);
    outbox.post(conflict(1), BEGIN);
    let mut attempts = Vec::new();
    let mut now = BEGIN;
    while outbox.unwritten == 0 {
        assert!(outbox.write(now).is_some());
        attempts.push(now.saturating_since(BEGIN));
        outbox.on_outcome(Outcome::Unknown, jitter, now);
        now = outbox.next_deadline().expect("an attempt or a report");
    }
    attempts
}

#[test]
fn a_request_is_repeated_later_each_time_and_given_up_after_five_minutes() {
    let seconds: Vec<u64> = attempts(0.0).iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [0, 1, 3, 7, 15, 31, 61, 91, 121, 151, 181, 211, 241, 271]);
    let latest = attempts(1.0);
    assert_eq!(latest[1], SECOND * 5 / 4);
    assert!(latest.last().is_some_and(|last| *last > MINUTE), "it outlives an outage of a minute");
}

#[test]
fn other_events_are_written_while_one_is_to_be_repeated() {
    let mut outbox = Outbox::start(BEGIN);
    outbox.post(conflict(1), BEGIN);
    outbox.post(conflict(2), BEGIN);
    assert!(outbox.write(BEGIN).is_some());
    outbox.on_outcome(Outcome::Unknown, 0.0, BEGIN);
    assert_eq!(outbox.write(BEGIN).map(|write| write.message), Some(conflict(2)));
    outbox.on_outcome(Outcome::Done, 0.0, BEGIN);
    assert_eq!((outbox.write(BEGIN), outbox.next_deadline()), (None, Some(BEGIN + SECOND)));
    assert_eq!(outbox.write(BEGIN + SECOND).map(|write| write.message), Some(conflict(1)));
}

#[test]
fn in_an_outage_no_more_than_a_bound_is_repeated_and_everything_is_written_after_it() {
    let mut outbox = Outbox::start(BEGIN);
    for vip in 0..1_000 {
        outbox.post(conflict(vip), BEGIN);
    }
    let (mut now, end) = (BEGIN, BEGIN + MINUTE * 4);
    while now < end {
        assert!(outbox.write(now).is_some());
        outbox.on_outcome(Outcome::Unknown, 0.5, now);
        assert!(outbox.retries.len() <= MOST_RETRIED);
        now = now.max(outbox.next_deadline().expect("another attempt"));
    }
    assert_eq!(outbox.write_until(end, end + MINUTE * 20).len(), 1_000);
}

#[test]
fn an_event_that_another_node_has_created_is_counted_on() {
    let mut outbox = Outbox::start(BEGIN);
    outbox.post(conflict(1), BEGIN);
    let created = outbox.write(BEGIN).expect("a request");
    outbox.on_outcome(Outcome::Exists, 0.0, BEGIN);
    let counted = outbox.write(BEGIN).expect("a request");
    assert_eq!((counted.name, counted.count), (created.name.clone(), Some(2)));
    outbox.on_outcome(Outcome::Done, 0.0, BEGIN);
    assert_eq!(outbox.next_deadline(), None, "it was not posted again");
    outbox.post(conflict(1), BEGIN + MINUTE * 12);
    let counted = outbox.write(BEGIN + MINUTE * 12).expect("a request");
    assert_eq!((counted.name, counted.count), (created.name, Some(3)));
}

#[test]
fn an_event_that_exists_after_an_answer_got_lost_is_this_nodes_own() {
    let mut outbox = Outbox::start(BEGIN);
    outbox.post(conflict(1), BEGIN);
    assert!(outbox.write(BEGIN).is_some());
    outbox.on_outcome(Outcome::Unknown, 0.0, BEGIN);
    assert!(outbox.write(BEGIN + SECOND).is_some());
    outbox.on_outcome(Outcome::Exists, 0.0, BEGIN + SECOND);
    assert_eq!(outbox.next_deadline(), None);
}

#[test]
fn a_refused_event_is_reported_and_created_anew_when_it_is_said_again() {
    let mut outbox = Outbox::start(BEGIN);
    outbox.post(moved(1), BEGIN);
    assert!(outbox.write(BEGIN).is_some());
    outbox.on_outcome(Outcome::Refused, 0.0, BEGIN);
    assert_eq!(outbox.next_deadline(), Some(BEGIN + REPORT));
    assert_eq!(outbox.due(BEGIN + REPORT), [Command::Report { left_out: 0, unwritten: 1 }]);
    outbox.post(moved(1), BEGIN + REPORT);
    assert_eq!(outbox.write(BEGIN + REPORT).map(|write| write.count), Some(None));
}
