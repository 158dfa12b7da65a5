use super::*;

/// Steps of the watch, in order, each timeout with its remedy.
enum Met {
    Line,
    Renewal,
    Silence(Remedy),
}

use Met::{Line, Renewal};

fn play(description: &str, course: &[Met]) {
    let (mut silence, mut renewals) = (Silence::default(), 0);
    for (number, met) in course.iter().enumerate() {
        match met {
            Line => silence.received(renewals),
            Renewal => renewals += 1,
            Met::Silence(remedy) => {
                assert_eq!(silence.found(renewals), *remedy, "{description}, step {number}");
                silence.begin(renewals);
            }
        }
    }
}

#[test]
fn a_watch_that_stays_silent_while_renewals_succeed_has_everything_listed() {
    const BEGIN: Met = Met::Silence(Remedy::Begin);
    const BEGIN_ALL: Met = Met::Silence(Remedy::BeginAll);
    const LIST_ALL: Met = Met::Silence(Remedy::ListAll);
    play("silent twice", &[Line, Renewal, BEGIN_ALL, Renewal, LIST_ALL]);
    play("before anything has come", &[Renewal, BEGIN, Renewal, LIST_ALL]);
    play("no node renews", &[Line, BEGIN_ALL, BEGIN, BEGIN, BEGIN]);
    play("renewals fail for a while", &[Line, Renewal, BEGIN_ALL, BEGIN, Renewal, BEGIN, Renewal, LIST_ALL]);
    play(
        "something comes in between",
        &[Line, Renewal, BEGIN_ALL, Line, Renewal, BEGIN_ALL, Renewal, LIST_ALL],
    );
    play("the last renewal was learned of", &[Renewal, Line, BEGIN_ALL, BEGIN, BEGIN]);
}

#[test]
fn lists_that_do_not_help_become_rarer() {
    let (mut silence, mut listed) = (Silence::default(), Vec::new());
    for times in 1..=40 {
        if silence.found(times) == Remedy::ListAll {
            listed.push(times);
        }
        silence.begin(times);
    }
    assert_eq!(listed, [2, 4, 8, 16, 32]);
}
