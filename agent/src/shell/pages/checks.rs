//! The checks of `/livez` and `/readyz`: what each finds, and how they are told.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    net::Ipv4Addr,
    time::Duration,
};

use axum::http::StatusCode;
use vipward_common::{FenceState, Role};

use crate::{
    core::placement::Stance,
    shell::{
        bpf::BpfError,
        causes::chain,
        metrics::{EntryReading, Mode, Reading, Snapshot},
    },
};

#[cfg(test)]
mod tests;

/// So many differences of one kind are named.
const MOST_NAMED: usize = 8;

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    name: &'static str,
    /// What is wrong; nothing when all is well.
    wrong: Vec<String>,
}

impl Check {
    /// Nothing is wrong.
    pub fn ok(name: &'static str) -> Self {
        Self { name, wrong: Vec::new() }
    }

    /// This is wrong.
    pub fn failed(name: &'static str, wrong: impl Into<String>) -> Self {
        Self { name, wrong: vec![wrong.into()] }
    }

    /// All this is wrong, if it is anything.
    pub fn of(name: &'static str, wrong: Vec<String>) -> Self {
        Self { name, wrong }
    }

    pub(super) fn is_ok(&self) -> bool {
        self.wrong.is_empty()
    }
}

/// The page of some checks, or of the one of them that is `asked` for, in the form of the API server's own pages.
pub(super) fn report(page: &str, checks: &[Check], asked: Option<&str>) -> (StatusCode, String) {
    let told: Vec<&Check> =
        checks.iter().filter(|check| asked.is_none_or(|asked| asked == check.name)).collect();
    if told.is_empty() {
        let names: Vec<_> = checks.iter().map(|check| check.name).collect();
        let asked = asked.unwrap_or_default();
        return (
            StatusCode::NOT_FOUND,
            format!("no check {asked} in {page}; there are: {}\n", names.join(", ")),
        );
    }
    let mut text = String::new();
    for check in &told {
        let line = if check.is_ok() {
            writeln!(text, "[+]{} ok", check.name)
        } else {
            writeln!(text, "[-]{} failed: {}", check.name, check.wrong.join("; "))
        };
        line.expect("invariant: a String takes everything");
    }
    let passed = told.iter().all(|check| check.is_ok());
    let (status, verdict) =
        if passed { (StatusCode::OK, "passed") } else { (StatusCode::SERVICE_UNAVAILABLE, "failed") };
    writeln!(text, "{page} check {verdict}").expect("invariant: a String takes everything");
    (status, text)
}

pub(super) fn no_answer(patience: Duration) -> String {
    format!("the agent does not answer within {} s", patience.as_secs())
}

/// What the driver knows by itself.
pub(super) fn of_driver(driver: &Snapshot) -> Vec<Check> {
    let mut checks = Vec::new();
    if driver.mode == Mode::Kubernetes {
        let read = driver.started;
        let wrong = (!read).then(|| "the cluster has not been read yet".to_owned());
        checks.push(Check::of("cluster", wrong.into_iter().collect()));
    }
    let mut links = Vec::new();
    if driver.links.is_empty() {
        links.push("the program is attached to no interface".to_owned());
    }
    let gone = driver.links.iter().filter(|link| !link.attached);
    links.extend(gone.map(|link| match &link.failure {
        Some(failure) => format!("{} is not attached: {failure}", link.interface),
        None => format!("{} runs another program, or none", link.interface),
    }));
    checks.push(Check::of("links", links));
    checks
}

pub(super) fn pins(pinned: Result<bool, BpfError>) -> Check {
    match pinned {
        Ok(true) => Check::ok("pins"),
        Ok(false) => {
            Check::failed("pins", "pins are missing: what answers now ends with this agent; restart it")
        }
        Err(error) => Check::failed("pins", chain(&error)),
    }
}

/// What was read back from the kernel, compared with what the driver believes.
pub(super) fn of_kernel(driver: &Snapshot, read: Result<Reading, BpfError>) -> Vec<Check> {
    let read = match read {
        Ok(read) => read,
        Err(error) => return vec![Check::failed("entries", chain(&error))],
    };
    let fence = match (read.fence.state(read.now_ns), driver.mode) {
        (FenceState::Valid, _) => Check::ok("fence"),
        (_, Mode::Kubernetes) => {
            Check::failed("fence", "the fence is not valid: the Lease has not been renewed")
        }
        (_, Mode::Standalone) => Check::failed("fence", "the fence is not valid: the heartbeat is late"),
    };
    // Before it is known what they are to be, they stay as they are.
    let entries = if driver.started { differences(driver, &read.entries) } else { Vec::new() };
    vec![Check::of("entries", entries), fence]
}

/// Where the entries are not as they are believed to be.
fn differences(driver: &Snapshot, entries: &[EntryReading]) -> Vec<String> {
    let mut found: BTreeMap<Ipv4Addr, Vec<&EntryReading>> = BTreeMap::new();
    for entry in entries {
        found.entry(entry.key.addr.into()).or_default().push(entry);
    }
    let entries_of = |vip: &Ipv4Addr| found.get(vip).map(Vec::as_slice).unwrap_or_default();
    let held: BTreeSet<Ipv4Addr> = (found.iter())
        .filter(|(_, entries)| entries.iter().any(|entry| entry.role == Role::Held))
        .map(|(vip, _)| *vip)
        .collect();
    let of_stance = |wanted: fn(&Stance) -> bool| -> BTreeSet<Ipv4Addr> {
        driver.vips.iter().filter(|vip| wanted(&vip.stance)).map(|vip| vip.vip).collect()
    };
    let believed = of_stance(|stance| *stance == Stance::Held);
    let mut wrong = Vec::new();
    tell(
        &mut wrong,
        believed.difference(&held).map(|vip| match entries_of(vip).iter().find(|entry| entry.yielded) {
            Some(entry) => format!("{vip} is believed held and was yielded to {}", entry.mac),
            None => format!("{vip} is believed held and is not"),
        }),
    );
    tell(&mut wrong, held.difference(&believed).map(|vip| format!("{vip} is held and believed not to be")));
    if driver.mode == Mode::Standalone {
        let is_guarded = |vip: &Ipv4Addr, mac| {
            entries_of(vip).iter().any(|entry| entry.role == Role::Foreign && entry.mac == mac)
        };
        let guarded = driver.vips.iter().filter_map(|vip| match vip.stance {
            Stance::At(mac) if !is_guarded(&vip.vip, mac) => {
                Some(format!("{} is to be guarded at {mac} and is not", vip.vip))
            }
            Stance::At(_) | Stance::Held | Stance::Handover { .. } | Stance::Coming | Stance::Elsewhere => {
                None
            }
        });
        tell(&mut wrong, guarded);
    }
    wrong
}

/// A few of many.
fn tell(wrong: &mut Vec<String>, mut all: impl Iterator<Item = String>) {
    wrong.extend(all.by_ref().take(MOST_NAMED));
    let more = all.count();
    if more > 0 {
        wrong.push(format!("and {more} more"));
    }
}
