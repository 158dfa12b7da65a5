//! Schedules with wire failover: more nodes, and faults that its rules are about.

use vipward_core::liveness::Scale;

use super::{FIRST_MS, Generator};
use crate::schedule::{
    plan::{Disturbance, NodePlan, Schedule, When, WirePlan},
    what::{Edit, Ending, Kind, MILD_FREEZE_MS, OnApi, OnSegment, What, Who},
};

/// The time until all sessions are in mode notice.
fn armed_ms(scale: Scale) -> u32 {
    FIRST_MS + 6_000 + 2_000 * scale.factor()
}

/// The time until all is calm again.
fn calm_ms(scale: Scale) -> u32 {
    12_000 + 2_000 * scale.factor()
}

/// The time without an answer after which a node may be silent.
fn suspect_ms(scale: Scale) -> u32 {
    300 * scale.factor()
}

impl Generator {
    /// Adds wire failover to a schedule.
    pub(super) fn with_wire(&mut self, mut schedule: Schedule) -> Schedule {
        for _ in 0..self.rng.u8(0..=2) {
            self.nodes += 1;
            schedule.nodes.push(NodePlan { clock_ppm: self.rng.i32(-10_000..=10_000), ..schedule.nodes[0] });
        }
        let keyless = if self.rng.u8(0..6) == 0 { 1 << self.rng.u8(0..self.nodes) } else { 0 };
        let replayed_ms = if self.rng.u8(0..3) == 0 { self.rng.u32(1..5_000) } else { 0 };
        let (third_station, scale) = (self.rng.u8(0..4) > 0, self.scale());
        schedule.wire = Some(WirePlan { scale, keyless, third_station, replayed_ms });
        match self.rng.u8(0..8) {
            0 | 1 => {
                schedule.disturbances = self.mild(scale);
                self.forgeries_after(&mut schedule);
                calm(&mut schedule);
            }
            2 | 3 => {
                schedule.disturbances = self.crashes(scale);
                self.forgeries_after(&mut schedule);
                calm(&mut schedule);
            }
            4 | 5 => {
                schedule.disturbances = self.combined(scale);
                self.forgeries_after(&mut schedule);
            }
            _ => {
                for _ in 0..self.rng.u8(1..5) {
                    let when = When::Ms(self.rng.u32(FIRST_MS..FIRST_MS + 25_000));
                    let what = self.wire_fault(scale);
                    schedule.disturbances.push(Disturbance { when, what });
                }
            }
        }
        schedule
    }

    /// Returns 1 or 2 mostly; 2 is the default.
    fn scale(&mut self) -> Scale {
        match self.rng.u8(0..8) {
            0..3 => Scale::One,
            3..7 => Scale::Two,
            _ => Scale::Four,
        }
    }

    /// Adds an outage of the API server in which a stranger announces, after all else.
    fn forgeries_after(&mut self, schedule: &mut Schedule) {
        let end = |of: &Disturbance| match of.when {
            When::Ms(at) => {
                at + of.what.lasts().map_or(0, |lasts| u32::try_from(lasts.as_millis()).unwrap_or(0))
            }
            When::Step { .. } => 0,
        };
        let after = schedule.disturbances.iter().map(end).max().unwrap_or(0);
        for Disturbance { when, what } in self.forgeries() {
            let When::Ms(at) = when else { continue };
            schedule.disturbances.push(Disturbance { when: When::Ms(at + after), what });
        }
    }

    fn holder(&mut self) -> Who {
        Who::Holder(self.vip())
    }

    fn monitor(&mut self) -> Who {
        Who::Monitor(self.vip(), self.rng.u8(0..3))
    }

    /// Returns the holder of a VIP, a monitor of it, or any node.
    fn someone(&mut self) -> Who {
        match self.rng.u8(0..4) {
            0 | 1 => self.holder(),
            2 => self.monitor(),
            _ => self.who(),
        }
    }

    /// Returns disturbances by which nothing may move, one at a time.
    fn mild(&mut self, scale: Scale) -> Vec<Disturbance> {
        let mut at = armed_ms(scale);
        let many = self.rng.u8(1..4);
        (0..many)
            .map(|_| {
                at += self.rng.u32(0..500);
                let what = self.mild_one(scale);
                let disturbance = Disturbance { when: When::Ms(at), what };
                at += calm_ms(scale)
                    + what.lasts().map_or(0, |lasts| u32::try_from(lasts.as_millis()).unwrap_or(0));
                disturbance
            })
            .collect()
    }

    fn mild_one(&mut self, scale: Scale) -> What {
        let half = self.timing.lease_ms / 2;
        let longest = MILD_FREEZE_MS * scale.factor();
        let (who, for_ms, segment) = (self.someone(), self.rng.u32(300..6_000), self.segment());
        match self.rng.u8(0..14) {
            0 => What::Kill { who, back_ms: Some(self.rng.u32(20..half)) },
            1 => What::End { who, how: Ending::Restart, back_ms: Some(self.rng.u32(50..half * 2)) },
            2 => What::Pause { who, for_ms: self.rng.u32(50..half) },
            3 => What::Freeze { who, for_ms: self.rng.u32(20..longest), clock_too: self.rng.bool() },
            4 => What::Api(OnApi::ApiDown { refused: self.rng.bool(), for_ms: self.rng.u32(500..15_000) }),
            5 => What::PowerOff { who: self.monitor(), back_ms: Some(self.rng.u32(3_000..10_000)) },
            6 => What::Segment(OnSegment::Lossy { segment, percent: 10, for_ms }),
            7 => What::Segment(OnSegment::Lossy { segment, percent: 100, for_ms: self.rng.u32(250..12_000) }),
            8 => What::Segment(OnSegment::LateFrames { segment, by_ms: self.rng.u32(1..30), for_ms }),
            9 => What::KeyGone { who, for_ms },
            10 => What::Busy { who, by_ms: self.rng.u32(50..600), for_ms },
            11 => {
                What::Segment(OnSegment::OneWay { segment, from: self.holder(), to: self.monitor(), for_ms })
            }
            _ => {
                let vip = self.vip();
                let other = Who::Monitor(vip, self.rng.u8(0..3));
                What::Segment(OnSegment::Cut { segment, one: Who::Holder(vip), other, for_ms })
            }
        }
    }

    /// Returns crashes of holders, one at a time, some with one of the voters, and dead interfaces.
    fn crashes(&mut self, scale: Scale) -> Vec<Disturbance> {
        let mut at = armed_ms(scale);
        let mut disturbances = Vec::new();
        for _ in 0..self.rng.u8(1..4) {
            at += self.rng.u32(0..1_000);
            // Longer than the others may take.
            let (vip, for_ms) = (self.vip(), self.rng.u32(4_000..7_000) + 2_000 * scale.factor());
            let mut add = |what| disturbances.push(Disturbance { when: When::Ms(at), what });
            let who = Who::Holder(vip);
            match self.rng.u8(0..5) {
                0 => add(What::PowerOff { who, back_ms: Some(for_ms) }),
                1 => add(What::Removed { who, back_ms: Some(for_ms) }),
                2 => {
                    // The monitor is named as long as the holder's claim stands.
                    add(What::PowerOff { who: Who::Monitor(vip, self.rng.u8(0..3)), back_ms: Some(for_ms) });
                    add(What::PowerOff { who, back_ms: Some(for_ms) });
                }
                3 => add(What::Segment(OnSegment::Dead {
                    segment: vip % self.segments,
                    who,
                    out: true,
                    into: true,
                    for_ms,
                })),
                _ => {
                    let out = self.rng.bool();
                    add(What::Segment(OnSegment::Dead {
                        segment: vip % self.segments,
                        who,
                        out,
                        into: !out,
                        for_ms,
                    }));
                }
            }
            at += for_ms + calm_ms(scale);
        }
        disturbances
    }

    /// Returns faults that come together with other ones, of those that make a rule matter.
    fn combined(&mut self, scale: Scale) -> Vec<Disturbance> {
        let mut at = armed_ms(scale);
        let mut disturbances = Vec::new();
        for _ in 0..self.rng.u8(1..4) {
            at += self.rng.u32(0..2_000);
            let (vip, longer_ms) = (self.vip(), self.rng.u32(50..3_700));
            let for_ms = suspect_ms(scale) + longer_ms;
            let (holder, monitor) = (Who::Holder(vip), Who::Monitor(vip, self.rng.u8(0..3)));
            let a_little = self.rng.u32(0..suspect_ms(scale) + 100);
            let mut add = |after: u32, what| {
                disturbances.push(Disturbance { when: When::Ms(at + after), what });
            };
            let silent = match self.rng.u8(0..4) {
                0 => What::Freeze {
                    who: holder,
                    for_ms: suspect_ms(scale) + longer_ms / 4,
                    clock_too: self.rng.bool(),
                },
                1 => What::Suspended { who: holder, for_ms: suspect_ms(scale) + longer_ms / 2 },
                2 => What::Segment(OnSegment::Dead {
                    segment: vip % self.segments,
                    who: holder,
                    out: true,
                    into: self.rng.bool(),
                    for_ms,
                }),
                _ => What::Segment(OnSegment::Cut {
                    segment: vip % self.segments,
                    one: holder,
                    other: monitor,
                    for_ms,
                }),
            };
            let refused = self.rng.bool();
            match self.rng.u8(0..8) {
                0 => add(0, What::Api(OnApi::CutOff { who: holder, refused, for_ms: for_ms + 3_000 })),
                1 => add(0, What::Pause { who: holder, for_ms: for_ms + 3_000 }),
                2 => add(
                    0,
                    What::Api(OnApi::SlowApi { by_ms: self.rng.u32(100..3_000), for_ms: for_ms + 4_000 }),
                ),
                3 => add(
                    0,
                    What::Api(OnApi::Stall { who: monitor, kind: Kind::Lease, for_ms: for_ms + 4_000 }),
                ),
                4 => add(a_little, What::Pause { who: monitor, for_ms }),
                5 => add(a_little, What::Edit(Edit::Move { vip, to: self.who() })),
                7 => {
                    // The word of a stranger, and an announcement in the name of a peer.
                    add(a_little, What::FalseEnd { segment: vip % self.segments, who: holder });
                    add(a_little + longer_ms / 8, What::Forged { vip, name: monitor });
                }
                6 => add(
                    a_little,
                    What::Segment(OnSegment::Dead {
                        segment: vip % self.segments,
                        who: monitor,
                        out: true,
                        into: true,
                        for_ms,
                    }),
                ),
                _ => {}
            }
            add(a_little, silent);
            if self.rng.u8(0..3) == 0 {
                let what = self.wire_fault(scale);
                disturbances.push(Disturbance { when: When::Ms(at + self.rng.u32(0..2_000)), what });
            }
            at += self.rng.u32(6_000..14_000);
        }
        disturbances
    }

    /// Returns a fault that wire failover is about.
    fn wire_fault(&mut self, scale: Scale) -> What {
        let (who, segment, for_ms) = (self.someone(), self.segment(), self.a_while());
        let short_ms = self.rng.u32(50..1_200 + suspect_ms(scale));
        match self.rng.u8(0..18) {
            0 => What::Freeze { who, for_ms: short_ms, clock_too: self.rng.bool() },
            1 => What::Suspended { who, for_ms: short_ms },
            2 => What::PowerOff { who, back_ms: self.back() },
            3 => What::Removed { who, back_ms: self.back() },
            4 => What::Busy { who, by_ms: self.rng.u32(50..1_000), for_ms },
            5 => What::KeyGone { who, for_ms },
            6 => What::Segment(OnSegment::Cut { segment, one: self.holder(), other: who, for_ms }),
            7 => {
                What::Segment(OnSegment::OneWay { segment, from: self.holder(), to: self.monitor(), for_ms })
            }
            8 => {
                let (out, into) = [(true, true), (true, false), (false, true)][self.rng.usize(0..3)];
                What::Segment(OnSegment::Dead { segment, who, out, into, for_ms })
            }
            9 | 10 => What::Segment(OnSegment::Lossy { segment, percent: self.rng.u8(5..=60), for_ms }),
            11 => What::Kill { who, back_ms: self.back() },
            12 => What::Api(OnApi::SlowApi { by_ms: self.rng.u32(50..1_500), for_ms }),
            13..=16 => What::FalseEnd { segment, who },
            _ => What::Edit(Edit::Move { vip: self.vip(), to: who }),
        }
    }
}

/// Lets all nodes join and all VIPs be wanted at the beginning, and each node have a key.
fn calm(schedule: &mut Schedule) {
    for node in &mut schedule.nodes {
        node.joins_ms = 0;
    }
    for vip in &mut schedule.vips {
        vip.wanted_ms = 0;
    }
    if let Some(wire) = &mut schedule.wire {
        wire.keyless = 0;
    }
}
