//! Cost of the program per frame, against programs that do nothing.

use anyhow::{Result, ensure};
use bytemuck::bytes_of;
use vipward_common::{ArpFrame, MacAddr, OPER_REQUEST};

use super::Effort;
use super::report::{Group, Item, Limit, Report, Unit};
use super::stage::{FIRST_ASKER, FIRST_VIP, Object};
use super::stats::Samples;
use super::table::Ask;
use vipward_tests::arp::MIN_FRAME_LEN;

/// The interface that frames of a test run are said to come from: lo.
const IFINDEX: u32 = 1;
const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const ASKER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const VIPS: u32 = 65_536;
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
/// `TC_ACT_UNSPEC`, and `TC_ACT_REDIRECT`.
const TC_NEXT: u32 = u32::MAX;
const TC_REDIRECT: u32 = 7;

const EMPTY: &str = "empty XDP_PASS";
const BARE: &str = "bare XDP_TX";
const EMPTY_TC: &str = "empty tc program";
const STORE_TC: &str = "storing a request";

/// A program and a frame, what must come of it, and what it is compared with.
struct Subject {
    name: &'static str,
    program: &'static str,
    frame: [u8; MIN_FRAME_LEN],
    action: u32,
    /// VIPs and askers of the programs that write their own request.
    ask: (u32, u32),
    /// A subject before this one, and the bar for the difference.
    over: &'static [(usize, &'static str, Option<f64>)],
}

pub(super) fn measure(effort: &Effort, report: &mut Report) -> Result<()> {
    let (repetitions, repeat) = effort.cost;
    let mut object = Object::load()?;
    object.tables.hold(IFINDEX, OWN, FIRST_VIP, VIPS)?;
    let subjects = subjects();

    let mut taken = vec![Vec::new(); subjects.len()];
    for _ in 0..repetitions {
        for (subject, taken) in subjects.iter().zip(&mut taken) {
            let (vips, askers) = subject.ask;
            let intruders = None;
            object.tables.ask(Ask {
                mac: ASKER,
                spa: FIRST_ASKER,
                tpa: FIRST_VIP,
                vips,
                askers,
                intruders,
            })?;
            let (action, nanoseconds) = object.test_run(subject.program, &subject.frame, repeat)?;
            ensure!(
                action == subject.action,
                "{} returned {action}, not {}: something else would be measured",
                subject.name,
                subject.action
            );
            taken.push(nanoseconds);
        }
    }
    for (subject, own) in subjects.iter().zip(&taken) {
        let samples = own.iter().copied().collect();
        let mut item = Item::new(Group::Cost, subject.name, Unit::Nanoseconds, &samples);
        for (baseline, name, limit) in subject.over {
            let differences: Samples =
                own.iter().zip(&taken[*baseline]).map(|(own, base)| own - base).collect();
            item = item.over(name, &differences, limit.map(Limit::AtMost));
        }
        report.push(item);
    }
    Ok(())
}

fn subjects() -> Vec<Subject> {
    /// Places in the list, for those that are compared with them.
    const PASS: usize = 0;
    const WRITE_TX: usize = 2;
    const UNIFORM_WRITE_TX: usize = 3;
    const PASS_TC: usize = 4;
    const WRITE_TC: usize = 5;

    let ipv4 = {
        let mut frame = [0; MIN_FRAME_LEN];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame
    };
    let stranger = [192, 0, 2, 1];
    // The kernel reads the EtherType of a socket buffer before the program runs.
    let ask = request(FIRST_ASKER, FIRST_VIP);
    let subject =
        |name, program, frame, action, over| Subject { name, program, frame, action, ask: (1, 1), over };
    let uniform = |subject: Subject| Subject { ask: (VIPS, VIPS), ..subject };
    let blank = [0; MIN_FRAME_LEN];
    vec![
        subject("empty XDP_PASS program", "bench_pass", ipv4, XDP_PASS, &[]),
        subject("bare XDP_TX program", "bench_tx", ipv4, XDP_TX, &[]),
        subject("the same, writing the request first", "bench_write_tx", blank, XDP_TX, &[]),
        uniform(subject("the same, asking for every VIP in turn", "bench_write_tx", blank, XDP_TX, &[])),
        subject("empty tc program", "bench_pass_tc", ipv4, TC_NEXT, &[]),
        subject("tc program that stores a request", "bench_write_tc", ask, TC_NEXT, &[]),
        subject("not ARP", "vipward", ipv4, XDP_PASS, &[(PASS, EMPTY, Some(1.0))]),
        subject("ARP, no VIP", "vipward", request(FIRST_ASKER, stranger), XDP_PASS, &[(PASS, EMPTY, None)]),
        subject("conflict", "vipward", request(FIRST_VIP, FIRST_VIP), XDP_DROP, &[(PASS, EMPTY, None)]),
        subject("not ARP, tc", "vipward_tc", ipv4, TC_NEXT, &[(PASS_TC, EMPTY_TC, Some(25.0))]),
        subject(
            "ARP, no VIP, tc",
            "vipward_tc",
            request(FIRST_ASKER, stranger),
            TC_NEXT,
            &[(PASS_TC, EMPTY_TC, None)],
        ),
        subject("hit, one VIP, tc", "bench_answer_tc", ask, TC_REDIRECT, &[(WRITE_TC, STORE_TC, None)]),
        subject("hit, one VIP", "bench_answer", blank, XDP_TX, &[(WRITE_TX, BARE, Some(20.0))]),
        uniform(subject(
            "hit, every VIP in turn, 65,536 askers",
            "bench_answer",
            blank,
            XDP_TX,
            &[(UNIFORM_WRITE_TX, BARE, None)],
        )),
    ]
}

fn request(spa: [u8; 4], tpa: [u8; 4]) -> [u8; MIN_FRAME_LEN] {
    let arp = ArpFrame::new(MacAddr::BROADCAST, ASKER, OPER_REQUEST, ASKER, spa, MacAddr::ZERO, tpa);
    let mut frame = [0; MIN_FRAME_LEN];
    frame[..size_of::<ArpFrame>()].copy_from_slice(bytes_of(&arp));
    frame
}
