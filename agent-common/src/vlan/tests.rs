use super::*;

#[test]
fn a_tag_is_its_id_and_its_kind_and_not_its_priority() {
    let rows = [
        ("a customer tag", ETHERTYPE_8021Q, 7, (7, 7, false)),
        ("with a priority", ETHERTYPE_8021Q, 0xf007, (7, 7, false)),
        ("the largest", ETHERTYPE_8021Q, 0xffff, (4_095, 4_095, false)),
        ("a service tag", ETHERTYPE_8021AD, 0x6007, (0x8007, 7, true)),
        ("a priority alone", ETHERTYPE_8021Q, 0xe000, (0, 0, false)),
        ("a service priority alone", ETHERTYPE_8021AD, 0xe000, (0, 0, false)),
    ];
    for (what, ethertype, tci, (word, id, service)) in rows {
        let tag = VlanTag::new(ethertype, tci);
        assert_eq!((tag.0, tag.id(), tag.is_service()), (word, id, service), "{what}");
        assert_eq!(VlanTag::is_priority(tci), id == 0, "{what}");
    }
}

#[test]
fn tags_of_vlan_0_are_left_out_of_the_key() {
    let (seven, nine) = (VlanTag::new(ETHERTYPE_8021AD, 7), VlanTag::new(ETHERTYPE_8021Q, 9));
    let key = |tags: &[VlanTag]| {
        let tags = tags.iter().fold(VlanTags::NONE, |tags, tag| tags.then(*tag));
        (tags.is_empty(), VlanKey::new(3, tags))
    };
    let expected = |outer, inner| VlanKey { ifindex: 3, outer, inner };
    assert_eq!(key(&[]), (true, expected(0, 0)));
    assert_eq!(key(&[VlanTag::NONE, VlanTag::NONE]), (true, expected(0, 0)));
    assert_eq!(key(&[seven]), (false, expected(0x8007, 0)));
    assert_eq!(key(&[VlanTag::NONE, seven]), (false, expected(0x8007, 0)));
    assert_eq!(key(&[seven, VlanTag::NONE]), (false, expected(0x8007, 0)));
    assert_eq!(key(&[seven, nine]), (false, expected(0x8007, 9)));
    assert_eq!(key(&[nine, seven]), (false, expected(9, 0x8007)));
}
