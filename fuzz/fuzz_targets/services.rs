//! Any Services of any tenants meet any cluster. The desired state and statuses have only permitted
//! addresses, and only Services that may share a VIP do so.
#![no_main]
#![forbid(unsafe_code)]

#[path = "services/input.rs"]
mod input;
#[path = "services/oracle.rs"]
mod oracle;

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use vipward_core::{
    base::time::Monotonic,
    services::{Agent, Command, Event},
};

use self::{
    input::{Input, Step},
    oracle::Oracle,
};

fuzz_target!(|input: Input| {
    let settings = input.settings();
    let mut services = Agent::alone(settings.clone());
    services.on_event(Event::SlicesListed);
    let mut oracle = Oracle::new(settings);
    let mut now = Monotonic::default();
    let begins = input::start().map(Some).into_iter().filter(|_| !input.listing);
    let steps = input.steps.iter().map(Step::event);
    for event in begins.chain(steps) {
        let commands = if let Some(event) = event {
            oracle.apply(&event);
            services.on_event(event)
        } else {
            now = now + Duration::from_mins(5);
            oracle.pass();
            services.on_time(now)
        };
        assert!(oracle.is_synced() || commands.is_empty(), "{commands:?} before everything is listed");
        for command in commands {
            if let Command::Report { service, problem } = &command {
                assert!(!format!("{service}: {problem}").is_empty());
            }
            oracle.carry_out(command);
        }
        oracle.check();
    }
    for address in input::addresses() {
        assert_eq!(services.index().account(address).demand.as_ref(), oracle.demand(address));
        let _ = services.index().conflict_about(address);
    }
});
