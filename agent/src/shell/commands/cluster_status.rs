//! The tables of `vipward status --cluster`.

use vipward_core::diagnosis::overview::Overview;

use super::{
    tables::{Need, Table, or_dash, yes},
    terminal::Screen,
};

pub fn render(overview: &Overview, screen: Screen) -> String {
    let mut tables = vec![vips(overview).text(screen), nodes(overview).text(screen)];
    let moves = moves(overview);
    if !moves.is_empty() {
        tables.push(moves.text(screen));
    }
    tables.join("\n")
}

fn vips(overview: &Overview) -> Table {
    let mut table = Table::new([
        ("VIP", Need::Always),
        ("HOLDER", Need::Always),
        ("STATE", Need::Always),
        ("MAC", Need::Always),
        ("INTERFACE", Need::Room(1)),
        ("EPOCH", Need::Room(2)),
        ("SERVICES", Need::Text),
        ("CONFLICT", Need::Text),
        ("TROUBLE", Need::Text),
    ]);
    for row in &overview.vips {
        let state = match &row.offered_by {
            Some(from) => format!("{} from {from}", row.state.name()),
            None => row.state.name().to_owned(),
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
            or_dash(row.unanswered.as_ref().or(row.trouble.as_ref())),
        ]);
    }
    table
}

fn nodes(overview: &Overview) -> Table {
    let mut table = Table::new([
        ("NODE", Need::Always),
        ("VIPS", Need::Always),
        ("LEASE", Need::Text),
        ("GOOD FOR", Need::Room(1)),
        ("SESSION", Need::Room(3)),
        ("LEAVING", Need::Room(2)),
        ("FOUND DEAD BY", Need::Text),
    ]);
    for row in &overview.nodes {
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
        table.add_row([
            row.node.clone(),
            row.vips.to_string(),
            lease,
            format!("{} s", row.lease_duration_seconds),
            or_dash(row.session.as_ref()),
            yes(row.leaving),
            found_by,
        ]);
    }
    table
}

fn moves(overview: &Overview) -> Table {
    let mut table = Table::new([
        ("LAST MOVES", Need::Always),
        ("VIP", Need::Always),
        ("TO", Need::Always),
        ("CAUSE", Need::Text),
    ]);
    for row in &overview.last_moves {
        table.add_row([row.since.clone(), row.address.to_string(), row.holder.clone(), row.cause.clone()]);
    }
    table
}
