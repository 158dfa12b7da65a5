use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::{collection::vec, prelude::*};
use vipward_common::MacAddr;

use super::*;

const HEADER: [(&str, Need); 6] = [
    ("VIP", Need::Always),
    ("ROLE", Need::Always),
    ("MAC", Need::Always),
    ("EPOCH", Need::Room(2)),
    ("ANSWERED", Need::Room(1)),
    ("FOUND", Need::Text),
];

fn on(width: usize) -> Screen {
    Screen { width: Some(width), ..Screen::PIPE }
}

fn sample() -> Table {
    let mut table = Table::new(HEADER);
    table.add_row(["192.0.2.10", "held", "02:00:00:00:00:02", "17", "1969", "all is well"]);
    let found = "02:00:00:00:00:77 (locally administered) claims it, and the claim is dropped";
    table.add_row(["2001:db8::10", "held", "02:00:00:00:00:02", "3", "-", found]);
    table
}

#[test]
fn a_row_is_one_line_whatever_nodes_and_users_have_written() {
    let mut rows = Table::new([("VIP", Need::Always), ("CONFLICT", Need::Text)]);
    rows.add_row(["192.0.2.10", "a\n192.0.2.11 \x1b[31mforged\u{202e}"]);
    rows.add_row(["192.0.2.12", "x".repeat(200_000).as_str()]);
    let text = rows.text(Screen::PIPE);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[1].contains(r"a\n192.0.2.11 \u{1b}[31mforged\u{202e}"), "{:?}", lines[1]);
    assert!(lines[2].trim().chars().count() < table::MOST + 20);
}

#[test]
fn a_pipe_gets_all_columns_and_a_line_a_row() {
    let expected = " VIP           ROLE  MAC                EPOCH  ANSWERED  FOUND
 192.0.2.10    held  02:00:00:00:00:02  17     1969      all is well
 2001:db8::10  held  02:00:00:00:00:02  3      -         02:00:00:00:00:77 (locally administered) claims it, and the \
claim is dropped
";
    assert_eq!(sample().text(Screen::PIPE), expected);
}

#[test]
fn on_a_narrow_terminal_columns_go_by_importance_and_then_text_is_wrapped() {
    let expected = " VIP           ROLE  MAC                ANSWERED  FOUND
 192.0.2.10    held  02:00:00:00:00:02  1969      all is well
 2001:db8::10  held  02:00:00:00:00:02  -         02:00:00:00:00:77 (locally
                                                  administered) claims it, and
                                                  the claim is dropped
";
    assert_eq!(sample().text(on(80)), expected);
    let expected = " VIP           ROLE  MAC                FOUND
 192.0.2.10    held  02:00:00:00:00:02  all is well
 2001:db8::10  held  02:00:00:00:00:02  02:00:00:00:00:77
                                        (locally administered)
                                        claims it, and the claim
                                        is dropped
";
    assert_eq!(sample().text(on(64)), expected);
}

#[test]
fn where_no_more_columns_may_go_a_row_takes_more_lines() {
    let mut table =
        Table::new([("VIP", Need::Always), ("CLAIMED BY", Need::Always), ("SOURCE", Need::Always)]);
    let vip = "2001:db8:1111:2222:3333:4444:5555:6666";
    table.add_row([vip, "02:00:00:00:00:77", "02:00:00:00:00:55"]);
    let expected = " VIP                                     CLAIMED BY
    SOURCE
 2001:db8:1111:2222:3333:4444:5555:6666  02:00:00:00:00:77
    02:00:00:00:00:55
";
    assert_eq!(table.text(on(60)), expected);
}

#[test]
fn a_column_without_a_value_goes_first() {
    let mut table = Table::new([("VIP", Need::Always), ("SOURCE", Need::Always), ("KIND", Need::Room(1))]);
    table.add_row(["192.0.2.10", "-", "conflict"]);
    assert_eq!(table.text(on(24)), " VIP         KIND\n 192.0.2.10  conflict\n");
}

#[test]
fn a_word_that_is_too_long_is_broken_behind_a_separator_and_an_address_never() {
    assert_eq!(wrap("see /sys/fs/bpf/vipward/links now", 12), ["see /sys/fs/", "bpf/vipward/", "links now"]);
    assert_eq!(wrap("xxxxxxxxxxxxxxx", 10), ["xxxxxxxxxx", "xxxxx"]);
    let range = "2001:db8:1111::1-2001:db8:1111::ffff";
    assert_eq!(wrap(range, 20), ["2001:db8:1111::1-", "2001:db8:1111::ffff"]);
    assert_eq!(wrap("at 02:00:00:00:00:77, it", 10), ["at", "02:00:00:00:00:77,", "it"]);
}

fn address() -> impl Strategy<Value = String> {
    let v4 = any::<[u8; 4]>().prop_map(|it| IpAddr::V4(Ipv4Addr::from(it)));
    let v6 = any::<[u8; 16]>().prop_map(|it| IpAddr::V6(Ipv6Addr::from(it)));
    prop_oneof![v4, v6].prop_map(|address| address.to_string())
}

fn mac() -> impl Strategy<Value = String> {
    any::<[u8; 6]>().prop_map(|it| MacAddr(it).to_string())
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,12}", "[a-z/_=-]{1,70}", "[あ-ん]{1,8}"]
}

/// Returns free text with addresses in it.
fn text() -> impl Strategy<Value = String> {
    let part =
        prop_oneof![4 => word(), 1 => address(), 1 => mac(), 1 => mac().prop_map(|mac| format!("({mac}),"))];
    vec(part, 0..12).prop_map(|parts| parts.join(" "))
}

fn row() -> impl Strategy<Value = [String; 6]> {
    (address(), "[a-z]{1,10}", mac(), "[0-9]{1,6}", "[0-9]{1,12}", text()).prop_map(<[String; 6]>::from)
}

/// Returns the addresses and MACs in a text.
fn addresses(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split_whitespace().map(|word| word.trim_matches(['(', ')', ',']));
    words.filter(|word| word.parse::<IpAddr>().is_ok() || word.matches(':').count() == 5 && word.len() == 17)
}

proptest! {
    #[test]
    fn no_address_is_cut_or_left_out_and_no_line_is_too_long(rows in vec(row(), 0..6), width in 60_usize..200) {
        let mut table = Table::new(HEADER);
        for row in &rows {
            table.add_row(row.each_ref());
        }
        let text = table.text(on(width));
        for line in text.lines() {
            prop_assert!(width_of(line) <= width, "{width}: {line:?}");
            prop_assert_eq!(line, line.trim_end());
        }
        for address in rows.iter().flatten().flat_map(|cell| addresses(cell)) {
            prop_assert!(text.split_whitespace().any(|word| word.contains(address)), "{address} in:\n{text}");
        }
    }

    #[test]
    fn a_paragraph_has_each_word_and_fits(text in text(), width in 60_usize..120) {
        let said = paragraph("note: ", &text, on(width));
        for line in said.lines() {
            prop_assert!(width_of(line) <= width, "{line:?}");
        }
        let letters = |text: &str| text.split_whitespace().collect::<String>();
        prop_assert_eq!(letters(&said), format!("note:{}", letters(&text)));
    }

    #[test]
    fn the_tallest_row_is_as_tall_as_it_is_drawn(rows in vec(row(), 1..6), width in 60_usize..200) {
        let mut table = Table::new(HEADER);
        for row in &rows {
            table.add_row(row.each_ref());
        }
        let layout = table.layout(Some(width));
        let heights = (0..rows.len()).map(|row| layout.row(&table, row).len());
        prop_assert_eq!(Some(layout.tallest(&table)), heights.max());
    }
}
