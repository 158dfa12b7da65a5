//! Schedules with a controller: two pools, two tenants, and what befalls them.

use fastrand::Rng;

use super::{FIRST_MS, Generator, generate as without_controller, timing};
use crate::schedule::{
    plan::{Disturbance, Schedule, When},
    tenants::{Asks, KeepPlan, PoolPlan, ServicePlan, SharingPlan, TenantsPlan},
    what::{Edit, Ending, Kind, OnApi, OnTenants, Refused, What, Who},
};

impl Schedule {
    /// Returns the schedule of a seed. Every third has a controller, and the others have nothing of it.
    pub fn generate(seed: u64) -> Self {
        if seed.is_multiple_of(3) { generate(seed) } else { without_controller(seed) }
    }
}

fn generate(seed: u64) -> Schedule {
    let mut rng = Rng::with_seed(seed);
    let timing = timing(&mut rng);
    let (nodes, vips) = (rng.u8(3..=5), rng.u8(2..=5));
    let segments = if rng.u8(0..4) == 0 { 2 } else { 1 };
    let mut generator = Generator { rng, nodes, vips, segments, timing };
    let services = generator.rng.u8(2..=5);
    let node_plans = generator.nodes();
    let vip_plans = generator.vips();
    let most = (generator.rng.u8(0..8) == 0).then(|| generator.rng.u8(1..3));
    let tenants = generator.tenants(services, most);
    let has_faults = generator.rng.bool();
    let mut disturbances = generator.of_tenants(services, has_faults, most.is_none());
    if has_faults {
        disturbances.extend(Generator::denials(seed, nodes, &disturbances));
    }
    disturbances.extend(Generator::lost_events(seed));
    let hold = generator.rng.bool();
    Schedule {
        seed,
        hold,
        timing,
        segments,
        nodes: node_plans,
        vips: vip_plans,
        disturbances,
        wire: None,
        tenants: Some(tenants),
    }
}

impl Generator {
    fn tenants(&mut self, services: u8, most: Option<u8>) -> TenantsPlan {
        let all = (1 << self.vips) - 1;
        let first = self.rng.u8(1..=all);
        let pools = [self.pool(first), self.pool(all & !first)];
        let service = |generator: &mut Self| ServicePlan {
            wanted_ms: generator.rarely(20_000),
            asks: generator.asks(most.is_none()),
            local: (generator.rng.u8(0..4) == 0).then(|| generator.rng.u8(1..1 << generator.nodes)),
        };
        let services = (0..services).map(|_| service(self)).collect();
        let consent = self.rng.bool();
        TenantsPlan { pools, services, consent, most, clocks_ppm: std::array::from_fn(|_| self.clock_ppm()) }
    }

    fn pool(&mut self, vips: u8) -> PoolPlan {
        PoolPlan {
            vips,
            auto_assign: self.rng.u8(0..4) > 0,
            labelled: self.rng.u8(0..4) == 0,
            spread: self.rng.bool(),
            sharing: [SharingPlan::Never, SharingPlan::Namespace, SharingPlan::Key][self.rng.usize(0..3)],
            keep: match self.rng.u8(0..4) {
                0 => KeepPlan::Not,
                1 => KeepPlan::Seconds(self.rng.u32(2..30)),
                _ => KeepPlan::Forever,
            },
            keep_at_most: (self.rng.u8(0..4) == 0).then(|| self.rng.u32(0..3)),
        }
    }

    /// Returns what a Service asks for. What is shared counts otherwise against the limit of a namespace
    /// than what is reserved, so Services ask for none by name where there is a limit.
    fn asks(&mut self, by_name: bool) -> Asks {
        match self.rng.u8(0..if by_name { 6 } else { 4 }) {
            0..3 => Asks::Any,
            3 => Asks::Pool(self.rng.u8(0..2)),
            _ => Asks::Vip(self.vip()),
        }
    }

    fn of_tenants(&mut self, services: u8, has_faults: bool, by_name: bool) -> Vec<Disturbance> {
        let mut at = FIRST_MS;
        let many = self.rng.u32(3..14);
        let mut two_lead = false;
        let mut disturbance = |generator: &mut Self| {
            at += match generator.rng.u8(0..3) {
                _ if two_lead => generator.rng.u32(0..900),
                0 => generator.rng.u32(0..300),
                1 => generator.rng.u32(300..3_000),
                _ => generator.rng.u32(3_000..12_000),
            };
            let what = match generator.rng.u8(0..10) {
                _ if two_lead => generator.change_of_a_service(services, by_name),
                0..5 => generator.change_of_a_service(services, by_name),
                5 | 6 => generator.change_of_the_pools(),
                7 if has_faults => match generator.rng.u8(0..3) {
                    0 => generator.fault_of_an_agent(),
                    1 => generator.fault_of_a_node(),
                    _ => generator.fault_of_the_api(),
                },
                _ => generator.fault_of_the_controller(),
            };
            // The leader goes on until it reads the Lease, while another creates it anew.
            two_lead = matches!(what, What::Edit(Edit::LeaseDeleted { .. }));
            Disturbance { when: When::Ms(at), what }
        };
        (0..many).map(|_| disturbance(self)).collect()
    }

    fn change_of_a_service(&mut self, services: u8, by_name: bool) -> What {
        let service = self.rng.u8(0..services);
        let for_ms = if self.rng.bool() { self.rng.u32(20..2_000) } else { self.rng.u32(2_000..20_000) };
        match self.rng.u8(0..6) {
            0 | 1 => What::Tenants(OnTenants::ServiceGone { service, for_ms }),
            2 => What::Tenants(OnTenants::ServiceReplaced { service }),
            3 => What::Tenants(OnTenants::ServiceRetyped { service, for_ms }),
            _ => What::Tenants(OnTenants::ServiceAsks { service, asks: self.asks(by_name), for_ms }),
        }
    }

    fn change_of_the_pools(&mut self) -> What {
        let (pool, for_ms) = (self.rng.u8(0..2), self.rng.u32(500..20_000));
        match self.rng.u8(0..5) {
            0 => What::Tenants(OnTenants::PoolGone { pool, for_ms }),
            1 | 2 => {
                let vips = self.rng.u8(0..1 << self.vips);
                What::Tenants(OnTenants::PoolEdited { pool, to: self.pool(vips), for_ms })
            }
            3 => What::Tenants(OnTenants::Unlabelled { namespace: pool, for_ms }),
            _ => What::Tenants(OnTenants::Released { vip: self.vip() }),
        }
    }

    fn fault_of_the_controller(&mut self) -> What {
        let who = if self.rng.u8(0..4) == 0 { Who::Controller(self.rng.u8(0..2)) } else { Who::Leader };
        let for_ms = self.a_while();
        let kind = Kind::WITH_CONTROLLER[self.rng.usize(0..Kind::WITH_CONTROLLER.len())];
        match self.rng.u8(0..14) {
            0..2 => What::Kill { who, back_ms: Some(self.rng.u32(50..15_000)) },
            2 => What::End { who, how: Ending::Restart, back_ms: Some(self.rng.u32(50..15_000)) },
            3 => What::Pause { who, for_ms },
            4 => What::Api(OnApi::CutOff { who, refused: self.rng.bool(), for_ms }),
            5 => What::Api(OnApi::NoAnswers { who, for_ms }),
            6 => What::Api(OnApi::Stall { who, kind, for_ms }),
            7 => What::Api(OnApi::Reset { who, kind }),
            8 => What::Tenants(OnTenants::Refused { of: Refused::Reservation, for_ms }),
            9 | 10 => What::Freeze { who: Who::Leader, for_ms, clock_too: true },
            11 | 12 => What::Edit(Edit::LeaseDeleted { who: Who::Leader }),
            _ => What::Tenants(OnTenants::Refused { of: Refused::Status, for_ms }),
        }
    }
}
