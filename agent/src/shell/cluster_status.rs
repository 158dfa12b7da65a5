//! The tables of `vipward status --cluster`.

use std::fmt;

use comfy_table::{ContentArrangement, Table, presets::NOTHING};

use crate::core::overview::Overview;

/// An overview, for people.
pub struct ClusterTables<'a>(pub &'a Overview);

impl fmt::Display for ClusterTables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Overview { vips, nodes, last_moves }) = self;
        let mut table =
            new(&["VIP", "HOLDER", "STATE", "MAC", "INTERFACE", "EPOCH", "SERVICES", "CONFLICT", "TROUBLE"]);
        for row in vips {
            let state = match &row.offered_by {
                Some(from) => format!("{} by {from}", row.state),
                None => row.state.to_owned(),
            };
            table.add_row([
                row.address.to_string(),
                or_dash(row.holder.as_ref()),
                state,
                or_dash(row.mac.as_ref()),
                or_dash(row.interface.as_ref()),
                row.epoch.to_string(),
                row.services.join(","),
                or_dash(row.conflict.as_ref()),
                or_dash(row.trouble.as_ref()),
            ]);
        }
        print(f, &table)?;
        let mut table = new(&["NODE", "VIPS", "LEASE", "GOOD FOR", "SESSION", "LEAVING"]);
        for row in nodes {
            let age = row.lease_age_seconds;
            let lease = if row.renewed {
                format!("renewed {age:.1} s ago")
            } else {
                format!("unchanged for {age:.1} s, as long as it was looked at")
            };
            table.add_row([
                row.node.clone(),
                row.vips.to_string(),
                lease,
                format!("{} s", row.lease_duration_seconds),
                or_dash(row.session.as_ref()),
                if row.leaving { "yes" } else { "no" }.to_owned(),
            ]);
        }
        writeln!(f)?;
        print(f, &table)?;
        if !last_moves.is_empty() {
            let mut table = new(&["LAST MOVES", "VIP", "TO", "CAUSE"]);
            for row in last_moves {
                table.add_row([
                    row.since.clone(),
                    row.address.to_string(),
                    row.holder.clone(),
                    row.cause.clone(),
                ]);
            }
            writeln!(f)?;
            print(f, &table)?;
        }
        Ok(())
    }
}

fn print(f: &mut fmt::Formatter<'_>, table: &Table) -> fmt::Result {
    table.to_string().lines().try_for_each(|line| writeln!(f, "{}", line.trim_end()))
}

fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    table
}

fn or_dash(value: Option<&String>) -> String {
    value.cloned().unwrap_or_else(|| "-".to_owned())
}
