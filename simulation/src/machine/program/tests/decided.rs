//! The same frames before this program and the one in the kernel: two readings of one page.

use std::cell::RefCell;

use fastrand::Rng;
use vipward_common::{
    Action, ArpFrame, DeadlineState, Defence, EventKind, LeaseDeadline, MacAddr, Policy, Role, Tables, Vip,
    VipEntry, VipKey, WireState, Yield, decide,
};

use super::{HOLDER, IFINDEX, OTHER_VIP, OWN, PEER, UNKNOWN_HOST, VIP, at, put};
use crate::machine::{
    frame::{Frame, Oper},
    program::{Program, Refuses, receiving::Handled},
};

/// The maps of a program, and what is written there.
struct Kernel<'a> {
    program: &'a Program,
    now_ns: u64,
    notified: RefCell<Vec<(EventKind, MacAddr)>>,
    yielded: RefCell<Vec<(u32, MacAddr)>>,
}

impl Kernel<'_> {
    /// Returns true for a frame of this node that came back. The tables of the program report none.
    fn is_own(&self, question: &ArpFrame) -> bool {
        self.own_mac() == Some(question.sha)
    }
}

impl Tables for Kernel<'_> {
    type Question = ArpFrame;

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn lease_deadline(&self, now_ns: u64) -> DeadlineState {
        self.program.lease_deadline().state(now_ns, WireState { ended: 0, notices: 0 })
    }

    fn may_be_vip(&self, _addr: [u8; 4]) -> bool {
        true
    }

    fn vip(&self, addr: [u8; 4]) -> Option<Vip> {
        let entry = self.program.entry(VipKey::new(IFINDEX, addr))?;
        let VipEntry { mac, generation, role, slot, until_ns } = *entry;
        Some(Vip { mac: MacAddr(mac), generation, role, slot, until_ns })
    }

    fn own_mac(&self) -> Option<MacAddr> {
        self.program.own_macs().get(&IFINDEX).copied()
    }

    fn is_peer(&self, mac: MacAddr) -> bool {
        self.program.peers.contains(&(IFINDEX, mac))
    }

    fn yielded(&self, vip: &Vip) -> Option<MacAddr> {
        if self.program.yields_total() == self.program.lease_deadline().yields_settled {
            return None;
        }
        self.program.record(vip.slot).yielded_to(vip.generation)
    }

    fn yield_to(&self, vip: &Vip, mac: MacAddr) -> bool {
        let is_first = self.program.record(vip.slot).yielded_to(vip.generation).is_none();
        if is_first {
            self.yielded.borrow_mut().push((vip.slot, mac));
        }
        is_first
    }

    fn is_intact(&self) -> bool {
        true
    }

    fn notify(&self, kind: EventKind, vip: &Vip, question: &ArpFrame, _now_ns: u64) {
        if !self.is_own(question) {
            self.notified.borrow_mut().push((kind, vip.mac));
        }
    }

    fn admits_defence(&self, _vip: &Vip, question: &ArpFrame, _now_ns: u64) -> bool {
        self.program.lease_deadline().defence == Defence::Match && !self.is_own(question)
    }
}

fn arp(frame: &Frame) -> ArpFrame {
    let Frame { source, to, oper, sha, spa, tpa } = *frame;
    ArpFrame::new(to, source, oper as u16, sha, spa.octets(), MacAddr::ZERO, tpa.octets())
}

struct Chance(Rng);

impl Chance {
    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0.usize(..choices.len())]
    }

    fn mac(&mut self) -> MacAddr {
        self.of(&[OWN, OWN, HOLDER, PEER, UNKNOWN_HOST, MacAddr::ZERO, MacAddr::BROADCAST])
    }

    fn entry(&mut self, slot: u32) -> VipEntry {
        let role = self.of(&[Role::Held, Role::Handover, Role::Foreign]);
        let until_ns = at(self.of(&[5, 15, 60])).as_nanos();
        // The agent knows the MAC of an entry that answers.
        let unknown = if role == Role::Foreign { MacAddr::ZERO } else { OWN };
        let mac = self.of(&[OWN, HOLDER, PEER, unknown]);
        VipEntry { mac: mac.0, generation: self.of(&[1, 2]), role, slot, until_ns }
    }

    fn program(&mut self) -> Program {
        let mut program = Program::new(None);
        for (vip, slot) in [(VIP, 0), (OTHER_VIP, 1)] {
            if self.0.u8(..8) > 0 {
                let entry = self.entry(slot);
                program.apply(&put(vip, entry), Refuses::default()).expect("nothing is refused");
            }
            let yielded = Yield { mac: PEER.0, generation: self.of(&[0, 0, 1, 2]) };
            program.states.entry(slot).or_default().yielded = yielded;
        }
        program.yields_total = self.of(&[0, 1]);
        if self.0.u8(..8) > 0 {
            program.own_macs.insert(IFINDEX, OWN);
        }
        program.peers = [(IFINDEX, HOLDER), (IFINDEX, PEER)].into();
        program.set_deadline(LeaseDeadline {
            deadline_ns: at(10).as_nanos(),
            grace_until_ns: at(20).as_nanos(),
            yields_settled: self.of(&[0, 1]),
            session: 0,
            notices_settled: 0,
            policy: self.of(&[Policy::Stop, Policy::Hold]),
            defence: self.of(&[Defence::Off, Defence::Match]),
        });
        program
    }

    fn frame(&mut self) -> Frame {
        let sha = self.mac();
        let source = if self.0.bool() { sha } else { self.mac() };
        let to = if self.0.bool() { MacAddr::BROADCAST } else { self.mac() };
        let address = [VIP, OTHER_VIP, [0; 4].into(), [192, 0, 2, 99].into()];
        let oper = self.of(&[Oper::Request, Oper::Reply]);
        Frame { source, to, oper, sha, spa: self.of(&address), tpa: self.of(&address) }
    }
}

#[test]
fn the_program_in_the_kernel_decides_the_same() {
    let mut chance = Chance(Rng::with_seed(1));
    for number in 0..50_000 {
        let mut program = chance.program();
        let (frame, now) = (chance.frame(), at(chance.of(&[9, 11, 30])));
        let what = format!("{number}: {frame:?} at {now:?} before {program:?}");
        let kernel = Kernel {
            program: &program,
            now_ns: now.as_nanos(),
            notified: RefCell::default(),
            yielded: RefCell::default(),
        };
        let verdict = decide(&arp(&frame), &kernel);
        let (notified, yielded) = (kernel.notified.into_inner(), kernel.yielded.into_inner());
        let total = program.yields_total();
        let Handled { passes, sent, event } = program.handle(IFINDEX, &frame, now);
        assert_eq!(passes, verdict.outcome.action() == Action::Pass, "{what}");
        let seen: Vec<_> = event.iter().map(|event| (event.kind, MacAddr(event.holder))).collect();
        assert_eq!(seen, notified, "{what}");
        let answered = verdict.answer.map(|answer| {
            let mut arp = arp(&frame);
            arp.turn_into_reply(answer.mac, answer.source);
            arp
        });
        let defended = (!verdict.defence.is_zero()).then(|| {
            let mut arp = arp(&frame);
            arp.turn_into_announcement(verdict.defence);
            arp
        });
        let sent = sent.map(|sent| (sent, arp(&sent)));
        let expected = answered.or(defended);
        let fields = |arp: ArpFrame| (arp.dst, arp.src, arp.oper(), arp.sha, arp.spa(), arp.tpa());
        assert_eq!(sent.map(|(_, arp)| fields(arp)), expected.map(fields), "{what}");
        assert_eq!(program.yields_total() - total, yielded.len() as u64, "{what}");
        for (slot, mac) in yielded {
            assert_eq!(MacAddr(program.record(slot).mac), mac, "{what}");
        }
    }
}
