//! Makes a schedule from a seed, such that each kind of fault is frequent.

mod admission;
mod tenants;
mod wire;

use fastrand::Rng;

use super::{
    plan::{Disturbance, NodePlan, STEPS, Schedule, VipPlan, When},
    timing::Timing,
    what::{Drops, Edit, Ending, KINDS, Mark, OnApi, OnSegment, What, Who},
};

/// The time of the first disturbance; most clusters have settled by then.
const FIRST_MS: u32 = 7_000;

/// The theme of a schedule.
enum Theme {
    /// Planned changes only.
    Planned,
    /// Handovers, with faults at their steps.
    Interrupted,
    /// A few faults, with time to recover from each.
    Sparse,
    /// Everything at once.
    Dense,
}

struct Generator {
    rng: Rng,
    nodes: u8,
    vips: u8,
    segments: u8,
    timing: Timing,
}

fn generate(seed: u64) -> Schedule {
    let mut rng = Rng::with_seed(seed);
    let timing = timing(&mut rng);
    let nodes = rng.u8(2..=5);
    let vips = rng.u8(1..=4);
    let segments = if rng.u8(0..4) == 0 { 2 } else { 1 };
    let mut generator = Generator { rng, nodes, vips, segments, timing };
    let node_plans = generator.nodes();
    let vip_plans = generator.vips();
    let disturbances = generator.disturbances();
    let hold = generator.rng.bool();
    let mut disturbances: Vec<Disturbance> =
        disturbances.into_iter().chain(generator.without_the_api()).collect();
    disturbances.extend(generator.without_the_map());
    disturbances.extend(restored_claims(seed, &vip_plans));
    // A store that goes back while no node learns of it, and edits of that time, are outside.
    let is_rewritten = disturbances.iter().any(|disturbance| disturbance.what.rewrites_the_store());
    disturbances.extend(generator.forgeries().into_iter().filter(|_| !is_rewritten));
    disturbances.extend(generator.strangers(&disturbances));
    disturbances.extend(hosts(seed, nodes, vips, is_rewritten));
    disturbances.extend(filters(seed, nodes, vips));
    disturbances.extend(reflections(seed, segments));
    disturbances.extend(Generator::denials(seed, nodes, &disturbances));
    let schedule = Schedule {
        seed,
        hold,
        timing,
        segments,
        nodes: node_plans,
        vips: vip_plans,
        disturbances,
        wire: None,
        tenants: None,
    };
    if hold && generator.rng.bool() { generator.with_wire(schedule) } else { schedule }
}

/// Returns claims of another cluster's backup, for every second schedule. Most come right before the VIP
/// is wanted, and others are edits. They have noise of their own.
fn restored_claims(seed: u64, vips: &[VipPlan]) -> Vec<Disturbance> {
    let mut rng = Rng::with_seed(seed.rotate_left(24));
    let mut restored = Vec::new();
    if rng.bool() {
        return restored;
    }
    for (vip, plan) in (0..).zip(vips) {
        let (before, edited) = (rng.u32(1..1_000), rng.u32(FIRST_MS..FIRST_MS + 20_000));
        let at = match rng.u8(0..16) {
            0..8 if plan.wanted_ms > before => plan.wanted_ms - before,
            8 if plan.wanted_ms < edited => edited,
            _ => continue,
        };
        restored.push(Disturbance { when: When::Ms(at), what: What::Edit(Edit::ClaimRestored { vip }) });
    }
    restored
}

/// Returns hosts that get the addresses of VIPs which no node can hold for a while, and a token that
/// lies about them, for every third schedule. They have noise of their own.
fn hosts(seed: u64, nodes: u8, vips: u8, is_rewritten: bool) -> Vec<Disturbance> {
    /// After this time without a holder, a host may get the address.
    const VACANT_MS: u32 = 19_000;
    let mut rng = Rng::with_seed(seed.rotate_left(32));
    if is_rewritten || rng.u8(0..3) > 0 {
        return Vec::new();
    }
    let mut disturbances = Vec::new();
    let mut at = FIRST_MS + rng.u32(0..15_000);
    for _ in 0..rng.u8(1..=2) {
        let vip = rng.u8(0..vips);
        let who = Who::Node(rng.u8(0..nodes));
        let (parked_ms, for_ms) = (VACANT_MS + rng.u32(1_000..15_000), rng.u32(3_000..25_000));
        let mut add = |ms, what| disturbances.push(Disturbance { when: When::Ms(ms), what });
        add(at, What::Local { vip, on: 0, for_ms: parked_ms });
        add(at + VACANT_MS, What::Host { vip, who: rng.bool().then_some(who), for_ms });
        if rng.u8(0..4) > 0 {
            let liar = Who::Node(rng.u8(0..nodes));
            add(at + VACANT_MS + rng.u32(0..for_ms), What::Lie { vip, who: liar });
        }
        // An agent of a node that gets the address starts, or goes on.
        if rng.u8(0..3) == 0 {
            add(at + VACANT_MS + rng.u32(0..for_ms), What::Kill { who, back_ms: Some(rng.u32(20..3_000)) });
        }
        at += VACANT_MS + for_ms + rng.u32(10_000..20_000);
    }
    disturbances
}

/// Returns filters before a holder or all nodes, for one schedule in four. They have noise of
/// their own.
fn filters(seed: u64, nodes: u8, vips: u8) -> Vec<Disturbance> {
    let mut rng = Rng::with_seed(seed.rotate_left(40));
    if rng.u8(0..4) > 0 {
        return Vec::new();
    }
    let (when, for_ms) = (When::Ms(rng.u32(1_000..FIRST_MS + 40_000)), rng.u32(1_000..120_000));
    let holder = Who::Holder(rng.u8(0..vips));
    let filtered = if rng.u8(0..3) == 0 { (0..nodes).map(Who::Node).collect() } else { vec![holder] };
    let drops = if rng.bool() { Drops::Requests } else { Drops::Answers };
    let filter = |who| Disturbance { when, what: What::Filtered { who, drops, for_ms } };
    filtered.into_iter().map(filter).collect()
}

/// Returns a switch that sends frames back, for one schedule in six.
fn reflections(seed: u64, segments: u8) -> Option<Disturbance> {
    let mut rng = Rng::with_seed(seed.rotate_left(50));
    let when = When::Ms(rng.u32(0..FIRST_MS + 40_000));
    let reflecting = OnSegment::Reflecting { segment: rng.u8(0..segments), for_ms: rng.u32(1_000..60_000) };
    (rng.u8(0..6) == 0).then_some(Disturbance { when, what: What::Segment(reflecting) })
}

fn timing(rng: &mut Rng) -> Timing {
    let (lease_ms, renewal_ms, margin_ms) = match rng.u8(0..4) {
        0 => (2_000, 500, 250),
        1..=3 => (4_000, 1_000, 500),
        _ => unreachable!("four cases"),
    };
    Timing {
        lease_ms,
        renewal_ms,
        margin_ms,
        restart_lease_ms: if rng.u8(0..8) == 0 { 60_000 } else { 15_000 },
        hold_for_ms: if rng.bool() { 10_000 } else { 30_000 },
    }
}

impl Generator {
    /// Returns 0 mostly, else at most `most`.
    fn rarely(&mut self, most: u32) -> u32 {
        if self.rng.u8(0..6) == 0 { self.rng.u32(0..=most) } else { 0 }
    }

    fn clock_ppm(&mut self) -> i32 {
        match self.rng.u8(0..4) {
            0 => 0,
            1 => 10_000,
            2 => -10_000,
            _ => self.rng.i32(-10_000..=10_000),
        }
    }

    fn nodes(&mut self) -> Vec<NodePlan> {
        let plan = |generator: &mut Self| NodePlan {
            clock_ppm: generator.clock_ppm(),
            clock_ms: generator.rng.u32(1..2_000_000),
            joins_ms: generator.rarely(30_000),
        };
        let mut nodes: Vec<NodePlan> = (0..self.nodes).map(|_| plan(self)).collect();
        nodes[0].joins_ms = 0;
        nodes
    }

    fn vips(&mut self) -> Vec<VipPlan> {
        (0..self.vips).map(|_| VipPlan { wanted_ms: self.rarely(25_000) }).collect()
    }

    fn who(&mut self) -> Who {
        Who::Node(self.rng.u8(0..self.nodes))
    }

    fn vip(&mut self) -> u8 {
        self.rng.u8(0..self.vips)
    }

    fn segment(&mut self) -> u8 {
        self.rng.u8(0..self.segments)
    }

    /// Returns a time that is shorter than the lease as often as longer.
    fn a_while(&mut self) -> u32 {
        let lease = self.timing.lease_ms;
        match self.rng.u8(0..3) {
            0 => self.rng.u32(50..lease),
            1 => self.rng.u32(lease / 2..lease * 2),
            _ => self.rng.u32(lease..lease * 5),
        }
    }

    fn back(&mut self) -> Option<u32> {
        match self.rng.u8(0..6) {
            0 => None,
            1 | 2 => Some(self.rng.u32(20..2_000)),
            _ => Some(self.a_while()),
        }
    }

    fn disturbances(&mut self) -> Vec<Disturbance> {
        match self.theme() {
            Theme::Planned => self.planned_only(),
            Theme::Interrupted => self.interrupted(),
            Theme::Sparse => self.sparse(),
            Theme::Dense => self.dense(),
        }
    }

    /// Returns a restored backup, or an agent that starts while the API server cannot be reached.
    /// One schedule in eight has either.
    fn without_the_api(&mut self) -> Vec<Disturbance> {
        let at = FIRST_MS + self.rng.u32(0..20_000);
        match self.rng.u8(0..16) {
            0 => {
                let down_ms = self.a_while();
                let for_ms = down_ms + self.rng.u32(0..30_000);
                vec![Disturbance { when: When::Ms(at), what: What::Api(OnApi::Restored { for_ms, down_ms }) }]
            }
            1 => {
                let who = self.who();
                let for_ms = self.rng.u32(self.timing.lease_ms..self.timing.lease_ms * 6);
                let cut_off = What::Api(OnApi::CutOff { who, refused: self.rng.bool(), for_ms });
                let killed = What::Kill { who, back_ms: Some(self.rng.u32(20..self.timing.lease_ms)) };
                let then = at + self.rng.u32(0..self.timing.lease_ms);
                vec![
                    Disturbance { when: When::Ms(at), what: cut_off },
                    Disturbance { when: When::Ms(then), what: killed },
                ]
            }
            _ => Vec::new(),
        }
    }

    /// Returns a kernel's refusal of entries, for every second schedule.
    fn without_the_map(&mut self) -> Option<Disturbance> {
        let when = When::Ms(self.rng.u32(1_000..FIRST_MS + 20_000));
        let (who, new_only, for_ms) = (self.who(), self.rng.u8(0..4) == 0, self.a_while());
        let what = What::EntriesRefused { who, new_only, for_ms };
        self.rng.bool().then_some(Disturbance { when, what })
    }

    /// Returns an outage of the API server in which a stranger announces VIPs in the names of nodes.
    fn forgeries(&mut self) -> Vec<Disturbance> {
        if self.rng.bool() {
            return Vec::new();
        }
        let (from, for_ms) = (self.rng.u32(FIRST_MS..FIRST_MS + 30_000), self.rng.u32(8_000..20_000));
        let outage = What::Api(OnApi::ApiDown { refused: self.rng.bool(), for_ms });
        let mut disturbances = vec![Disturbance { when: When::Ms(from), what: outage }];
        for _ in 0..self.rng.u8(2..=6) {
            let at = from + self.rng.u32(0..for_ms);
            let what = What::Forged { vip: self.vip(), name: self.who() };
            disturbances.push(Disturbance { when: When::Ms(at), what });
        }
        disturbances
    }

    /// Returns a stranger's Services, for every second schedule. A VIP that no Service wants is the
    /// stranger's by right.
    fn strangers(&mut self, disturbances: &[Disturbance]) -> Vec<Disturbance> {
        let gives_up = |of: &Disturbance| matches!(of.what, What::Unwanted { .. });
        if self.rng.bool() || disturbances.iter().any(gives_up) {
            return Vec::new();
        }
        let stranger = |generator: &mut Self| {
            let when = When::Ms(FIRST_MS + generator.rng.u32(0..30_000));
            let what = What::Stranger {
                number: generator.rng.u8(0..2),
                vips: generator.rng.u8(1..1 << generator.vips),
                on: generator.rng.u8(0..1 << generator.nodes),
                older: generator.rng.bool(),
                for_ms: generator.rng.u32(20..15_000),
            };
            Disturbance { when, what }
        };
        (0..self.rng.u8(1..=4)).map(|_| stranger(self)).collect()
    }

    fn theme(&mut self) -> Theme {
        match self.rng.u8(0..20) {
            0..4 => Theme::Planned,
            4..10 => Theme::Interrupted,
            10..14 => Theme::Sparse,
            _ => Theme::Dense,
        }
    }

    fn planned_only(&mut self) -> Vec<Disturbance> {
        let mut at = FIRST_MS;
        let many = self.rng.u32(2..10);
        (0..many)
            .map(|_| {
                at += if self.rng.bool() { self.rng.u32(1..1_500) } else { self.rng.u32(1_000..9_000) };
                Disturbance { when: When::Ms(at), what: self.planned() }
            })
            .collect()
    }

    /// Returns handovers at some times, and faults at their steps.
    fn interrupted(&mut self) -> Vec<Disturbance> {
        let mut disturbances = Vec::new();
        let mut at = FIRST_MS;
        for _ in 0..self.rng.u8(1..4) {
            at += self.rng.u32(0..3_000);
            // The holder may have moved, or another node may be wanted.
            for vip in 0..self.vips {
                if self.rng.u8(0..3) == 0 {
                    let what = What::Edit(Edit::Move { vip, to: self.who() });
                    disturbances.push(Disturbance { when: When::Ms(at + self.rng.u32(0..500)), what });
                }
            }
            let what = self.hand_over();
            disturbances.push(Disturbance { when: When::Ms(at), what });
            for _ in 0..self.rng.u8(1..3) {
                let step = STEPS[self.rng.usize(0..STEPS.len())];
                let after_us = match self.rng.u8(0..3) {
                    0 => 0,
                    1 => self.rng.u32(1..20_000),
                    _ => self.rng.u32(1..2_000_000),
                };
                let who = if self.rng.bool() { Who::Giver } else { Who::Taker };
                let what = self.fault().with(|_| who);
                disturbances.push(Disturbance { when: When::Step { step, from_ms: at - 1, after_us }, what });
            }
            at += self.rng.u32(8_000..16_000);
        }
        disturbances
    }

    fn sparse(&mut self) -> Vec<Disturbance> {
        let mut at = FIRST_MS + self.rng.u32(0..2_000);
        let many = self.rng.u32(1..5);
        (0..many)
            .map(|_| {
                let what = self.fault();
                let disturbance = Disturbance { when: When::Ms(at), what };
                at += self.rng.u32(9_000..18_000);
                disturbance
            })
            .collect()
    }

    fn dense(&mut self) -> Vec<Disturbance> {
        let end = FIRST_MS + self.rng.u32(5_000..30_000);
        let many = self.rng.u32(3..18);
        (0..many)
            .map(|_| {
                let when = When::Ms(self.rng.u32(1_000..end));
                let what = match self.rng.u8(0..10) {
                    0..3 => self.planned(),
                    3..5 => self.hand_over(),
                    5 => self.edited(),
                    _ => self.fault(),
                };
                Disturbance { when, what }
            })
            .collect()
    }

    /// Returns a change that moves a VIP, if it is where it is assumed to be.
    fn hand_over(&mut self) -> What {
        match self.rng.u8(0..4) {
            0 => What::Marked { who: self.who(), mark: Mark::Cordoned, for_ms: self.rng.u32(2_000..20_000) },
            1 => What::Marked { who: self.who(), mark: Mark::Excluded, for_ms: self.rng.u32(2_000..20_000) },
            _ => What::Edit(Edit::Move { vip: self.vip(), to: self.who() }),
        }
    }

    fn planned(&mut self) -> What {
        let who = self.who();
        let for_ms = self.rng.u32(20..15_000);
        match self.rng.u8(0..12) {
            0 | 1 => {
                let back = self.rng.u32(50..self.timing.restart_lease_ms / 2);
                What::End { who, how: Ending::Restart, back_ms: Some(back) }
            }
            2 => What::End { who, how: Ending::Leave, back_ms: Some(self.rng.u32(500..20_000)) },
            3 => What::Marked { who, mark: Mark::Cordoned, for_ms },
            4 => What::Marked { who, mark: Mark::NotReady, for_ms },
            5 => What::Marked { who, mark: Mark::Excluded, for_ms },
            6 => {
                let mark = if self.rng.bool() { Mark::OutOfService } else { Mark::NetworkUnavailable };
                What::Marked { who, mark, for_ms }
            }
            7..9 => What::Local { vip: self.vip(), on: self.rng.u8(0..1 << self.nodes), for_ms },
            9 => What::Unwanted { vip: self.vip(), for_ms },
            _ => What::Edit(Edit::Move { vip: self.vip(), to: who }),
        }
    }

    fn edited(&mut self) -> What {
        let (who, vip) = (self.who(), self.vip());
        match self.rng.u8(0..7) {
            0 => What::Edit(Edit::LeaseDeleted { who }),
            1 => What::Edit(Edit::LeaseBlanked { who }),
            2 => What::Edit(Edit::LeaseEdited { who }),
            3 => What::Edit(Edit::ClaimDeleted { vip, finalized: true }),
            4 => What::Edit(Edit::ClaimDeleted { vip, finalized: false }),
            5 => What::Edit(Edit::ClaimBlanked { vip }),
            _ => What::Edit(Edit::ClaimEdited { vip, to: who }),
        }
    }

    fn fault(&mut self) -> What {
        match self.rng.u8(0..10) {
            0..3 => self.fault_of_an_agent(),
            3 | 4 => self.fault_of_a_node(),
            5 => self.fault_of_a_segment(),
            6..9 => self.fault_of_the_api(),
            _ => self.edited(),
        }
    }

    fn fault_of_an_agent(&mut self) -> What {
        let (who, back_ms) = (self.who(), self.back());
        match self.rng.u8(0..8) {
            0..3 => What::Kill { who, back_ms },
            3..6 => What::Pause { who, for_ms: self.a_while() },
            6 => What::End { who, how: Ending::Restart, back_ms },
            _ => What::End { who, how: Ending::Uninstall, back_ms },
        }
    }

    fn fault_of_a_node(&mut self) -> What {
        let (who, segment, for_ms) = (self.who(), self.segment(), self.a_while());
        match self.rng.u8(0..8) {
            0 | 1 => What::PowerOff { who, back_ms: self.back() },
            2 => What::Removed { who, back_ms: self.back() },
            3 => What::Freeze { who, for_ms, clock_too: self.rng.bool() },
            4 => What::ChangeMac { who, segment },
            5 | 6 => What::NoCarrier { who, segment, for_ms },
            _ => What::NodeGone { who, for_ms },
        }
    }

    fn fault_of_a_segment(&mut self) -> What {
        let (segment, for_ms) = (self.segment(), self.a_while());
        match self.rng.u8(0..4) {
            0 => {
                What::Segment(OnSegment::Partition { segment, side: self.rng.u8(1..1 << self.nodes), for_ms })
            }
            1 => What::Segment(OnSegment::OneWay { segment, from: self.who(), to: self.who(), for_ms }),
            2 => What::Segment(OnSegment::Lossy { segment, percent: self.rng.u8(20..=100), for_ms }),
            _ => What::Segment(OnSegment::LateFrames { segment, by_ms: self.rng.u32(5..3_000), for_ms }),
        }
    }

    fn fault_of_the_api(&mut self) -> What {
        let (who, for_ms) = (self.who(), self.a_while());
        let kind = KINDS[self.rng.usize(0..KINDS.len())];
        match self.rng.u8(0..11) {
            0..4 => What::Api(OnApi::CutOff { who, refused: self.rng.bool(), for_ms }),
            4 => What::Api(OnApi::ApiDown { refused: self.rng.bool(), for_ms }),
            5 => What::Api(OnApi::ApiRestart),
            6 => What::Api(OnApi::SlowApi { by_ms: self.rng.u32(50..6_000), for_ms }),
            7 => What::Api(OnApi::NoAnswers { who, for_ms }),
            8 | 9 => What::Api(OnApi::Stall { who, kind, for_ms }),
            _ => What::Api(OnApi::Reset { who, kind }),
        }
    }
}
