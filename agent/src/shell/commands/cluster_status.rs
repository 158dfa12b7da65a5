//! The tables of `vipward status --cluster`.

use std::fmt;

use vipward_core::diagnosis::overview::Overview;

use super::tables::{or_dash, print, table, yes};

pub struct ClusterTables<'a>(pub &'a Overview);

impl fmt::Display for ClusterTables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Overview { vips, nodes, last_moves }) = self;
        let mut vip_table = table(&[
            "VIP",
            "HOLDER",
            "STATE",
            "MAC",
            "INTERFACE",
            "EPOCH",
            "SERVICES",
            "CONFLICT",
            "TROUBLE",
        ]);
        for row in vips {
            let state = match &row.offered_by {
                Some(from) => format!("{} from {from}", row.state.name()),
                None => row.state.name().to_owned(),
            };
            vip_table.add_row([
                row.address.to_string(),
                or_dash(row.holder.as_ref()),
                state,
                or_dash(row.mac.as_ref()),
                or_dash(row.interface.as_ref()),
                row.epoch.to_string(),
                row.services.join(","),
                or_dash(row.conflict.as_ref()),
                or_dash(row.unanswered.as_ref().or(row.trouble.as_ref())),
            ]);
        }
        print(f, &vip_table)?;
        let mut node_table =
            table(&["NODE", "VIPS", "LEASE", "GOOD FOR", "SESSION", "LEAVING", "FOUND DEAD BY"]);
        for row in nodes {
            let age = row.lease_age_seconds;
            let lease = if row.renewed {
                format!("renewed {age:.1} s ago")
            } else {
                format!("unchanged for {age:.1} s, as long as it was watched")
            };
            let found_by = match &row.found_by_lease {
                None => format!("{} of {}", row.quorum, row.voters.join(",")),
                Some(why) => format!("its Lease: {why}"),
            };
            node_table.add_row([
                row.node.clone(),
                row.vips.to_string(),
                lease,
                format!("{} s", row.lease_duration_seconds),
                or_dash(row.session.as_ref()),
                yes(row.leaving),
                found_by,
            ]);
        }
        writeln!(f)?;
        print(f, &node_table)?;
        if !last_moves.is_empty() {
            let mut move_table = table(&["LAST MOVES", "VIP", "TO", "CAUSE"]);
            for row in last_moves {
                move_table.add_row([
                    row.since.clone(),
                    row.address.to_string(),
                    row.holder.clone(),
                    row.cause.clone(),
                ]);
            }
            writeln!(f)?;
            print(f, &move_table)?;
        }
        Ok(())
    }
}
