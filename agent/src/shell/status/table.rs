//! The status for people.

use std::fmt;

use comfy_table::Table;
use vipward_common::Outcome;

use super::Status;
use crate::shell::tables::{or_dash, table, yes};

/// Offenders that the table has.
const MOST_OFFENDERS: usize = 32;

/// The tables for people.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "pins {}  ABI {}  entries {} of {}",
            self.pin_dir.display(),
            self.abi_version,
            self.entries,
            self.max_vips
        )?;
        let fence = &self.fence;
        writeln!(
            f,
            "fence {}, policy {}: {:.1} s left, holding over {:.0} s",
            fence.state, fence.policy, fence.left_seconds, fence.hold_left_seconds
        )?;
        writeln!(f, "\n{}\n\n{}\n\n{}", self.interface_table(), self.vip_table(), self.counter_table())?;
        if !self.peers.is_empty() {
            let mut peers = table(&["PEER", "INTERFACE"]);
            for row in &self.peers {
                peers.add_row([&row.mac, &row.interface]);
            }
            writeln!(f, "\n{peers}")?;
        }
        if !self.offenders.is_empty() {
            writeln!(f, "\n{}", self.offender_table())?;
        }
        if self.offenders.len() > MOST_OFFENDERS {
            writeln!(f, "and {} more; see -o json", self.offenders.len() - MOST_OFFENDERS)?;
        }
        if self.events_lost > 0 {
            writeln!(f, "\n{} events were lost: the ring buffer was full", self.events_lost)?;
        }
        Ok(())
    }
}

impl Status {
    fn interface_table(&self) -> Table {
        let mut interfaces = table(&["INTERFACE", "ATTACHED", "MODE", "PROGRAM", "LINK", "MAC", "CARRIER"]);
        for row in &self.interfaces {
            interfaces.add_row([
                row.name.clone().unwrap_or_else(|| format!("#{} (gone)", row.ifindex)),
                yes(row.attached),
                row.mode.to_string(),
                row.program_id.to_string(),
                row.link_id.to_string(),
                or_dash(row.mac.as_ref()),
                yes(row.carrier),
            ]);
        }
        interfaces
    }

    fn vip_table(&self) -> Table {
        let mut vips =
            table(&["VIP", "INTERFACE", "ROLE", "MAC", "ANSWERING", "ANSWERED", "CONFLICTS", "SUPPRESSED"]);
        for row in &self.vips {
            let role = row.role.name();
            vips.add_row([
                row.address.to_string(),
                row.interface.clone(),
                if row.yielded { format!("{role} (yielded)") } else { role.to_owned() },
                or_dash(row.mac.as_ref()),
                row.silent_because.map_or_else(|| yes(row.answering), |why| format!("no: {why}")),
                or_dash(row.answered.as_ref()),
                or_dash(row.conflicts.as_ref()),
                or_dash(row.suppressed.as_ref()),
            ]);
        }
        vips
    }

    fn offender_table(&self) -> Table {
        let mut offenders = table(&["CLAIMED BY", "VENDOR", "VIP", "INTERFACE", "KIND", "CLAIMS", "LAST"]);
        for row in self.offenders.iter().take(MOST_OFFENDERS) {
            offenders.add_row([
                row.mac.clone(),
                row.vendor.clone(),
                row.address.to_string(),
                row.interface.clone(),
                row.kind.to_owned(),
                row.claims.to_string(),
                format!("{:.0} s ago", row.last_seconds_ago),
            ]);
        }
        offenders
    }

    fn counter_table(&self) -> Table {
        let mut counters = table(&["OUTCOME", "FRAMES"]);
        for outcome in Outcome::ALL {
            let frames = self.counters.get(outcome.name()).copied().unwrap_or_default();
            counters.add_row([outcome.name().to_owned(), frames.to_string()]);
        }
        counters
    }
}
