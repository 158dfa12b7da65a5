//! The checks of `/livez` and `/readyz`, and their text.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    net::IpAddr,
    time::Duration,
};

use axum::http::StatusCode;
use vipward_common::{DeadlineState, Role};
use vipward_core::{
    diagnosis::pinned::{self, Contents},
    host::{net::InterfaceFault, placement::Entry},
};

use crate::shell::{
    endpoints::metrics::{Mode, Snapshot},
    kernel::bpf::BpfError,
    logging::errors::chain,
};

#[cfg(test)]
mod tests;

/// The most differences of one kind that are named.
const MOST_NAMED: usize = 8;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    name: &'static str,
    wrong: Vec<String>,
    /// What an operator should mend, although the check passes.
    remark: Option<String>,
}

impl Check {
    pub fn ok(name: &'static str) -> Self {
        Self { name, wrong: Vec::new(), remark: None }
    }

    pub fn failed(name: &'static str, wrong: impl Into<String>) -> Self {
        Self { name, wrong: vec![wrong.into()], remark: None }
    }

    pub fn of(name: &'static str, wrong: Vec<String>) -> Self {
        Self { name, wrong, remark: None }
    }

    fn remarked(name: &'static str, remark: Option<String>) -> Self {
        Self { name, wrong: Vec::new(), remark }
    }

    pub(super) fn is_ok(&self) -> bool {
        self.wrong.is_empty()
    }
}

/// Returns the text of all checks, or of the check `only`, in the API server's form.
pub(crate) fn report(page: &str, checks: &[Check], only: Option<&str>) -> (StatusCode, String) {
    let notified: Vec<&Check> =
        checks.iter().filter(|check| only.is_none_or(|only| only == check.name)).collect();
    if notified.is_empty() {
        let names: Vec<_> = checks.iter().map(|check| check.name).collect();
        let only = only.unwrap_or_default();
        return (
            StatusCode::NOT_FOUND,
            format!("no check {only} in {page}; there are: {}\n", names.join(", ")),
        );
    }
    let mut text = String::new();
    for check in &notified {
        let line = if let Some(remark) = &check.remark {
            writeln!(text, "[+]{} ok, but {remark}", check.name)
        } else if check.is_ok() {
            writeln!(text, "[+]{} ok", check.name)
        } else {
            writeln!(text, "[-]{} failed: {}", check.name, check.wrong.join("; "))
        };
        line.expect("invariant: a String takes everything");
    }
    let passed = notified.iter().all(|check| check.is_ok());
    let (status, verdict) =
        if passed { (StatusCode::OK, "passed") } else { (StatusCode::SERVICE_UNAVAILABLE, "failed") };
    writeln!(text, "{page} check {verdict}").expect("invariant: a String takes everything");
    (status, text)
}

pub(super) fn no_answer(patience: Duration) -> String {
    format!("the agent does not answer within {} s", patience.as_secs())
}

/// Returns the checks of the event loop's own state.
pub(super) fn of_event_loop(snapshot: &Snapshot) -> Vec<Check> {
    let mut checks = Vec::new();
    if snapshot.mode == Mode::Kubernetes {
        let read = snapshot.agent.started;
        let wrong = (!read).then(|| "the cluster has not been read yet".to_owned());
        checks.push(Check::of("cluster", wrong.into_iter().collect()));
    }
    // A host with a faulty file answers on. If it were not ready, one wrong edit would take all hosts away.
    if let Some(file) = &snapshot.file {
        let remark = file.refused.as_ref().map(|_| file.to_string());
        checks.push(Check::remarked("config", remark));
    }
    let mut detached = Vec::new();
    if snapshot.agent.interfaces.is_empty() {
        detached.push("the program is attached to no interface".to_owned());
    }
    let gone = snapshot.agent.interfaces.iter().filter(|interface| !interface.attached);
    detached.extend(gone.map(|it| match &it.failure {
        Some(failure) => format!("{} is not attached: {failure}", it.interface),
        None => format!("{} runs another program, or none", it.interface),
    }));
    let blind = snapshot.agent.interfaces.iter().filter(|interface| interface.attached);
    let blind = blind.filter_map(|it| Some((&it.interface, InterfaceFault::of_proof(it.proof)?)));
    detached.extend(blind.map(|(interface, fault)| format!("{interface}: {}", fault.name())));
    checks.push(Check::of("links", detached));
    let mut vips = Vec::new();
    name_some(
        &mut vips,
        snapshot.agent.unanswered.iter().map(|(vip, why)| format!("{vip} is not answered: {why}")),
    );
    checks.push(Check::of("vips", vips));
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

/// Returns the checks that compare the kernel's state with the event loop's.
pub(super) fn of_kernel(snapshot: &Snapshot, read: Result<Contents, BpfError>) -> Vec<Check> {
    let read = match read {
        Ok(read) => read,
        Err(error) => return vec![Check::failed("entries", chain(&error))],
    };
    let lease_deadline = match (read.lease_deadline_state(), snapshot.mode) {
        (DeadlineState::Valid, _) => Check::ok("lease-deadline"),
        _ if read.has_ended() => Check::failed(
            "lease-deadline",
            "the lease deadline counts as passed: a peer's expiry notice ended the session",
        ),
        (_, Mode::Kubernetes) => {
            Check::failed("lease-deadline", "the lease deadline has passed: the Lease was not renewed")
        }
        (_, Mode::Standalone) => {
            Check::failed("lease-deadline", "the lease deadline has passed: the heartbeat is late")
        }
    };
    // Until the event loop knows which VIPs are wanted, entries stay as they are.
    let entries = if snapshot.agent.started { differences(snapshot, &read.entries) } else { Vec::new() };
    vec![Check::of("entries", entries), lease_deadline]
}

/// Returns the differences between the entries and the event loop's state.
fn differences(snapshot: &Snapshot, entries: &[pinned::Entry]) -> Vec<String> {
    let mut found: BTreeMap<IpAddr, Vec<&pinned::Entry>> = BTreeMap::new();
    for entry in entries {
        found.entry(entry.address()).or_default().push(entry);
    }
    let entries_of = |vip: &IpAddr| found.get(vip).map(Vec::as_slice).unwrap_or_default();
    let held: BTreeSet<IpAddr> = (found.iter())
        .filter(|(_, entries)| entries.iter().any(|entry| entry.role == Role::Held))
        .map(|(vip, _)| *vip)
        .collect();
    let believed: BTreeSet<IpAddr> =
        snapshot.agent.vips.iter().filter(|vip| vip.entry == Entry::Held).map(|vip| vip.vip).collect();
    let mut wrong = Vec::new();
    name_some(
        &mut wrong,
        // The check `vips` names the VIPs that the agent knows to be unanswered.
        believed.difference(&held).filter(|vip| !snapshot.agent.unanswered.contains_key(vip)).map(|vip| {
            match entries_of(vip).iter().find(|entry| entry.yielded) {
                Some(entry) => format!("{vip} is believed held and was yielded to {}", entry.mac),
                None => format!("{vip} is believed held and is not"),
            }
        }),
    );
    name_some(
        &mut wrong,
        held.difference(&believed).map(|vip| format!("{vip} is held and believed not to be")),
    );
    if snapshot.mode == Mode::Standalone {
        let is_guarded = |vip: &IpAddr, mac| {
            entries_of(vip).iter().any(|entry| entry.role == Role::Foreign && entry.mac == mac)
        };
        let guarded = snapshot.agent.vips.iter().filter_map(|vip| match vip.entry {
            Entry::Foreign { mac } if !mac.is_zero() && !is_guarded(&vip.vip, mac) => {
                Some(format!("{} is to be guarded at {mac} and is not", vip.vip))
            }
            Entry::Foreign { .. } | Entry::Held | Entry::Handover { .. } => None,
        });
        name_some(&mut wrong, guarded);
    }
    wrong
}

/// Adds the first few faults, and the number of the others.
fn name_some(wrong: &mut Vec<String>, mut all: impl Iterator<Item = String>) {
    wrong.extend(all.by_ref().take(MOST_NAMED));
    let more = all.count();
    if more > 0 {
        wrong.push(format!("and {more} more"));
    }
}
