use super::*;
use crate::ownership::tests::records::{VIP, VIP_2, VIP_3, at, ms};

const RENEWAL: Duration = Duration::from_secs(1);

fn disputes() -> Disputes {
    Disputes::new(RENEWAL, at(0))
}

/// Contests `vip` at every tenth of a second, and confirms each read. Returns the times of the
/// reads, in seconds.
fn reads_of_a_flood(disputes: &mut Disputes, vip: IpAddr, tenths: std::ops::Range<u64>) -> Vec<u64> {
    let mut reads = Vec::new();
    for tenth in tenths {
        let now = at(tenth * 100);
        disputes.receive(vip, now);
        while let Some(read) = disputes.take(now) {
            assert_eq!(read, vip);
            disputes.begin(vip);
            disputes.confirm(vip);
            reads.push(tenth / 10);
        }
    }
    reads
}

#[test]
fn the_pauses_between_reads_that_confirm_double_from_a_renewal_to_a_minute() {
    let mut disputes = disputes();
    let reads = reads_of_a_flood(&mut disputes, VIP, 0..3_000);
    assert_eq!(reads, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
}

#[test]
fn a_changed_claim_and_a_quiet_time_make_the_next_read_the_first_again() {
    let mut disputes = disputes();
    reads_of_a_flood(&mut disputes, VIP, 0..100);
    disputes.forget(VIP);
    assert_eq!(reads_of_a_flood(&mut disputes, VIP, 100..150), [10, 11, 13]);
    // The next read waits until 17 s, and is made. The one after it could be made from 25 s on.
    assert_eq!(disputes.next(), Some(at(17_000)));
    assert_eq!(disputes.take(at(17_000)), Some(VIP));
    assert_eq!(reads_of_a_flood(&mut disputes, VIP, 900..911), [90, 91]);
}

#[test]
fn vips_are_read_in_the_order_in_which_they_were_contested_at_the_pace_of_the_node() {
    let mut disputes = disputes();
    for vip in [VIP_2, VIP_3] {
        disputes.receive(vip, at(0));
    }
    disputes.receive(VIP, at(1));
    for (millis, expected) in [(1, Some(VIP_2)), (1, None), (200, None), (201, Some(VIP_3)), (401, Some(VIP))]
    {
        assert_eq!(disputes.take(at(millis)), expected, "after {millis} ms");
        disputes.receive(VIP_2, at(millis));
    }
    assert_eq!(disputes.next(), Some(at(1_001)), "a renewal after its first read");
}

#[test]
fn a_read_that_fails_is_repeated_and_one_that_no_dispute_made_is_not() {
    let mut disputes = disputes();
    assert!(!disputes.fail(VIP, at(0)));
    disputes.receive(VIP, at(0));
    assert_eq!(disputes.take(at(0)), Some(VIP));
    disputes.begin(VIP);
    assert!(disputes.fail(VIP, at(900)));
    assert_eq!(disputes.next(), Some(at(900) + RETRY));
    assert_eq!(disputes.take(at(0) + ms(900) + RETRY), Some(VIP));
    assert!(!disputes.fail(VIP, at(2_000)), "this read was not begun");
}
