use super::*;

#[test]
fn an_object_that_is_gone_is_forgotten_and_one_of_its_name_is_reported_anew() {
    let object = |of: MetalLb, uid| of.object("metallb-system", "lan", uid);
    let (pool, peer) = (object(MetalLb::IpAddressPools, "1"), object(MetalLb::BgpPeers, "2"));
    let mut foreign = Foreign::default();
    assert!(!foreign.put(&pool, None), "no problem");
    assert!(foreign.put(&pool, Some("bad")) && !foreign.put(&pool, Some("bad")));
    assert!(foreign.put(&pool, Some("worse")) && foreign.put(&peer, Some("not served")));
    foreign.remove(&object(MetalLb::IpAddressPools, ""));
    assert_eq!(foreign.0.keys().collect::<Vec<_>>(), [&peer], "another kind stays");
    assert!(foreign.put(&pool, Some("worse")));
    assert!(foreign.put(&pool, None), "it is over");
}
