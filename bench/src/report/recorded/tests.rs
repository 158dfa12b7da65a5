use std::fs;

use anyhow::Result;

use super::{FILE, Row, in_checkout, merged};
use crate::report::{Group, Item, Limit, Samples, Unit};

const HEADER: &str = "group,name,relative_to,unit,median,least,most,bar,met,measured,cpu\n";
const OLD: &str = "cost,hit,,nanoseconds,70,60,80,,,2025-01-01,old\n\
                   cost,\"gone, since\",,nanoseconds,1,1,1,,,2025-01-01,old\n\
                   rest,1 VIP,,share,0.002,,,<= 0.002,true,2025-01-01,old\n\
                   cost,hit,bare XDP_TX,nanoseconds,40,,,<= 20,false,2025-01-01,old\n";
const REST: &str = "rest,1 VIP,,share,0.002,,,<= 0.002,true,2025-01-01,old\n";

fn rows(items: &[Item]) -> Vec<Row> {
    items.iter().flat_map(|item| item.recorded().expect("rows")).collect()
}

#[test]
fn rows_replace_those_of_their_groups_and_no_others() -> Result<()> {
    let samples: Samples = [73.0, 74.5, 71.0].into_iter().collect();
    let cost = || {
        let hit = Item::new(Group::Cost, "hit", Unit::Nanoseconds, &samples);
        hit.over("bare XDP_TX", &43.0.into(), Some(Limit::AtMost(20.0)))
    };
    let rate = || {
        let rate = Item::new(Group::Rate, "one VIP, ARP", Unit::PerSecond, &9_440_000.4.into());
        rate.ratio("the kernel", &(16.0 / 3.0).into(), Some(Limit::AtLeast(5.0)))
    };
    let peers = || {
        let samples: Samples = [0.5, 0.25].into_iter().collect();
        Row::new("peers: crash".to_owned(), "ARP: ucarp".to_owned(), Unit::Seconds, &samples)
    };
    let new_cost = "cost,hit,,nanoseconds,73,71,74.5,,,2026-11-28,new\n\
                    cost,hit,bare XDP_TX,nanoseconds,43,,,<= 20,false,2026-11-28,new\n";
    let new_rate = "rate,\"one VIP, ARP\",,per_second,9440000,9440000,9440000,,,2026-11-28,new\n\
                    rate,\"one VIP, ARP\",the kernel,ratio,5.33333,,,>= 5,true,2026-11-28,new\n";
    let new_peers = "peers: crash,ARP: ucarp,,seconds,0.25,0.25,0.5,,,2026-11-28,new\n";
    let table = [
        ("nothing ran", OLD, vec![], OLD.to_owned()),
        ("a group whose rows are spread", OLD, rows(&[cost()]), format!("{new_cost}{REST}")),
        ("a new group", OLD, rows(&[rate()]), format!("{OLD}{new_rate}")),
        ("both", OLD, rows(&[rate(), cost()]), format!("{new_cost}{REST}{new_rate}")),
        ("rows that are no items", REST, vec![peers()], format!("{REST}{new_peers}")),
        ("the first rows of all", "", rows(&[cost()]), new_cost.to_owned()),
    ];
    for (what, known, rows, expected) in table {
        let text = merged(&format!("{HEADER}{known}"), rows, "2026-11-28", "new")?;
        assert_eq!(text, format!("{HEADER}{expected}"), "{what}");
    }
    Ok(())
}

#[test]
fn a_whole_number_stays_and_another_has_six_digits() {
    for (value, shown) in
        [(10_003.0, "10003"), (0.292_345_67, "0.292346"), (0.0, "0"), (31_457_280.0, "31457280")]
    {
        assert_eq!(super::digits(value), shown);
    }
}

#[test]
fn the_recorded_file_has_these_columns_and_stays_as_it_is_when_nothing_ran() -> Result<()> {
    let text = fs::read_to_string(in_checkout(FILE))?;
    assert!(text.starts_with(HEADER), "{FILE} begins with another header");
    assert_eq!(merged(&text, vec![], "2026-11-28", "new")?, text);
    Ok(())
}
