use std::net::{IpAddr, Ipv4Addr};

use super::{super::message::Reason, *};
use crate::services::ProblemReason;

const NOW: Monotonic = Monotonic::from_nanos(1_000_000_000_000);

fn message(reason: Reason, vip: u32, note: &str) -> Message {
    Message::new(Object::VirtualIp(IpAddr::V4(Ipv4Addr::from_bits(vip))), None, reason, note)
}

fn conflict(vip: u32) -> Message {
    message(Reason::Conflict, vip, "began")
}

fn moved(vip: u32) -> Message {
    message(Reason::Moved, vip, "moved")
}

impl Queue {
    fn drain(&mut self) -> Vec<Message> {
        let drained = std::iter::from_fn(|| Some(self.pop()?.message)).collect();
        assert!(self.waiting.is_empty() && self.places.is_empty() && self.moves == 0, "{self:?}");
        drained
    }
}

#[test]
fn warnings_come_first_and_then_the_longest_wait() {
    let mut queue = Queue::default();
    for message in [moved(2), moved(1), conflict(2), conflict(1)] {
        assert!(queue.push(message, NOW));
    }
    assert_eq!(queue.first_kind(), Some(Kind::Warning));
    assert_eq!(queue.drain(), [conflict(2), conflict(1), moved(2), moved(1)]);
    assert_eq!(queue.first_kind(), None);
}

#[test]
fn newer_news_of_a_topic_takes_the_place_of_older_news() {
    let mut queue = Queue::default();
    let grows = message(Reason::ConflictGrows, 1, "grows");
    let mut grown = grows.clone();
    grown.uid = Some("created meanwhile".into());
    for message in [conflict(1), conflict(2), moved(1), grows, grown.clone()] {
        assert!(queue.push(message, NOW));
    }
    assert_eq!(queue.drain(), [grown, conflict(2), moved(1)]);
}

#[test]
fn news_about_two_vips_of_one_service_wait_side_by_side() {
    let mut queue = Queue::default();
    let vips = [IpAddr::from([192, 0, 2, 10]), "2001:db8::10".parse().expect("an address")];
    let of_service = |reason, vip: IpAddr| message(reason, 1, "of it").about(vip);
    let news = [Reason::Conflict, Reason::Moved].map(|reason| vips.map(|vip| of_service(reason, vip)));
    for message in news.iter().flatten() {
        assert!(queue.push(message.clone(), NOW));
    }
    assert_eq!(queue.drain(), news.concat());
}

#[test]
fn problems_of_one_service_wait_side_by_side() {
    let mut queue = Queue::default();
    let problem = |note| message(Reason::Problem(ProblemReason::PortClash), 1, note);
    for note in ["a", "b", "a"] {
        assert!(queue.push(problem(note), NOW));
    }
    assert!(queue.remove(&(problem("a").object.clone(), problem("a").topic())).is_some());
    assert_eq!(queue.drain(), [problem("b")]);
}

#[test]
fn a_bound_number_of_messages_waits_and_fewer_moves() {
    let mut queue = Queue::default();
    let taken = (0..10_000).filter(|vip| queue.push(moved(*vip), NOW)).count();
    assert_eq!(taken, MOST_MOVES);
    let taken = (0..10_000).filter(|vip| queue.push(conflict(*vip), NOW)).count();
    assert_eq!(taken, MOST - MOST_MOVES);
    let over = message(Reason::ConflictOver, 1, "over");
    assert!(queue.push(over.clone(), NOW), "news about what waits has room");
    assert!(queue.push(message(Reason::Announced, 1, "again"), NOW));
    let drained = queue.drain();
    assert_eq!(drained.len(), MOST);
    assert!(drained.contains(&over));
}
