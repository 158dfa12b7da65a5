//! Passes the results of effects to the work that waits for them.

use super::Agent;
use crate::{
    agent::{
        effect::Line,
        input::{Outcome, Readout},
        segment::Input,
        work::Waiting,
    },
    base::time::Monotonic,
    segment::egress,
};

impl Agent {
    /// Handles the result of an effect.
    pub(super) fn on_outcome(&mut self, outcome: Outcome, now: Monotonic) {
        match outcome {
            Outcome::Announced { key, round } => {
                return self.on_segment(Input::Announced { key, round }, now);
            }
            Outcome::NotSent(key) => return self.on_segment(Input::NotSent(key), now),
            Outcome::Asked { segment, round, host, sent } => {
                return self.on_egress(egress::Event::Asked { segment, round, host, sent }, now);
            }
            Outcome::Counted(counts) => return self.on_segment(Input::Counted(counts), now),
            Outcome::AttachedAgain(None) => return self.host.try_again_soon(now),
            Outcome::AttachedAgain(Some(network)) => {
                (self.view, self.attachments) = *network;
                return;
            }
            _ => {}
        }
        match (self.work.waiting.take(), outcome) {
            (Some(waiting), Outcome::Read(Ok(readout))) => self.on_read(waiting, readout, now),
            (Some(waiting), Outcome::Read(Err(error))) => self.on_unread(waiting, error, now),
            (Some(Waiting::Prepared(placed)), Outcome::Prepared(prepared)) => {
                self.on_prepared(*prepared, *placed, now);
            }
            (Some(Waiting::Written(writing)), Outcome::Written(results)) => {
                self.on_written(writing, results, now);
            }
            (Some(Waiting::Group { until, then }), Outcome::Group(change, result)) => {
                self.on_group(change, result);
                self.change_group(until, then, now);
            }
            (waiting, outcome) => {
                debug_assert!(false, "{outcome:?} is no result of {waiting:?}");
                self.work.waiting = waiting;
            }
        }
    }

    fn on_read(&mut self, waiting: Waiting, readout: Readout, now: Monotonic) {
        match (waiting, readout) {
            (Waiting::Network(changed), Readout::Network(network)) => {
                self.on_observed(Some(*network), changed, now);
            }
            (Waiting::Yields, Readout::Yields(yields)) => self.on_yields(yields),
            (Waiting::Maps { reclaim, is_first }, Readout::Maps(maps)) => {
                self.on_maps(*maps, reclaim, is_first);
            }
            (Waiting::Some(vips, then), Readout::Entries(read)) => self.on_some(read, vips, then, now),
            (Waiting::Records(placed), Readout::Records(records)) => self.on_records(records, *placed, now),
            (Waiting::Macs, Readout::Macs(macs)) => self.on_macs(macs, now),
            (Waiting::Memberships(keys), Readout::Entries(read)) => {
                self.on_members(&keys, &read.entries, now);
            }
            (Waiting::Groups, Readout::Groups(joined)) => {
                self.memberships.on_observed(joined);
                self.change_groups(None, now);
            }
            (Waiting::Held, Readout::Held(held)) => self.on_held(held, now),
            (Waiting::LeaseDeadline, Readout::LeaseDeadline(lease_deadline, any_yielded)) => {
                self.on_lease_deadline(lease_deadline, any_yielded, now);
            }
            (Waiting::Seen(examination), Readout::Seen(entries)) => self.on_seen(&entries, examination, now),
            (waiting, readout) => {
                debug_assert!(false, "{readout:?} is no result of {waiting:?}");
                self.work.waiting = Some(waiting);
            }
        }
    }

    /// Handles that something could not be read. It is read again later, and meanwhile all else goes on.
    fn on_unread(&mut self, waiting: Waiting, error: String, now: Monotonic) {
        match waiting {
            Waiting::Network(changed) => {
                self.log(Line::Unobserved(error));
                self.host.try_again_soon(now);
                self.on_observed(None, changed, now);
            }
            Waiting::Maps { .. } => self.on_round_unread(error, now),
            Waiting::Yields => {
                self.log(Line::Unread(error));
                self.host.try_again_soon(now);
            }
            Waiting::Some(vips, then) => self.on_some_unread(vips, error, then, now),
            Waiting::Records(placed) => self.on_some_unread(placed.vips, error, placed.then, now),
            Waiting::Macs => self.on_peers_unwritten(error, now),
            Waiting::Memberships(_) => {
                // Only a full round reads all entries again.
                self.log(Line::Groups(error));
                self.host.try_again_soon(now);
            }
            Waiting::Groups => {
                self.log(Line::Groups(error));
                self.memberships.try_again_soon(now);
            }
            Waiting::Held => {
                self.log(Line::Unread(error));
                self.work.adopts = true;
                self.host.try_again_soon(now);
            }
            Waiting::LeaseDeadline | Waiting::Seen(_) => {
                self.answers.give_up(now);
                self.log(Line::Unread(error));
            }
            Waiting::Prepared(_) | Waiting::Written(_) | Waiting::Group { .. } => {
                debug_assert!(false, "{error} is no result of {waiting:?}");
                self.work.waiting = Some(waiting);
            }
        }
    }
}
