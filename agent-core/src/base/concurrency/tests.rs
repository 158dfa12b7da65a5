use super::*;

const LEAST: u32 = 4;
const MOST: u32 = 64;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The server's behaviour during one round of requests.
#[derive(Clone, Copy, Debug)]
enum Does {
    Answers(u64),
    Refuses,
}

use Does::{Answers, Refuses};

/// Numbers of rounds, and what the server does in them.
type Rounds = [(u32, Does)];

fn play(concurrency: &mut Concurrency, rounds: u32, does: Does) {
    for _ in 0..rounds {
        for _ in 0..concurrency.limit() {
            match does {
                Answers(millis) => concurrency.on_answer(ms(millis)),
                Refuses => concurrency.on_overload(),
            }
        }
    }
}

#[test]
fn the_number_of_requests_follows_the_server() {
    let rows: [(&str, &Rounds, u32); 11] = [
        ("it starts with the least", &[], 4),
        ("it grows while answers are fast", &[(1, Answers(10))], 5),
        ("by a quarter each round", &[(4, Answers(10))], 12),
        ("up to the most", &[(20, Answers(10))], 64),
        ("it stays when answers take longer", &[(4, Answers(10)), (3, Answers(40))], 12),
        ("it shrinks when they take much longer", &[(20, Answers(10)), (1, Answers(100))], 56),
        ("at the least", &[(2, Answers(10)), (9, Answers(100))], 4),
        (
            "it is halved once for all requests that are refused together",
            &[(20, Answers(10)), (1, Refuses)],
            32,
        ),
        ("and again in the next round", &[(20, Answers(10)), (2, Refuses)], 16),
        ("by a server that only refuses", &[(20, Answers(10)), (6, Refuses)], 4),
        ("but not below the least", &[(9, Refuses)], 4),
    ];
    for (description, rounds, expected) in rows {
        let mut concurrency = Concurrency::new(LEAST, MOST);
        for (rounds, does) in rounds {
            play(&mut concurrency, *rounds, *does);
        }
        assert_eq!(concurrency.limit(), expected, "{description}");
    }
}

#[test]
fn it_is_halved_again_when_the_server_refuses_requests_of_the_next_round_too() {
    let mut concurrency = Concurrency::new(LEAST, MOST);
    play(&mut concurrency, 20, Answers(10));
    let mut limits = Vec::new();
    for _ in 0..6 {
        let under_way = concurrency.limit();
        concurrency.on_overload();
        limits.push(concurrency.limit());
        for _ in 1..under_way {
            concurrency.on_answer(ms(10));
        }
    }
    assert_eq!(limits, [32, 16, 8, 4, 4, 4], "answers of the round in which it was halved raise nothing");
    play(&mut concurrency, 1, Answers(10));
    assert_eq!(concurrency.limit(), 5, "the server has recovered");
}

#[test]
fn a_server_that_has_become_slower_for_good_is_not_asked_less_for_ever() {
    let mut concurrency = Concurrency::new(LEAST, MOST);
    play(&mut concurrency, 20, Answers(10));
    play(&mut concurrency, 40, Answers(100));
    assert_eq!(concurrency.limit(), LEAST);
    play(&mut concurrency, 700, Answers(100));
    assert_eq!(concurrency.limit(), MOST);
}

/// A server that does a job in 5 ms, one at a time.
#[test]
fn it_keeps_a_server_busy_without_a_long_queue() {
    let mut concurrency = Concurrency::new(LEAST, MOST);
    for _ in 0..200 {
        let waits = 5 * u64::from(concurrency.limit());
        play(&mut concurrency, 1, Answers(waits));
        assert!(concurrency.limit() <= 40, "{} are under way", concurrency.limit());
    }
    assert!(concurrency.limit() >= 8, "{} are under way", concurrency.limit());
}
