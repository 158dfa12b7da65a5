use std::{vec, vec::Vec};

use proptest::prelude::*;

use super::*;

const VIP_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OUR: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const ASKER: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
const FORGED: MacAddr = MacAddr([2, 0, 0, 0, 0, 4]);

/// RFC 826's example, in wire order.
const REQUEST: [u8; FRAME_LEN] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // destination
    2, 0, 0, 0, 0, 3, // source
    0x08, 0x06, // EtherType
    0, 1, 8, 0, 6, 4, // htype, ptype, hlen, plen
    0, 1, // oper
    2, 0, 0, 0, 0, 3, 192, 0, 2, 99, // sha, spa
    0, 0, 0, 0, 0, 0, 192, 0, 2, 10, // tha, tpa
];

fn bytes(frame: &ArpFrame) -> &[u8] {
    bytemuck::bytes_of(frame)
}

#[test]
fn a_new_frame_has_every_field_in_its_place() {
    let dst = MacAddr::BROADCAST;
    let new = ArpFrame::new(dst, ASKER, OPER_REQUEST, ASKER, [192, 0, 2, 99], MacAddr::ZERO, [192, 0, 2, 10]);
    assert_eq!(bytes(&new), REQUEST);
    assert_eq!((new.oper(), new.spa(), new.tpa()), (1, [192, 0, 2, 99], [192, 0, 2, 10]));
    assert!(new.is_arp() && new.is_ethernet_ipv4() && new.is_request());
}

#[test]
fn any_other_byte_in_the_header_makes_it_another_frame() {
    for at in 12..22 {
        for value in 0..=u8::MAX {
            let mut frame = REQUEST;
            frame[at] = value;
            let frame: ArpFrame = bytemuck::pod_read_unaligned(&frame);
            let unchanged = value == REQUEST[at];
            let is_reply = at == 21 && value == 2;
            let is_ieee_802 = at == 15 && value == 6;
            let looked_at = frame.is_arp() && frame.is_ethernet_ipv4();
            assert_eq!(looked_at, unchanged || is_reply || is_ieee_802, "byte {at} = {value}");
        }
    }
}

#[test]
fn a_reply_is_written_byte_by_byte_as_rfc_826_says() {
    let expected: [&[u8]; 8] = [
        &[2, 0, 0, 0, 0, 3],       // to sha, whatever the Ethernet source was
        &[2, 0, 0, 0, 0, 2],       // from us
        &[8, 6, 0, 1, 8, 0, 6, 4], // the header, with Ethernet's htype
        &[0, 2],                   // a reply
        &[2, 0, 0, 0, 0, 1],       // sha
        &[192, 0, 2, 10],          // spa
        &[2, 0, 0, 0, 0, 3],       // tha
        &[192, 0, 2, 99],          // tpa
    ];
    for htype in [1, 6] {
        let mut frame = REQUEST;
        frame[15] = htype;
        let mut frame: ArpFrame = bytemuck::pod_read_unaligned(&frame);
        frame.src = FORGED;
        frame.turn_into_reply(VIP_MAC, OUR);
        assert_eq!(bytes(&frame), expected.concat(), "htype {htype}");
    }
}

proptest! {
    #[test]
    fn a_reply_to_any_request_swaps_who_asks_and_what_is_asked_for(
        frame in proptest::collection::vec(any::<u8>(), FRAME_LEN),
        mac: [u8; 6],
        source: [u8; 6],
    ) {
        let before: ArpFrame = bytemuck::pod_read_unaligned(&frame);
        let mut after = before;
        after.turn_into_reply(MacAddr(mac), MacAddr(source));
        let (sha, spa, tpa) = (&frame[22..28], &frame[28..32], &frame[38..42]);
        let parts: Vec<&[u8]> =
            vec![sha, &source, &frame[12..14], &[0, 1], &frame[16..20], &[0, 2], &mac, tpa, sha, spa];
        prop_assert_eq!(bytes(&after), parts.concat());
        prop_assert_eq!((after.spa(), after.tpa()), (before.tpa(), before.spa()));
    }

    #[test]
    fn an_announcement_in_the_place_of_any_claim_is_a_gratuitous_request(
        frame in proptest::collection::vec(any::<u8>(), FRAME_LEN),
        mac: [u8; 6],
    ) {
        let mut announcement: ArpFrame = bytemuck::pod_read_unaligned(&frame);
        announcement.turn_into_announcement(MacAddr(mac));
        let (broadcast, vip) = ([0xff; 6], &frame[28..32]);
        let parts: Vec<&[u8]> =
            vec![&broadcast, &mac, &frame[12..14], &[0, 1], &frame[16..20], &[0, 1], &mac, vip, &[0; 6], vip];
        prop_assert_eq!(bytes(&announcement), parts.concat());
    }
}

#[test]
fn a_question_says_what_a_frame_claims_and_asks() {
    let (host, vip, none) = ([192, 0, 2, 99], [192, 0, 2, 10], [0; 4]);
    // oper, spa, tpa; asked, announces, a probe, gratuitous
    let rows = [
        ("a request", 1, host, vip, Some(vip), false, false, false),
        ("a reply", 2, vip, host, None, true, false, false),
        ("a gratuitous request", 1, vip, vip, Some(vip), true, false, true),
        ("a gratuitous reply", 2, vip, vip, None, true, false, true),
        ("a probe", 1, none, vip, Some(vip), false, true, false),
    ];
    for (what, oper, spa, tpa, asked, announces, is_probe, is_gratuitous) in rows {
        for (dst, reach) in [(MacAddr::BROADCAST, Reach::All), (OUR, Reach::One)] {
            let frame = ArpFrame::new(dst, FORGED, oper, ASKER, spa, MacAddr::ZERO, tpa);
            let question: &dyn Question<Addr = [u8; 4]> = &frame;
            let names = (question.dst(), question.src(), question.sender(), question.oper());
            assert_eq!(names, (dst, FORGED, ASKER, oper), "{what}");
            let addresses = (question.claimed(), question.asked(), question.probed());
            assert_eq!(addresses, (spa, asked, is_probe.then_some(vip)), "{what}");
            let form = (question.announces(), question.is_gratuitous(), question.reach());
            assert_eq!(form, (announces, is_gratuitous, reach), "{what}");
        }
    }
}
