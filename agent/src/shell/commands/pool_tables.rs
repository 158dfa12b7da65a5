//! The tables of `vipward pools`.

use vipward_core::pools::{AddressRow, Family, FamilyRow, PoolList, PoolRow};

use super::{
    tables::{Need, Table, or_dash, yes},
    terminal::Screen,
};

/// Returns the pools, and with `with_addresses` the reserved addresses.
pub fn render(list: &PoolList, with_addresses: bool, screen: Screen) -> String {
    let PoolList { pools, addresses } = list;
    let mut pool_table = Table::new([
        ("POOL", Need::Always),
        ("FAMILY", Need::Always),
        ("USED", Need::Room(1)),
        ("KEPT", Need::Room(2)),
        ("FREE", Need::Always),
        ("TOTAL", Need::Room(3)),
        ("AUTO", Need::Room(4)),
        ("READY", Need::Text),
        ("ADDRESSES", Need::Text),
    ]);
    for row in pools {
        let none = FamilyRow::default();
        let families = if row.families.is_empty() { &[none][..] } else { &row.families };
        for family in families {
            pool_table.add_row(pool_cells(row, family));
        }
    }
    let mut text = pool_table.text(screen);
    if with_addresses {
        let mut address_table = Table::new([
            ("ADDRESS", Need::Always),
            ("SERVICE", Need::Always),
            ("POOL", Need::Always),
            ("STATE", Need::Text),
        ]);
        for row in addresses {
            address_table.add_row(address_cells(row));
        }
        text += "\n";
        text += &address_table.text(screen);
    }
    text
}

fn pool_cells(row: &PoolRow, numbers: &FamilyRow) -> [String; 9] {
    let FamilyRow { family, used, kept, free, total } = numbers;
    let is_v6 = family == Family::V6.name();
    let of_family = row.addresses.iter().filter(|text| family.is_empty() || text.contains(':') == is_v6);
    let ready = row.problem.as_ref().map_or_else(|| yes(true), |problem| format!("no: {problem}"));
    let addresses = of_family.cloned().collect::<Vec<_>>().join(", ");
    let number = |text: &String| or_dash(Some(text).filter(|text| !text.is_empty()));
    [
        row.pool.clone(),
        number(family),
        number(used),
        number(kept),
        number(free),
        number(total),
        yes(row.auto_assign),
        ready,
        addresses,
    ]
}

fn address_cells(row: &AddressRow) -> [String; 4] {
    let state = match &row.kept_until {
        _ if row.releasing => "to be released".to_owned(),
        None => "in use".to_owned(),
        Some(until) if until == "forever" => "kept for ever".to_owned(),
        Some(until) => format!("kept until {until}"),
    };
    let pool = match &row.pool {
        Some(pool) if !row.in_pool => format!("{pool} (not in it any more)"),
        pool => or_dash(pool.as_ref()),
    };
    [row.address.to_string(), row.service.clone(), pool, state]
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn a_pool_has_a_line_for_each_family_and_an_address_says_who_has_it() {
        let numbers = |family: &str, free: &str| FamilyRow {
            family: family.to_owned(),
            used: "1".to_owned(),
            kept: "1".to_owned(),
            free: free.to_owned(),
            total: "6".to_owned(),
        };
        let row = |pool: &str, addresses: &[&str], families, problem: Option<&str>| PoolRow {
            pool: pool.to_owned(),
            addresses: addresses.iter().map(|text| (*text).to_owned()).collect(),
            families,
            auto_assign: true,
            priority: 0,
            problem: problem.map(ToOwned::to_owned),
        };
        let both = vec![numbers("IPv4", "4"), numbers("IPv6", "18446744073709551613")];
        let address = |last, pool: Option<&str>, in_pool, kept: Option<&str>, releasing| AddressRow {
            address: IpAddr::from([192, 0, 2, last]),
            service: "apps/web".to_owned(),
            pool: pool.map(ToOwned::to_owned),
            in_pool,
            kept_until: kept.map(ToOwned::to_owned),
            releasing,
        };
        let list = PoolList {
            pools: vec![
                row("lan", &["192.0.2.64/29", "2001:db8::/64"], both, None),
                row("bad", &["192.0.2.77/29"], Vec::new(), Some("addresses[0]: wrong")),
            ],
            addresses: vec![
                address(1, Some("lan"), false, None, false),
                address(65, Some("lan"), true, None, true),
                address(66, Some("lan"), true, Some("forever"), false),
                address(67, Some("lan"), true, Some("2026-01-01T00:00:00Z"), false),
                address(99, None, false, None, false),
            ],
        };
        let said = render(&list, true, Screen::PIPE);
        let words: Vec<String> =
            said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            words,
            [
                "POOL FAMILY USED KEPT FREE TOTAL AUTO READY ADDRESSES",
                "lan IPv4 1 1 4 6 yes yes 192.0.2.64/29",
                "lan IPv6 1 1 18446744073709551613 6 yes yes 2001:db8::/64",
                "bad - - - - - yes no: addresses[0]: wrong 192.0.2.77/29",
                "",
                "ADDRESS SERVICE POOL STATE",
                "192.0.2.1 apps/web lan (not in it any more) in use",
                "192.0.2.65 apps/web lan to be released",
                "192.0.2.66 apps/web lan kept for ever",
                "192.0.2.67 apps/web lan kept until 2026-01-01T00:00:00Z",
                "192.0.2.99 apps/web - in use",
            ]
        );
        let short = render(&list, false, Screen::PIPE);
        assert!(said.starts_with(&short) && short.lines().count() == 4);
    }
}
