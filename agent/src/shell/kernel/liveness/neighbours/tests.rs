use std::net::Ipv4Addr;

use vipward_common::MacAddr;

use super::parse;

const TABLE: &str = "\
IP address       HW type     Flags       HW address            Mask     Device
192.0.2.1        0x1         0x2         02:00:00:00:00:0a     *        eth0
192.0.2.2        0x1         0x0         00:00:00:00:00:00     *        eth0
192.0.2.3        0x1         0x2         02:00:00:00:00:0b     *        eth1
192.0.2.4        0x1         0x6         02:00:00:00:00:0c     *        eth0
192.0.2.5        0x1         0x2         02:00:00:00:00:0b     *        eth0
a line of another form
";

#[test]
fn complete_entries_of_the_interface_are_neighbours_but_not_the_holder() {
    let holder = MacAddr([2, 0, 0, 0, 0, 0xb]);
    let found = |most| parse(TABLE, "eth0", holder, most);
    assert_eq!(found(3), [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 4)]);
    assert_eq!(found(1), [Ipv4Addr::new(192, 0, 2, 1)]);
    assert!(parse("", "eth0", holder, 3).is_empty());
}
