//! Ticks at the deadlines alone.

use super::*;

/// Time between two ticks of [`Host::wait`].
const STEP: u64 = 10;

impl Host {
    /// Lets time pass, with a tick at each deadline or at each step. Returns the effects and their times.
    fn pass(&mut self, millis: u64, by_deadlines: bool) -> Vec<(u64, String)> {
        let end = self.site.millis + millis;
        let mut all = Vec::new();
        loop {
            let next =
                self.segment.next_deadline().map(|due| due.as_nanos().div_ceil(STEP * 1_000_000) * STEP);
            self.site.millis = match next {
                Some(next) if by_deadlines => next.max(self.site.millis),
                None if by_deadlines => return all,
                Some(_) | None => self.site.millis + STEP,
            };
            if self.site.millis > end {
                return all;
            }
            let words = self.on(Input::Tick);
            all.extend(words.into_iter().map(|word| (self.site.millis, word)));
            let next = self.segment.next_deadline();
            assert!(next.is_none_or(|next| next > self.site.now()), "{next:?} is due, and the tick left it");
        }
    }
}

fn holds(host: &mut Host) {
    host.takes(key(11));
}

fn probes(host: &mut Host) {
    host.on(Input::Wanted { key: key(12), manner: Manner::OFTEN });
    host.receives(event_about(12, EventKind::Sighted, unknown_host(1)));
}

fn disputes(host: &mut Host) {
    let claim = event_about(13, EventKind::Conflict, unknown_host(1));
    host.takes(key(13));
    host.receives(claim);
    host.receives(claim);
}

fn yields(host: &mut Host) {
    host.reconcile(false);
}

fn withdraws(host: &mut Host) {
    holds(host);
    host.on(Input::Withdrawn);
}

#[test]
fn a_tick_at_each_deadline_has_the_effects_of_ticks_all_the_time() {
    type Begin = fn(&mut Host);
    let rows: [(&str, &[Begin], &[&str]); 6] = [
        ("a held VIP", &[holds], &["announce 11 Taking(5)", "announce 11 Refresh", "probe held 11"]),
        ("a probed address", &[probes], &["probe 12", "count", "free 12"]),
        ("a conflict", &[disputes], &["count", "goes on held 13", "ended held 13: no claims any more"]),
        ("a yielded VIP", &[yields], &["probe 10", "reconcile", "take back 10"]),
        ("all of them", &[holds, probes, disputes, yields], &["announce 11 Refresh", "take back 10"]),
        ("a withdrawn VIP", &[withdraws], &[]),
    ];
    for (what, begin, expected) in rows {
        let pass = |by_deadlines| {
            let mut host = Host::new();
            for begin in begin {
                begin(&mut host);
            }
            host.pass(400_000, by_deadlines)
        };
        let words = pass(true);
        assert_eq!(words, pass(false), "{what}");
        for word in expected {
            assert!(words.iter().any(|(_, other)| other == word), "{what}: no {word:?}");
        }
        assert_eq!(words.is_empty(), expected.is_empty(), "{what}: {words:?}");
    }
}
