use std::net::Ipv4Addr;

use super::*;
use crate::ownership::tests::records::at;

const ONE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const TWO: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

#[test]
fn a_vip_comes_when_its_time_has_come_and_once() {
    let mut queue = Queue::default();
    let (mut one, mut two) = (None, None);
    queue.schedule(ONE, &mut one, Some(at(20)));
    queue.schedule(TWO, &mut two, Some(at(10)));
    queue.wake(at(9));
    assert!(queue.is_empty());
    assert_eq!(queue.next(), Some(at(10)));
    queue.wake(at(20));
    assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some(ONE), Some(TWO), None));
    assert_eq!(queue.next(), None);
}

#[test]
fn a_later_time_replaces_the_one_before() {
    let mut queue = Queue::default();
    let mut one = None;
    queue.schedule(ONE, &mut one, Some(at(10)));
    queue.schedule(ONE, &mut one, Some(at(30)));
    assert_eq!((one, queue.next()), (Some(at(30)), Some(at(30))));
    queue.schedule(ONE, &mut one, None);
    assert_eq!((one, queue.next()), (None, None));
}
