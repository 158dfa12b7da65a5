//! The status as tables.

use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
};

use vipward_common::{Outcome, WireOutcome};
use vipward_core::{
    diagnosis::pinned::{Status, WireStatus},
    host::net::labelled,
};

use crate::shell::commands::tables::{Rows, answering, or_dash, table, yes};

const MOST_OFFENDERS: usize = 32;

pub fn render(status: &Status) -> String {
    let mut text = String::new();
    write(status, &mut text).expect("invariant: a String takes everything");
    text
}

fn write(status: &Status, f: &mut String) -> fmt::Result {
    writeln!(f, "pins {}  entries {} of {}", status.pin_dir.display(), status.entries, status.max_vips)?;
    let lease_deadline = &status.lease_deadline;
    writeln!(
        f,
        "lease deadline {}, policy {}: {:.1} s left, the grace period {:.0} s{}",
        lease_deadline.state,
        lease_deadline.policy,
        lease_deadline.left_seconds,
        lease_deadline.hold_left_seconds,
        if lease_deadline.ended { "; a peer's expiry notice ended the session" } else { "" }
    )?;
    writeln!(f, "\n{}\n\n{}\n\n{}", interface_table(status), vip_table(status), counter_table(status))?;
    for interface in unasked(status) {
        writeln!(f, "\n{interface}: no request for a VIP that this host holds here has come")?;
    }
    if let Some(wire) = &status.wire {
        let keys: Vec<_> = wire.keys.iter().map(ToString::to_string).collect();
        let keys = if keys.is_empty() { "no key".to_owned() } else { format!("keys {}", keys.join(", ")) };
        let times = wire.scale.map(|scale| format!(", times of --wire {scale}")).unwrap_or_default();
        writeln!(f, "\nfailure detector: number {}, {keys}{times}", wire.wid)?;
        if !wire.peers.is_empty() {
            writeln!(f, "\n{}", wire_peer_table(wire))?;
        }
    }
    if status.wire_counters.values().any(|frames| *frames > 0) {
        writeln!(f, "\n{}", wire_table(status))?;
    }
    if !status.peers.is_empty() {
        let mut peers = table(&["PEER", "INTERFACE"]);
        for row in &status.peers {
            peers.add_row([row.mac.clone(), labelled(&row.interface, row.vlan)]);
        }
        writeln!(f, "\n{peers}")?;
    }
    if !status.offenders.is_empty() {
        writeln!(f, "\n{}", offender_table(status))?;
    }
    if status.offenders.len() > MOST_OFFENDERS {
        writeln!(f, "and {} more; see -o json", status.offenders.len() - MOST_OFFENDERS)?;
    }
    if status.events_lost > 0 {
        writeln!(f, "\n{} events were lost: the ring buffer was full", status.events_lost)?;
    }
    Ok(())
}

fn interface_table(status: &Status) -> Rows {
    let mut interfaces =
        table(&["INTERFACE", "ATTACHED", "MODE", "PROGRAM", "LINK", "MAC", "CARRIER", "PROOF"]);
    for row in &status.interfaces {
        interfaces.add_row([
            row.name
                .as_ref()
                .map_or_else(|| format!("#{} (gone)", row.ifindex), |name| labelled(name, row.vlan)),
            row.through
                .as_ref()
                .map_or_else(|| yes(row.attached), |lower| format!("{} (on {lower})", yes(row.attached))),
            row.mode.to_string(),
            row.program_id.to_string(),
            or_dash(row.link_id.as_ref()),
            or_dash(row.mac.as_ref()),
            yes(row.carrier),
            row.proof.to_owned(),
        ]);
    }
    interfaces
}

/// Returns the interfaces with held VIPs of which none was requested.
fn unasked(status: &Status) -> BTreeSet<&str> {
    let held = || status.vips.iter().filter(|vip| vip.part.is_answering());
    let asked: BTreeSet<&str> =
        held().filter(|vip| vip.answered != Some(0)).map(|vip| vip.interface.as_str()).collect();
    held().map(|vip| vip.interface.as_str()).filter(|interface| !asked.contains(interface)).collect()
}

fn vip_table(status: &Status) -> Rows {
    let mut vips =
        table(&["VIP", "INTERFACE", "ROLE", "MAC", "ANSWERING", "ANSWERED", "CONFLICTS", "SUPPRESSED"]);
    for row in &status.vips {
        let role = row.part.name();
        vips.add_row([
            row.address.to_string(),
            labelled(&row.interface, row.vlan),
            if row.yielded { format!("{role} (yielded)") } else { role.to_owned() },
            or_dash(row.mac.as_ref()),
            answering(row),
            or_dash(row.answered.as_ref()),
            or_dash(row.conflicts.as_ref()),
            or_dash(row.suppressed.as_ref()),
        ]);
    }
    vips
}

fn offender_table(status: &Status) -> Rows {
    let mut offenders = table(&["CLAIMED BY", "VENDOR", "VIP", "INTERFACE", "KIND", "CLAIMS", "LAST"]);
    for row in status.offenders.iter().take(MOST_OFFENDERS) {
        offenders.add_row([
            row.mac.clone(),
            row.vendor.clone(),
            row.address.to_string(),
            labelled(&row.interface, row.vlan),
            row.kind.to_owned(),
            row.claims.to_string(),
            format!("{:.0} s ago", row.last_seconds_ago),
        ]);
    }
    offenders
}

fn wire_peer_table(wire: &WireStatus) -> Rows {
    let mut peers = table(&["WIRE PEER", "INTERFACE", "ANSWERED", "ROUND TRIP", "RECEIVED"]);
    let ago = |seconds: Option<f64>| or_dash(seconds.map(|seconds| format!("{seconds:.2} s ago")).as_ref());
    for row in &wire.peers {
        let round_trip = row.of.round_trip_seconds.map(|seconds| format!("{:.2} ms", seconds * 1e3));
        peers.add_row([
            row.of.id.clone(),
            labelled(&row.interface, row.vlan),
            ago(row.of.answered_seconds_ago),
            or_dash(round_trip.as_ref()),
            ago(row.of.received_seconds_ago),
        ]);
    }
    peers
}

fn wire_table(status: &Status) -> Rows {
    let mut counters = table(&["WIRE FAILOVER", "FRAMES"]);
    for outcome in WireOutcome::ALL {
        let frames = status.wire_counters.get(outcome.name()).copied().unwrap_or_default();
        counters.add_row([outcome.name().to_owned(), frames.to_string()]);
    }
    counters
}

fn counter_table(status: &Status) -> Rows {
    let mut counters = table(&["OUTCOME", "FRAMES"]);
    for outcome in Outcome::ALL {
        let frames = status.counters.get(outcome.name()).copied().unwrap_or_default();
        counters.add_row([outcome.name().to_owned(), frames.to_string()]);
    }
    counters
}
