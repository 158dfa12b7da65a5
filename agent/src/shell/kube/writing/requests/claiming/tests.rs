use vipward_core::records::{ClaimNote, ClaimState, Epoch};

use super::*;

#[test]
fn only_a_write_that_delays_no_answer_can_wait() {
    let vip = IpAddr::from([192, 0, 2, 1]);
    let write = |can_wait| ClaimWrite {
        vip,
        expected: ExpectedClaim::Absent,
        epoch: Epoch(2),
        state: ClaimState::Released,
        note: ClaimNote::default(),
        can_wait,
    };
    let rows = [
        (ClaimJob::Write(write(false)), false, "an offer, an acceptance, a repair"),
        (ClaimJob::Write(write(true)), true, "no node has it"),
        (ClaimJob::Delete { vip, expected: "7".into() }, true, "no Service wants it"),
        (ClaimJob::Read(vip), false, "it decides whether a VIP is answered"),
    ];
    for (job, can_wait, description) in rows {
        assert_eq!(job.can_wait(), can_wait, "{description}");
    }
}
