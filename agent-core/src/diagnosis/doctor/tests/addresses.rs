use super::*;
use State::{Green, NotApplicable, Red, Unknown, Yellow};

/// Puts a VIP on lo, as `bind: lo` does.
fn bind_held(facts: &mut Facts) {
    facts.bound.read_mut().push(bound(1, "192.0.2.10/32", "vipward"));
}

/// Puts the VIP of another node on lo.
fn bind_foreign(facts: &mut Facts) {
    facts.bound.read_mut().push(bound(1, "192.0.2.11/32", "lo"));
}

/// Puts the VIP of this node on eth0, as another program does, and another node's VIP on lo.
fn bind_by_hand_and_foreign(facts: &mut Facts) {
    facts.bound.read_mut().push(bound(2, "192.0.2.10/32", "eth0"));
    bind_foreign(facts);
}

fn ipvs(facts: &mut Facts) {
    add(facts.view(), 6, "kube-ipvs0", |it| (it.kind, it.up) = ("dummy".to_owned(), false));
    facts.bound.read_mut().push(bound(6, "192.0.2.11/32", "kube-ipvs0"));
}

/// Adds a second interface, without the program.
fn second_interface(facts: &mut Facts, arp_ignore: u8) {
    add(facts.view(), 3, "eth1.5", |it| it.addresses = vec!["198.51.100.2/24".parse().expect("a subnet")]);
    facts.nics.insert(3, Nic { conf: Read(Conf { arp_ignore, ..super::conf() }), ..nic() });
}

fn conf(facts: &mut Facts, change: impl Fn(&mut Conf)) {
    change(facts.conf_all.read_mut());
    change(facts.nic_mut().conf.read_mut());
}

#[test]
fn kube_proxy_and_how_it_serves() {
    assert_rows(
        None,
        &[
            ("no kube-proxy", |_| {}, "kube-proxy", NotApplicable, &["does not run here"], &[]),
            ("IPVS", ipvs, "kube-proxy", Green, &["IPVS", "kube-ipvs0"], &[]),
            (
                "iptables",
                |it| it.processes.read_mut().push(process(9, "kube-proxy", "kube-proxy")),
                "kube-proxy",
                Green,
                &["iptables or nftables"],
                &[],
            ),
            (
                "perhaps outside of this PID namespace",
                |it| it.sees_all_processes = Read(false),
                "kube-proxy",
                Unknown,
                &["none is seen", "PID namespace"],
                &["hostPID: true"],
            ),
            (
                "IPVS, whatever runs where",
                |it| {
                    ipvs(it);
                    it.sees_all_processes = Read(false);
                },
                "kube-proxy",
                Green,
                &["IPVS"],
                &[],
            ),
            (
                "no /proc",
                |it| it.processes = Fact::failed("no /proc"),
                "kube-proxy",
                Unknown,
                &["no /proc"],
                &[],
            ),
        ],
    );
}

#[test]
fn vips_that_other_programs_and_people_add_to_interfaces() {
    assert_rows(
        None,
        &[
            (
                "another node's is added with the segment's prefix",
                |it| it.bound.read_mut().push(bound(2, "192.0.2.11/24", "eth0")),
                "bound-elsewhere",
                Yellow,
                &["192.0.2.11/24 on eth0"],
                &["192.0.2.11 is this host's own address: choose another VIP"],
            ),
            (
                "this node's is added by hand",
                |it| it.bound.read_mut().push(bound(2, "192.0.2.10/24", "eth0")),
                "bound-elsewhere",
                Yellow,
                &["192.0.2.10/24 on eth0", "has not put it there"],
                &["192.0.2.10 is this host's own address: choose another VIP"],
            ),
            (
                "this node's is another program's, as /32",
                |it| it.bound.read_mut().push(bound(2, "192.0.2.10/32", "eth0")),
                "bound-elsewhere",
                Yellow,
                &["192.0.2.10/32 on eth0"],
                &["ip address del 192.0.2.10/32 dev eth0"],
            ),
            (
                "this node's is on lo, for local delivery",
                |it| it.bound.read_mut().push(bound(1, "192.0.2.10/32", "lo")),
                "bound-elsewhere",
                Green,
                &[],
                &[],
            ),
        ],
    );
}

#[test]
fn vips_as_addresses_of_this_host() {
    assert_rows(
        None,
        &[
            ("none bound", |_| {}, "bound-elsewhere", Green, &[], &[]),
            ("this node's VIP is bound", bind_held, "bound-elsewhere", Green, &[], &[]),
            (
                "another node's is bound",
                bind_foreign,
                "bound-elsewhere",
                Yellow,
                &["192.0.2.11/32 on lo"],
                &["have that program remove it"],
            ),
            ("IPVS binds all", ipvs, "bound-elsewhere", Green, &[], &[]),
            (
                "left by an agent that was unloaded",
                |it| {
                    bind_held(it);
                    it.plane = Read(None);
                },
                "bound-elsewhere",
                Red,
                &["192.0.2.10/32 on lo", "the kernel answers"],
                &["vipward unload"],
            ),
            (
                "nothing bound and nothing pinned",
                |it| it.plane = Read(None),
                "bound-elsewhere",
                NotApplicable,
                &[],
                &[],
            ),
            ("no labels", |_| {}, "labelled-addresses", Green, &[], &[]),
            ("our label", bind_held, "labelled-addresses", Green, &[], &[]),
            (
                "another program's label",
                |it| it.bound.read_mut().push(bound(2, "192.0.2.50/32", "eth0:vip")),
                "labelled-addresses",
                Yellow,
                &["192.0.2.50/32 on eth0 (eth0:vip)"],
                &["keepalived"],
            ),
            ("no VIP is an address", |_| {}, "arp-ignore", NotApplicable, &[], &[]),
            ("the program is everywhere", bind_held, "arp-ignore", Green, &[], &[]),
            (
                "the kernel answers elsewhere",
                |it| {
                    bind_held(it);
                    second_interface(it, 0);
                },
                "arp-ignore",
                Yellow,
                &["192.0.2.10/32 on lo", "on eth1.5"],
                &["net.ipv4.conf.eth1/5.arp_ignore=1"],
            ),
            (
                "the program is there, and has no entry of it",
                |it| {
                    bind_held(it);
                    it.pinned().contents.read_mut().entries.clear();
                },
                "arp-ignore",
                Yellow,
                &["on eth0"],
                &["net.ipv4.conf.eth0.arp_ignore=1"],
            ),
            (
                "the sysctl forbids it",
                |it| {
                    bind_held(it);
                    second_interface(it, 1);
                },
                "arp-ignore",
                Green,
                &[],
                &[],
            ),
        ],
    );
}

#[test]
fn what_cannot_be_read_of_one_interface_or_address_hides_no_fault_of_another() {
    assert_rows(
        None,
        &[
            (
                "the setting cannot be read",
                |it| {
                    bind_held(it);
                    second_interface(it, 0);
                    it.nics.get_mut(&3).expect("there").conf = Fact::failed("gone");
                },
                "arp-ignore",
                Unknown,
                &["gone"],
                &[],
            ),
            (
                "the setting cannot be read, and the kernel answers on another interface",
                |it| {
                    bind_held(it);
                    second_interface(it, 0);
                    it.nic_mut().conf = Fact::failed("gone");
                },
                "arp-ignore",
                Yellow,
                &["on eth1.5"],
                &["net.ipv4.conf.eth1/5.arp_ignore=1"],
            ),
            (
                "a link cannot be read, and another node's is bound",
                |it| {
                    bind_by_hand_and_foreign(it);
                    it.pinned().links[0].ids = Fact::failed("gone");
                },
                "bound-elsewhere",
                Yellow,
                &["192.0.2.11/32 on lo"],
                &["have that program remove it"],
            ),
            (
                "a link cannot be read, which the fault depends on",
                |it| {
                    it.bound.read_mut().push(bound(2, "192.0.2.10/32", "eth0"));
                    it.pinned().links[0].ids = Fact::failed("gone");
                },
                "bound-elsewhere",
                Unknown,
                &["gone"],
                &[],
            ),
        ],
    );
}

#[test]
fn what_the_kernel_asks_and_drops_on_an_interface() {
    assert_rows(
        Some("eth0"),
        &[
            ("best", |_| {}, "arp-announce", Green, &["2"], &[]),
            (
                "any, and no VIP bound",
                |it| conf(it, |conf| conf.arp_announce = 0),
                "arp-announce",
                NotApplicable,
                &["no VIP is an address"],
                &[],
            ),
            (
                "any, and a VIP bound",
                |it| {
                    bind_held(it);
                    conf(it, |conf| conf.arp_announce = 0);
                },
                "arp-announce",
                Yellow,
                &["192.0.2.10/32 on lo", "are claims"],
                &["sysctl -w net.ipv4.conf.eth0.arp_announce=2"],
            ),
            (
                "any here, best for all",
                |it| {
                    bind_held(it);
                    it.nic_mut().conf.read_mut().arp_announce = 0;
                },
                "arp-announce",
                Green,
                &[],
                &[],
            ),
            ("loose", |_| {}, "rp-filter", Green, &["not strict"], &[]),
            (
                "strict, alone",
                |it| conf(it, |conf| conf.rp_filter = 1),
                "rp-filter",
                Green,
                &["one interface"],
                &[],
            ),
            (
                "strict, and two ways out",
                |it| {
                    second_interface(it, 1);
                    conf(it, |conf| conf.rp_filter = 1);
                },
                "rp-filter",
                Yellow,
                &["eth1.5", "dropped"],
                &["sysctl -w net.ipv4.conf.eth0.rp_filter=2"],
            ),
            (
                "not read",
                |it| {
                    it.nic_mut().conf = Fact::failed("gone");
                },
                "rp-filter",
                Unknown,
                &["gone"],
                &[],
            ),
        ],
    );
}
