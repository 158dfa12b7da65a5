use super::*;
use crate::services::Annotations;

fn why(name: &str, metallb: bool) -> Option<String> {
    let recorded = recorded([name].into_iter(), Annotations::NAMES);
    let [name] = &recorded[..] else { return None };
    Ineffective::of(name, Annotations::NAMES, metallb).map(|why| why.to_string())
}

/// Most of them were found in the reports of users.
#[test]
fn an_unknown_annotation_is_answered_with_the_nearest_known_one() {
    let table = [
        ("Pool", Some("pool")),
        ("ADDRESSES", Some("addresses")),
        ("address", Some("addresses")),
        ("adresses", Some("addresses")),
        ("adress", Some("addresses")),
        ("addreses", Some("addresses")),
        ("load-balancer-ips", Some("addresses")),
        ("loadBalancerIPs", Some("addresses")),
        ("ip", Some("addresses")),
        ("vip", Some("addresses")),
        ("node", Some("nodes")),
        ("node-selector", Some("nodes")),
        ("prefered-nodes", Some("preferred-nodes")),
        ("preferred", Some("preferred-nodes")),
        ("interfaces", Some("interface")),
        ("address-pool", Some("pool")),
        ("pools", Some("pool")),
        ("ignored", Some("ignore")),
        ("togehter", Some("together")),
        ("sharing-key", Some("share")),
        ("allow-shared-ip", Some("share")),
        ("share_with", Some("share-with")),
        ("moveTo", Some("move-to")),
        ("Force", Some("force")),
        ("weight", None),
        ("x", None),
        ("", None),
    ];
    for (wrong, right) in table {
        let why = why(&format!("vipward.io/{wrong}"), false).expect("it has no effect");
        match right {
            Some(right) => {
                assert_eq!(why, format!("it is unknown; the nearest known one is vipward.io/{right}"));
            }
            None => {
                assert!(why.contains("take one of vipward.io/addresses, vipward.io/pool"), "{wrong}: {why}");
            }
        }
    }
    let why = why("Vipward.IO/addresses", false).expect("the API server takes such a prefix");
    assert!(why.ends_with("vipward.io/addresses"), "{why}");
}

#[test]
fn an_annotation_of_another_object_or_balancer_is_answered_with_its_place_or_with_vipwards_own() {
    let table = [
        ("vipward.io/force", Some("virtualip NAME vipward.io/force=true"), Some("VirtualIP")),
        ("vipward.io/move-to", Some("virtualip NAME vipward.io/move-to=NODE"), Some("VirtualIP")),
        ("vipward.io/release", Some("virtualip NAME vipward.io/release=true"), Some("VirtualIP")),
        ("vipward.io/share-with", Some("annotate namespace NAME"), Some("Namespace")),
        ("vipward.io/l2", Some("spec.loadBalancerClass"), Some("class")),
        ("metallb.universe.tf/loadBalancerIPs", Some("set vipward.io/addresses instead, or start"), None),
        ("metallb.universe.tf/address-pool", Some("--metallb"), None),
        ("metallb.universe.tf/allow-shared-ip", Some("--metallb"), None),
        ("metallb.io/allow-shared-ip", Some("set vipward.io/share instead, or start"), None),
        ("metallb.io/loadBalancerIPs", None, None),
        ("metallb.io/address-pool", None, None),
        ("metallb.io/ip-allocated-from-pool", None, None),
        ("lbipam.cilium.io/ips", Some("it is Cilium's"), Some("set vipward.io/addresses instead")),
        ("io.cilium/lb-ipam-ips", Some("vipward.io/addresses"), Some("vipward.io/addresses")),
        ("lbipam.cilium.io/sharing-key", Some("vipward.io/share"), Some("vipward.io/share")),
        ("kube-vip.io/loadbalancerIPs", None, None),
        ("kube-vip.io/ignore", None, None),
        ("kube-vip.io/vipHost", None, None),
        ("kube-vip.io/serviceInterface", Some("vipward.io/interface"), Some("vipward.io/interface")),
        ("kube-vip.io/loadbalancerHostname", Some("nothing like it"), Some("nothing like it")),
        ("purelb.io/service-group", Some("vipward.io/pool"), Some("vipward.io/pool")),
        ("eip.openelb.kubesphere.io/v1alpha2", Some("vipward.io/pool"), Some("vipward.io/pool")),
        ("example.org/addresses", None, None),
        ("vipward.io", None, None),
    ];
    for (name, alone, with_metallb) in table {
        for (expected, metallb) in [(alone, false), (with_metallb, true)] {
            let why = why(name, metallb);
            assert_eq!(why.is_some(), expected.is_some(), "{name}, --metallb {metallb}: {why:?}");
            let (why, expected) = (why.unwrap_or_default(), expected.unwrap_or_default());
            assert!(why.contains(expected), "{name}, --metallb {metallb}: {why}");
        }
    }
}

#[test]
fn each_known_annotation_and_each_place_for_another_is_known() {
    for name in Annotations::NAMES {
        let is_read_always = why(name, false).is_none();
        assert_eq!(is_read_always, *name != "metallb.io/allow-shared-ip", "{name}");
        assert_eq!(why(name, true), None, "{name}");
    }
    for Foreign { annotation, instead, .. } in FOREIGN {
        match instead {
            Instead::Ours(ours) | Instead::OursOrMetallb(ours) => {
                assert!(Annotations::NAMES.contains(ours), "{annotation}: {ours}");
            }
            Instead::Nothing => {}
        }
    }
}

/// The API server allows annotations of 256 KiB in all.
#[test]
fn of_ten_thousand_annotations_the_first_are_recorded_and_of_a_long_name_its_beginning() {
    let names: Vec<_> =
        (0..10_000).map(|number| format!("vipward.io/{number:04}{}", "ä".repeat(300))).collect();
    let recorded = recorded(names.iter().map(String::as_str), Annotations::NAMES);
    assert_eq!((recorded.len(), recorded.capacity()), (MOST, MOST));
    for (recorded, name) in recorded.iter().zip(&names) {
        assert!(name.starts_with(&**recorded) && recorded.len() <= LONGEST, "{recorded}");
    }
}
