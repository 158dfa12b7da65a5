//! The status as tables, and as a line a VIP.

use std::collections::{BTreeMap, BTreeSet};

use vipward_common::{Outcome, WireOutcome};
use vipward_core::{
    diagnosis::pinned::{Status, VipStatus, WireStatus},
    host::{answering::Waiting, net::labelled},
};

use crate::shell::commands::{
    tables::{Need, Table, answering, or_dash, paragraph, yes},
    terminal::Screen,
};

const MOST_OFFENDERS: usize = 32;
const WAITING: &str = "waiting";

/// The extent of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    Usual,
    /// With the counters that are zero.
    Verbose,
}

/// Returns the status. It begins with one line that says whether all is well.
pub fn render(status: &Status, detail: Detail, screen: Screen) -> String {
    let (state, summary) = status.summary();
    let lines = paragraph("", &summary, screen);
    let mut parts: Vec<String> =
        vec![lines.lines().map(|line| screen.colours.of(state, line) + "\n").collect()];
    parts.push(head(status).iter().map(|line| paragraph("", line, screen)).collect());
    let tables = [
        vip_table(status),
        interface_table(status),
        counter_table("OUTCOME", Outcome::ALL.iter().map(|it| it.name()), &status.counters, detail),
    ];
    parts.extend(tables.iter().map(|table| unless_empty(table, screen)));
    for interface in unasked(status) {
        let text = format!("{interface}: no request for a VIP that this host holds here has come");
        parts.push(paragraph("", &text, screen));
    }
    if let Some(wire) = &status.wire {
        parts.push(paragraph("", &wire_line(wire), screen));
        parts.push(unless_empty(&wire_peer_table(wire), screen));
    }
    if status.wire_counters.values().any(|frames| *frames > 0) {
        let names = WireOutcome::ALL.iter().map(|it| it.name());
        parts.push(counter_table("WIRE FAILOVER", names, &status.wire_counters, detail).text(screen));
    }
    let mut peers = Table::new([("PEER", Need::Always), ("INTERFACE", Need::Always)]);
    for row in &status.peers {
        peers.add_row([row.mac.clone(), labelled(&row.interface, row.vlan)]);
    }
    parts.push(unless_empty(&peers, screen));
    parts.push(unless_empty(&offender_table(status), screen));
    if status.offenders.len() > MOST_OFFENDERS {
        parts.push(format!("and {} more; see -o json\n", status.offenders.len() - MOST_OFFENDERS));
    }
    if status.events_lost > 0 {
        parts.push(format!("{} events were lost: the ring buffer was full\n", status.events_lost));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// Returns a table as text, or nothing for a table without rows.
fn unless_empty(table: &Table, screen: Screen) -> String {
    if table.is_empty() { String::new() } else { table.text(screen) }
}

/// Returns a line for each VIP, for scripts: its address, interface, role, answers and MAC.
pub fn brief(status: &Status) -> String {
    let line = |row: &VipRow<'_>| match row {
        VipRow::Entry(vip) => {
            let (role, mac) = (vip.part.name(), or_dash(vip.mac.as_ref()));
            format!("{} {} {role} {} {mac}\n", vip.address, vip.interface, vip.answers.name())
        }
        VipRow::Waits(it) => {
            format!("{} {} {WAITING} no {}\n", it.address, it.label(), or_dash(it.mac.as_ref()))
        }
    };
    let mut rows = rows(status);
    rows.sort_by(|one, other| one.id().cmp(&other.id()));
    rows.iter().map(line).collect()
}

fn head(status: &Status) -> [String; 2] {
    let lease_deadline = &status.lease_deadline;
    [
        format!("pins {}  entries {} of {}", status.pin_dir.display(), status.entries, status.max_vips),
        format!(
            "lease deadline {}, policy {}: {:.1} s left, the grace period {:.0} s{}",
            lease_deadline.state,
            lease_deadline.policy,
            lease_deadline.left_seconds,
            lease_deadline.hold_left_seconds,
            if lease_deadline.ended { "; a peer's expiry notice ended the session" } else { "" }
        ),
    ]
}

/// A row of the table of VIPs.
enum VipRow<'a> {
    Entry(&'a VipStatus),
    Waits(&'a Waiting),
}

impl VipRow<'_> {
    fn id(&self) -> (std::net::IpAddr, &str) {
        match self {
            Self::Entry(vip) => (vip.address, &vip.interface),
            Self::Waits(it) => (it.address, it.label()),
        }
    }

    /// Returns the place among the others: those in trouble come first, and then those that wait.
    fn rank(&self) -> u8 {
        match self {
            Self::Entry(vip) if vip.is_in_trouble() => 0,
            Self::Waits(_) => 1,
            Self::Entry(_) => 2,
        }
    }
}

/// Returns the rows. A VIP that waits has one row, whether it has an entry or not.
fn rows(status: &Status) -> Vec<VipRow<'_>> {
    let entries = status.vips.iter().filter(|vip| vip.part.is_ours() || !status.waits(vip));
    let waiting = status.waiting.iter().flatten().map(VipRow::Waits);
    let mut rows: Vec<_> = entries.map(VipRow::Entry).chain(waiting).collect();
    rows.sort_by_key(VipRow::rank);
    rows
}

fn vip_table(status: &Status) -> Table {
    let mut vips = Table::new([
        ("VIP", Need::Always),
        ("INTERFACE", Need::Always),
        ("ROLE", Need::Always),
        ("MAC", Need::Always),
        ("ANSWERING", Need::Text),
        ("ANSWERED", Need::Room(1)),
        ("CONFLICTS", Need::Room(2)),
        ("SUPPRESSED", Need::Room(3)),
    ]);
    for row in rows(status) {
        match row {
            VipRow::Entry(vip) => vips.add_row(entry_cells(vip)),
            VipRow::Waits(it) => vips.add_row([
                it.address.to_string(),
                it.label().to_owned(),
                WAITING.to_owned(),
                or_dash(it.mac.as_ref()),
                format!("no: {}", it.because),
                "-".to_owned(),
                "-".to_owned(),
                "-".to_owned(),
            ]),
        }
    }
    vips
}

fn entry_cells(row: &VipStatus) -> [String; 8] {
    let role = row.part.name();
    [
        row.address.to_string(),
        labelled(&row.interface, row.vlan),
        if row.yielded { format!("{role} (yielded)") } else { role.to_owned() },
        or_dash(row.mac.as_ref()),
        answering(row),
        or_dash(row.answered.as_ref()),
        or_dash(row.conflicts.as_ref()),
        or_dash(row.suppressed.as_ref()),
    ]
}

fn interface_table(status: &Status) -> Table {
    let mut interfaces = Table::new([
        ("INTERFACE", Need::Always),
        ("ATTACHED", Need::Always),
        ("MODE", Need::Room(2)),
        ("PROGRAM", Need::Room(3)),
        ("LINK", Need::Room(4)),
        ("MAC", Need::Always),
        ("CARRIER", Need::Always),
        ("PROOF", Need::Room(1)),
    ]);
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

fn offender_table(status: &Status) -> Table {
    let mut offenders = Table::new([
        ("CLAIMED BY", Need::Always),
        ("VENDOR", Need::Room(3)),
        ("VIP", Need::Always),
        ("INTERFACE", Need::Room(2)),
        ("KIND", Need::Always),
        ("CLAIMS", Need::Room(1)),
        ("LAST", Need::Always),
    ]);
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

fn wire_line(wire: &WireStatus) -> String {
    let keys: Vec<_> = wire.keys.iter().map(ToString::to_string).collect();
    let keys = if keys.is_empty() { "no key".to_owned() } else { format!("keys {}", keys.join(", ")) };
    let times = wire.scale.map(|scale| format!(", times of --wire {scale}")).unwrap_or_default();
    format!("failure detector: number {}, {keys}{times}", wire.wid)
}

fn wire_peer_table(wire: &WireStatus) -> Table {
    let mut peers = Table::new([
        ("WIRE PEER", Need::Always),
        ("INTERFACE", Need::Always),
        ("ANSWERED", Need::Always),
        ("ROUND TRIP", Need::Room(1)),
        ("RECEIVED", Need::Always),
    ]);
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

fn counter_table(
    title: &'static str,
    names: impl Iterator<Item = &'static str>,
    counters: &BTreeMap<&'static str, u64>,
    detail: Detail,
) -> Table {
    let mut table = Table::new([(title, Need::Always), ("FRAMES", Need::Always)]);
    for name in names {
        let frames = counters.get(name).copied().unwrap_or_default();
        if frames > 0 || detail == Detail::Verbose {
            table.add_row([name.to_owned(), frames.to_string()]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use vipward_core::{
        diagnosis::pinned::State,
        host::answering::{Part, Silence},
    };

    use super::*;

    /// Returns a VIP that is held, one of a peer, and one that waits and has an entry.
    fn status() -> Status {
        let mut status = Status::of(&State::sample(), &BTreeMap::new());
        let waits = VipStatus { address: [192, 0, 2, 12].into(), mac: None, ..status.vips[1].clone() };
        status.waiting = Some(vec![Waiting {
            address: waits.address,
            interface: Some(waits.interface.clone()),
            because: "another host has it".to_owned(),
            remedy: "give that host another address".to_owned(),
            mac: Some("02:00:00:00:00:77".to_owned()),
        }]);
        status.vips.push(waits);
        status
    }

    fn words(text: &str) -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn trouble_comes_first_then_what_waits_and_a_counter_only_if_it_counts() {
        let mut status = status();
        status.counters = [("answered", 7)].into();
        let text = render(&status, Detail::Usual, Screen::PIPE);
        let lines = words(&text);
        assert_eq!(lines[0], "1 VIP answered, 1 of other hosts, 1 waits; lease deadline valid; no conflict");
        let vips: Vec<_> = lines.iter().filter(|line| line.starts_with("192.")).map(String::as_str).collect();
        assert_eq!(
            vips,
            [
                "192.0.2.12 eth0 waiting 02:00:00:00:00:77 no: another host has it - - -",
                "192.0.2.10 eth0 held 02:00:00:00:00:02 yes 0 0 0",
                "192.0.2.11 eth0 foreign 02:00:00:00:00:09 no 0 0 0",
            ]
        );
        assert!(text.contains("answered  7\n") && !text.contains("claim_conflict"), "{text}");
        assert!(!text.contains("CLAIMED BY"), "{text}");
        let verbose = render(&status, Detail::Verbose, Screen::PIPE);
        assert!(words(&verbose).contains(&"claim_conflict 0".to_owned()), "{verbose}");

        status.vips[0].part = Part::Silent(Silence::LeaseDeadline);
        let text = render(&status, Detail::Usual, Screen::PIPE);
        let first = words(&text).into_iter().find(|line| line.starts_with("192.")).unwrap_or_default();
        assert!(first.starts_with("192.0.2.10 eth0 silent"), "{text}");
    }

    #[test]
    fn the_brief_form_is_a_line_a_vip_in_the_order_of_their_addresses() {
        let expected = "192.0.2.10 eth0 held yes 02:00:00:00:00:02\n\
            192.0.2.11 eth0 foreign no 02:00:00:00:00:09\n\
            192.0.2.12 eth0 waiting no 02:00:00:00:00:77\n";
        assert_eq!(brief(&status()), expected);
    }
}
