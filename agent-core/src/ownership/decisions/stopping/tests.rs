use super::*;
use crate::ownership::tests::records::at;

#[test]
fn an_agent_without_a_session_ends_when_its_state_is_settled() {
    let mut stopping = Stopping::new(StopReason::Restart, false, at(0));
    assert_eq!(stopping.step(false, false, at(1)), StopStep::Wait);
    assert_eq!(stopping.step(true, false, at(2)), StopStep::End);
    assert_eq!(stopping.step(true, true, at(3)), StopStep::Wait, "it ends once");
    assert_eq!(stopping.deadline(), None);
}

#[test]
fn a_leaving_node_gives_its_session_up_once_and_ends_after_the_last_write() {
    let mut stopping = Stopping::new(StopReason::Leave, true, at(0));
    assert_eq!(stopping.step(true, false, at(1)), StopStep::Wait, "the last write is not made");
    assert_eq!(stopping.step(true, true, at(2)), StopStep::GiveUpSession);
    assert_eq!(stopping.step(true, true, at(3)), StopStep::Wait);
    stopping.on_last_lease();
    assert_eq!(stopping.step(true, true, at(4)), StopStep::End);
}

#[test]
fn nothing_keeps_an_agent_beyond_its_limit() {
    for (reason, limit) in [
        (StopReason::Restart, RESTART_LIMIT),
        (StopReason::Leave, LEAVE_LIMIT),
        (StopReason::Uninstall, UNINSTALL_LIMIT),
    ] {
        let mut stopping = Stopping::new(reason, true, at(0));
        assert_eq!(stopping.deadline(), Some(at(0) + limit));
        assert_eq!(stopping.step(false, false, at(0) + limit), StopStep::End, "{reason:?}");
    }
}
