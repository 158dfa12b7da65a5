use std::{cell::RefCell, net::Ipv4Addr};

use super::*;
use crate::shell::kube::Kind;

fn at(seconds: u64) -> Monotonic {
    Monotonic::default() + Duration::from_secs(seconds)
}

fn about(last: u16, note: &str) -> Message {
    let [high, low] = last.to_be_bytes();
    Message {
        regarding: Regarding::VirtualIp(Ipv4Addr::new(192, 0, high, low)),
        kind: Kind::Warning,
        reason: "Conflict",
        note: note.to_owned(),
    }
}

/// A recorder with room for so many, and what it has taken.
struct Room(RefCell<(usize, Vec<Message>)>);

impl Room {
    fn of(messages: usize) -> Self {
        Self(RefCell::new((messages, Vec::new())))
    }

    fn offer(&self, message: Message) -> bool {
        let (room, taken) = &mut *self.0.borrow_mut();
        let has_room = *room > 0;
        if has_room {
            *room -= 1;
            taken.push(message);
        }
        has_room
    }

    fn grow(&self, by: usize) {
        self.0.borrow_mut().0 += by;
    }

    fn taken(&self) -> Vec<Message> {
        std::mem::take(&mut self.0.borrow_mut().1)
    }
}

#[test]
fn what_has_room_is_told_at_once_and_nothing_waits() {
    let (mut untold, room) = (Untold::default(), Room::of(1));
    untold.tell(about(1, "began"), |message| room.offer(message), at(0));
    assert_eq!((room.taken(), untold.next_deadline()), (vec![about(1, "began")], None));
}

#[test]
fn what_had_no_room_is_told_in_its_time_and_the_last_about_each_only() {
    let (mut untold, room) = (Untold::default(), Room::of(0));
    for (last, note) in [(1, "began"), (2, "began"), (1, "is over")] {
        untold.tell(about(last, note), |message| room.offer(message), at(0));
    }
    assert_eq!(untold.next_deadline(), Some(at(1)));
    untold.offer_again(|message| room.offer(message), at(1));
    assert_eq!((room.taken(), untold.next_deadline()), (vec![], Some(at(2))), "there is no room still");
    room.grow(1);
    untold.offer_again(|message| room.offer(message), at(1));
    assert_eq!(room.taken(), [], "it is not time");
    untold.offer_again(|message| room.offer(message), at(2));
    assert_eq!((room.taken(), untold.next_deadline()), (vec![about(1, "is over")], Some(at(3))));
    room.grow(5);
    untold.tell(about(3, "began"), |message| room.offer(message), at(2));
    assert_eq!(room.taken(), [], "those that wait go first");
    untold.offer_again(|message| room.offer(message), at(3));
    assert_eq!((room.taken(), untold.next_deadline()), (vec![about(2, "began"), about(3, "began")], None));
}

#[test]
fn no_more_than_a_bound_is_remembered() {
    let (mut untold, room) = (Untold::default(), Room::of(0));
    for number in 0..10_000 {
        untold.tell(about(number, "began"), |message| room.offer(message), at(0));
    }
    assert_eq!(untold.messages.len(), MOST);
    untold.tell(about(1, "is over"), |message| room.offer(message), at(0));
    assert_eq!(
        untold.messages[&about(1, "").regarding].note,
        "is over",
        "what is remembered is kept up to date"
    );
}
