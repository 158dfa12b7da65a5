//! Cost of the program per frame, against programs that do nothing.

use anyhow::{Result, ensure};
use vipward_common::MacAddr;

use super::effort::Effort;
use crate::{
    report::{Group, Item, Limit, Report, Samples, Unit},
    stage::{Ask, Crowd, Family, Object, echo, forged, ping},
};
use vipward_tests::frames::MIN_FRAME_LEN;

/// The interface that frames of a test run come from by their metadata: lo.
const IFINDEX: u32 = 1;
const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const ASKER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const VIPS: u32 = 65_536;
const XDP_DROP: u32 = 1;
pub(crate) const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
/// `TC_ACT_UNSPEC`, `TC_ACT_SHOT`, and `TC_ACT_REDIRECT`.
pub(crate) const TC_NEXT: u32 = u32::MAX;
const TC_DROP: u32 = 2;
const TC_REDIRECT: u32 = 7;

const EMPTY: &str = "empty XDP_PASS";
const BARE: &str = "bare XDP_TX";
const EMPTY_TC: &str = "empty tc program";
const STORE_TC: &str = "storing a request";

/// A program and a frame, what must come of it, and what it is compared with.
struct Subject {
    name: String,
    program: &'static str,
    frame: Vec<u8>,
    action: u32,
    /// The requests of the programs that write their own.
    crowd: Crowd,
    /// A subject before this one, and the bar for the difference.
    over: Option<(usize, &'static str, Option<f64>)>,
}

pub(super) fn measure(effort: &Effort, report: &mut Report) -> Result<()> {
    let (repetitions, repeat) = effort.cost;
    let mut object = Object::load()?;
    let mut traffic = object.traffic()?;
    for family in Family::ALL {
        object.tables.hold(IFINDEX, OWN, family, VIPS)?;
    }
    object.receive_pings(IFINDEX, OWN)?;
    let subjects = subjects();

    let mut taken = vec![Vec::new(); subjects.len()];
    for _ in 0..repetitions {
        for (subject, taken) in subjects.iter().zip(&mut taken) {
            traffic.ask(Ask { mac: ASKER, crowd: subject.crowd, intruders: None })?;
            let (action, nanoseconds) = object.test_run(subject.program, &subject.frame, repeat)?;
            ensure!(
                action == subject.action,
                "{}: {} returned {action}, not {}: something else would be measured",
                subject.name,
                subject.program,
                subject.action
            );
            taken.push(nanoseconds);
        }
    }
    for (subject, own) in subjects.iter().zip(&taken) {
        let samples = own.iter().copied().collect();
        let mut item = Item::new(Group::Cost, &subject.name, Unit::Nanoseconds, &samples);
        if let Some((baseline, name, limit)) = subject.over {
            let differences: Samples =
                own.iter().zip(&taken[baseline]).map(|(own, base)| own - base).collect();
            item = item.over(name, &differences, limit.map(Limit::AtMost));
        }
        report.push(item);
    }
    Ok(())
}

/// Returns a frame that is neither ARP nor neighbour discovery: an empty one of IPv4, or a segment of
/// TCP over IPv6.
pub(crate) fn other(family: Family) -> Vec<u8> {
    let mut frame = vec![0; MIN_FRAME_LEN];
    match family {
        Family::V4 => frame[12..14].copy_from_slice(&[0x08, 0x00]),
        Family::V6 => {
            frame.resize(74, 0);
            frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
            frame[20] = 6;
        }
    }
    frame
}

fn subjects() -> Vec<Subject> {
    /// Places in the list, for those that are compared with them.
    const PASS: usize = 0;
    const PASS_TC: usize = 1;

    let bare = |name: &str, program, frame, action, crowd| Subject {
        name: name.to_owned(),
        program,
        frame,
        action,
        crowd,
        over: None,
    };
    let one = Crowd { family: Family::V4, vips: 1, askers: 1 };
    let mut subjects = vec![
        bare("empty XDP_PASS program", "bench_pass", other(Family::V4), XDP_PASS, one),
        bare("empty tc program", "bench_pass_tc", other(Family::V4), TC_NEXT, one),
        bare("bare XDP_TX program", "bench_tx", other(Family::V4), XDP_TX, one),
    ];
    for family in Family::ALL {
        let (request, elsewhere) = (family.request(ASKER), family.request_elsewhere(ASKER));
        let (one, all) = (Crowd { family, ..one }, Crowd { family, vips: VIPS, askers: VIPS });
        let protocol = family.protocol();
        let (neither, hit_limit) = match family {
            Family::V4 => ("not ARP", Some(20.0)),
            Family::V6 => ("IPv6, not ND", None),
        };
        let over = |name: String, program, frame: &[u8], action, crowd, over| Subject {
            name,
            program,
            frame: frame.to_vec(),
            action,
            crowd,
            over: Some(over),
        };
        // Each request that is written over the frame that was sent is one for the kernel, too, which
        // reads the EtherType of a socket buffer before the program runs.
        let written = subjects.len();
        for (crowd, name) in [(one, "writing a request"), (all, "writing requests for every VIP in turn")] {
            let name = format!("the same, {name}, {protocol}");
            subjects.push(bare(&name, "bench_write_tx", request.clone(), XDP_TX, crowd));
        }
        let name = format!("tc program that stores a request, {protocol}");
        subjects.push(bare(&name, "bench_write_tc", request.clone(), TC_NEXT, one));

        let pass = (PASS, EMPTY, None);
        let pass_tc = (PASS_TC, EMPTY_TC, None);
        let (hit, all_hit, hit_tc) =
            ((written, BARE, hit_limit), (written + 1, BARE, None), (written + 2, STORE_TC, None));
        let claim = family.claim(ASKER);
        subjects.extend([
            over(neither.to_owned(), "vipward", &other(family), XDP_PASS, one, (PASS, EMPTY, Some(1.0))),
            over(format!("{protocol}, no VIP"), "vipward", &elsewhere, XDP_PASS, one, pass),
            over(format!("{protocol}, conflict"), "vipward", &claim, XDP_DROP, one, pass),
            over(format!("{protocol}, hit, one VIP"), "bench_answer", &request, XDP_TX, one, hit),
            over(
                format!("{protocol}, hit, every VIP in turn"),
                "bench_answer",
                &request,
                XDP_TX,
                all,
                all_hit,
            ),
            over(
                format!("{neither}, tc"),
                "vipward_tc",
                &other(family),
                TC_NEXT,
                one,
                (PASS_TC, EMPTY_TC, Some(25.0)),
            ),
            over(format!("{protocol}, no VIP, tc"), "vipward_tc", &elsewhere, TC_NEXT, one, pass_tc),
            over(
                format!("{protocol}, hit, one VIP, tc"),
                "bench_answer_tc",
                &request,
                TC_REDIRECT,
                one,
                hit_tc,
            ),
        ]);
    }
    let written = subjects.len();
    subjects.push(bare("the same, writing a ping", "bench_write_ping", ping(OWN), XDP_TX, one));
    let rows = [
        ("ping answered", "bench_ping", ping(OWN), XDP_TX, (written, BARE, None)),
        ("echo received", "vipward", echo(OWN), XDP_DROP, (PASS, EMPTY, None)),
        ("ping forged", "vipward", forged(OWN), XDP_DROP, (PASS, EMPTY, None)),
        ("ping forged, tc", "vipward_tc", forged(OWN), TC_DROP, (PASS_TC, EMPTY_TC, None)),
    ];
    subjects.extend(rows.map(|(name, program, frame, action, over)| Subject {
        name: name.to_owned(),
        program,
        frame,
        action,
        crowd: one,
        over: Some(over),
    }));
    subjects
}
