use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use super::*;
use crate::shell::{kernel::netlink::Netlink, testing::in_network};

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));

async fn view() -> NetView {
    Netlink::connect().expect("a subscription").observe().await.expect("a view")
}

fn is_local(vip: IpAddr) -> bool {
    UdpSocket::bind((vip, 0)).is_ok()
}

#[test]
fn a_vip_is_bound_found_again_and_removed_and_each_can_be_repeated() {
    in_network(|lan| async move {
        lan.up("lo").await;
        let view = view().await;
        assert!(!is_local(VIP));
        for _ in 0..2 {
            add(&view, "lo", VIP).await.expect("bound");
            assert!(is_local(VIP));
            let expected = BTreeSet::from([("lo".to_owned(), VIP)]);
            assert_eq!(observe_binds(&view).await.expect("observed"), expected);
        }
        for _ in 0..2 {
            remove(&view, "lo", VIP).expect("removed");
            assert!(!is_local(VIP));
            assert!(observe_binds(&view).await.expect("observed").is_empty());
        }
    });
}

#[test]
fn another_address_is_neither_taken_over_nor_removed() {
    in_network(|lan| async move {
        lan.up("lo").await;
        lan.address("lo", "192.0.2.10/32").await;
        lan.veth("v0", "v1").await;
        lan.up("v0").await;
        lan.address("v0", "192.0.2.2/24").await;
        let view = view().await;
        let error = add(&view, "lo", VIP).await.expect_err("it is of another program");
        assert_eq!(
            error.to_string(),
            "192.0.2.10/32 is on lo already, and Vipward did not bind it (its label is not \"vipward\"): drop `bind` \
             for it; or choose another VIP; if another program has put 192.0.2.10 there, have that program \
             remove it"
        );
        remove(&view, "lo", VIP).expect("nothing of Vipward's to remove");
        assert!(is_local(VIP), "the other address is still there");
        assert!(observe_binds(&view).await.expect("observed").is_empty());
    });
}

#[test]
fn binding_to_an_interface_that_is_missing_or_gone_says_so() {
    in_network(|lan| async move {
        lan.veth("v0", "v1").await;
        let view = view().await;
        let error = add(&view, "eth7", VIP).await.expect_err("no eth7");
        assert_eq!(error.to_string(), "cannot bind 192.0.2.10 to eth7: there is no such interface");
        remove(&view, "eth7", VIP).expect("nothing to remove");

        add(&view, "v0", VIP).await.expect("bound");
        lan.delete("v0").await;
        remove(&view, "v0", VIP).expect("gone with the interface");
        let error = add(&view, "v0", VIP).await.expect_err("gone since the view was taken");
        assert_eq!(error.to_string(), "failed to bind 192.0.2.10 to v0");
        assert!(matches!(error, BindError::Add { source, .. } if source.refusal() == Some(libc::ENODEV)));
    });
}

#[test]
fn arp_announce_is_warned_about_until_all_or_the_interface_says_2() {
    in_network(|lan| async move {
        lan.veth("v0.7", "v1").await;
        let set = |conf: &str, value: &str| {
            std::fs::write(Path::new(CONF).join(conf).join("arp_announce"), value).expect("set");
        };
        set("all", "0");
        set("v0.7", "1");
        let warning = check_arp_announce("v0.7").expect("a warning");
        assert_eq!(
            warning.to_string(),
            "arp_announce is 1 on v0.7: the kernel may send ARP requests there with a bound VIP as sender; set it \
             to 2: sysctl -w net.ipv4.conf.v0/7.arp_announce=2 (or net.ipv4.conf.all.arp_announce=2 for all \
             interfaces)"
        );
        set("v0.7", "2");
        assert_eq!(check_arp_announce("v0.7"), None);
        set("v0.7", "0");
        set("all", "2");
        assert_eq!(check_arp_announce("v0.7"), None);
        assert_eq!(check_arp_announce("gone"), None);
    });
}
