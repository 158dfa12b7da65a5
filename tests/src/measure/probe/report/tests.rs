use super::*;

const A: Answerer = Answerer { sha: Mac([2, 0, 0, 0, 0, 1]), eth_src: Mac([2, 0, 0, 0, 0, 1]) };
const B: Answerer = Answerer { sha: Mac([2, 0, 0, 0, 0, 2]), eth_src: Mac([2, 0, 0, 0, 0, 2]) };

/// Returns a report of requests 1 ms apart. Each item lists the sources of
/// the answers, and their delays in milliseconds.
fn report(answers: &[&[(Answerer, u64)]]) -> ProbeReport {
    let mut report = ProbeReport::new(Duration::from_millis(1));
    let mut sent_at = SystemTime::UNIX_EPOCH;
    for answers in answers {
        let answers =
            answers.iter().map(|(by, after)| Answer { by: *by, at: sent_at + Duration::from_millis(*after) });
        report.requests.push(Request { sent_at, late: Duration::ZERO, answers: answers.collect() });
        sent_at += Duration::from_millis(1);
    }
    report
}

#[test]
fn gaps_are_runs_of_unanswered_requests() {
    let answered: &[_] = &[(A, 0)];
    let rows: [(&str, ProbeReport, usize, u64); 5] = [
        ("nothing was asked", report(&[]), 0, 0),
        ("all is answered", report(&[answered, answered]), 0, 0),
        ("the longer run counts", report(&[&[], answered, &[], &[], answered]), 3, 2),
        ("a run at the end counts", report(&[answered, &[], &[], &[]]), 3, 3),
        ("an answer after the limit is none", report(&[answered, &[(A, 1001)], answered]), 1, 1),
    ];
    for (description, report, unanswered, gap_ms) in rows {
        assert_eq!(report.unanswered().len(), unanswered, "{description}");
        assert_eq!(report.answered() + unanswered, report.sent(), "{description}");
        assert_eq!(report.longest_gap(), Duration::from_millis(gap_ms), "{description}");
    }
}

#[test]
fn a_probe_that_did_not_run_makes_no_gap() {
    let mut report = report(&[&[(A, 0)], &[], &[(A, 0)]]);
    report.requests[1].late = Duration::from_millis(50);
    for request in &mut report.requests[1..] {
        request.sent_at += Duration::from_millis(50);
    }
    assert_eq!(report.longest_gap(), Duration::from_millis(1));
    assert_eq!(report.longest_delay_of_probe(), Duration::from_millis(50));
}

#[test]
fn two_hosts_that_answer_are_distinguished() {
    let report = report(&[&[(A, 1)], &[(A, 1), (B, 3)], &[(B, 2)]]);
    assert_eq!(report.doubles(), 1);
    assert_eq!(report.answers_by(), BTreeMap::from([(A, 2), (B, 2)]));
    assert_eq!(report.slowest_answer(), Duration::from_millis(2));
}

#[test]
fn a_part_of_a_report_is_a_report() {
    let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
    let report = report(&[&[(A, 0)], &[], &[], &[(A, 0)]]);
    assert_eq!(report.between(at(1), at(3)).answered(), 0);
    assert_eq!(report.between(at(3), at(9)).unanswered(), []);
    assert_eq!(report.unanswered(), [(1, Duration::from_millis(1)), (2, Duration::from_millis(2))]);
}
