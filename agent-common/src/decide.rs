//! The two frame tables: what happens to an ARP frame, given the maps.
//!
//! docs/DATAPLANE.md has the tables that this code follows, cell by cell.

use crate::{
    abi::{FenceState, Role, VipEntry},
    counters::Outcome,
    event::EventKind,
    frame::{ArpFrame, MacAddr},
};

/// A VIP's entry, as one look-up found it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vip {
    /// The MAC that the VIP is at; zero if unknown.
    pub mac: MacAddr,
    /// Which taking of the VIP a yield counts for.
    pub generation: u16,
    /// What this node is to the VIP.
    pub role: Role,
    /// Where the program keeps its state and its counters.
    pub slot: u32,
    /// When a handover ends by itself.
    pub until_ns: u64,
}

impl From<&VipEntry> for Vip {
    fn from(entry: &VipEntry) -> Self {
        Self {
            mac: MacAddr(entry.mac),
            generation: entry.generation,
            role: entry.role,
            slot: entry.slot,
            until_ns: entry.until_ns,
        }
    }
}

/// The maps, as seen by a frame on one interface.
pub trait Tables {
    /// The coarse monotonic clock.
    fn now_ns(&self) -> u64;
    /// Whether this node may answer.
    fn fence(&self, now_ns: u64) -> FenceState;
    /// Whether `addr` may be a VIP; `false` is certain.
    fn may_be_vip(&self, addr: [u8; 4]) -> bool;
    /// The entry of `addr` on this interface.
    fn vip(&self, addr: [u8; 4]) -> Option<Vip>;
    /// This interface's own MAC.
    fn own_mac(&self) -> Option<MacAddr>;
    /// Whether `mac` is a peer's on this segment.
    fn is_peer(&self, mac: MacAddr) -> bool;
    /// To whom this generation of the entry was yielded.
    fn yielded(&self, vip: &Vip) -> Option<MacAddr>;
    /// Records that the entry is yielded to `mac`; `false` when another CPU has yielded it already.
    fn yield_to(&self, vip: &Vip, mac: MacAddr) -> bool;
    /// Tells userspace about a claim on `vip`, or a probe for it.
    fn tell(&self, kind: EventKind, vip: &Vip, frame: &ArpFrame, now_ns: u64);
}

/// The reply to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The MAC that the VIP is at.
    pub mac: MacAddr,
    /// This interface's own MAC: the Ethernet source, or the switch would learn a lie.
    pub source: MacAddr,
}

/// What happens to a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The one counter that the frame adds to, which also names the action.
    pub outcome: Outcome,
    /// Set if and only if the action is to answer.
    pub answer: Option<Answer>,
    /// The slot of the VIP that the outcome is about.
    pub slot: Option<u32>,
}

impl Verdict {
    #[inline(always)]
    fn about(outcome: Outcome, vip: &Vip) -> Self {
        Self { outcome, answer: None, slot: Some(vip.slot) }
    }
}

/// Decides about a frame that is ARP by its `EtherType`.
#[inline(always)]
pub fn decide(frame: &ArpFrame, tables: &impl Tables) -> Verdict {
    if !frame.is_ethernet_ipv4() {
        return Verdict { outcome: Outcome::ArpOther, answer: None, slot: None };
    }
    let mut passed = None;
    if tables.may_be_vip(frame.spa())
        && let Some(vip) = tables.vip(frame.spa())
    {
        let outcome = claim(frame, vip, tables);
        let verdict = Verdict::about(outcome, &vip);
        let dropped = !matches!(
            outcome,
            Outcome::ClaimPassed | Outcome::ClaimMoved | Outcome::ClaimYielded | Outcome::ClaimSighted
        );
        if dropped || frame.is_gratuitous() {
            return verdict;
        }
        passed = Some(verdict);
    }
    if frame.is_request()
        && let Some(vip) = tables.vip(frame.tpa())
    {
        return request(frame, &vip, tables);
    }
    passed.unwrap_or(Verdict { outcome: Outcome::ArpNoVip, answer: None, slot: None })
}

/// The entry as it counts now: yielded, or a handover that has ended, is foreign.
#[inline(always)]
fn in_force(mut vip: Vip, now_ns: u64, tables: &impl Tables) -> Vip {
    if vip.role == Role::Foreign {
        return vip;
    }
    if let Some(mac) = tables.yielded(&vip) {
        vip.role = Role::Foreign;
        vip.mac = mac;
    } else if vip.role == Role::Handover && now_ns >= vip.until_ns {
        vip.role = Role::Foreign;
    }
    vip
}

/// The first table: a claim, that is, a frame whose spa is a VIP.
#[inline(always)]
fn claim(frame: &ArpFrame, vip: Vip, tables: &impl Tables) -> Outcome {
    let now_ns = tables.now_ns();
    let vip = in_force(vip, now_ns, tables);
    let (outcome, kind) = match judge(frame, &vip, now_ns, tables) {
        Judgement::Silent(outcome) => return outcome,
        Judgement::Told(outcome, kind) => (outcome, kind),
        Judgement::GiveWay(outcome, kind) if tables.yield_to(&vip, frame.sha) => (outcome, kind),
        // Another CPU gave way a moment ago: the entry is foreign already.
        Judgement::GiveWay(..) => (Outcome::ClaimMoved, EventKind::Moved),
    };
    tables.tell(kind, &vip, frame, now_ns);
    outcome
}

/// What a claim calls for.
enum Judgement {
    /// Nothing but counting it.
    Silent(Outcome),
    /// An event.
    Told(Outcome, EventKind),
    /// An event, and the entry becomes foreign.
    GiveWay(Outcome, EventKind),
}

/// One arm per cell of the first table, top to bottom.
#[inline(always)]
#[expect(clippy::match_same_arms, reason = "the table has these cells apart")]
fn judge(frame: &ArpFrame, vip: &Vip, now_ns: u64, tables: &impl Tables) -> Judgement {
    let announcing = frame.is_gratuitous() || !frame.is_request();
    let by_holder = frame.sha == vip.mac;

    match vip.role {
        Role::Held if by_holder => Judgement::Silent(Outcome::ClaimOwn),
        Role::Handover if by_holder => match tables.fence(now_ns) {
            FenceState::Valid => Judgement::Told(Outcome::ClaimMoved, EventKind::Moved),
            FenceState::HeldOver | FenceState::Over if announcing => {
                Judgement::GiveWay(Outcome::ClaimMoved, EventKind::Moved)
            }
            FenceState::HeldOver | FenceState::Over => Judgement::Silent(Outcome::ClaimPassed),
        },
        Role::Held | Role::Handover if tables.is_peer(frame.sha) => match tables.fence(now_ns) {
            FenceState::Valid => Judgement::Told(Outcome::ClaimContested, EventKind::Contested),
            FenceState::HeldOver | FenceState::Over if announcing => {
                Judgement::GiveWay(Outcome::ClaimYielded, EventKind::Yielded)
            }
            FenceState::HeldOver | FenceState::Over => Judgement::Silent(Outcome::ClaimPassed),
        },
        Role::Held | Role::Handover => Judgement::Told(Outcome::ClaimConflict, EventKind::Conflict),
        Role::Foreign if by_holder && !vip.mac.is_zero() => Judgement::Silent(Outcome::ClaimPassed),
        Role::Foreign if tables.is_peer(frame.sha) => {
            if announcing {
                Judgement::Told(Outcome::ClaimMoved, EventKind::Moved)
            } else {
                Judgement::Silent(Outcome::ClaimPassed)
            }
        }
        Role::Foreign if vip.mac.is_zero() => Judgement::Told(Outcome::ClaimSighted, EventKind::Sighted),
        Role::Foreign => Judgement::Told(Outcome::ClaimConflict, EventKind::Conflict),
    }
}

/// The second table: a request whose tpa is a VIP.
#[inline(always)]
fn request(frame: &ArpFrame, vip: &Vip, tables: &impl Tables) -> Verdict {
    if vip.role == Role::Foreign {
        if vip.mac.is_zero() && frame.is_probe() && !tables.is_peer(frame.sha) {
            tables.tell(EventKind::Probed, vip, frame, tables.now_ns());
        }
        return Verdict::about(Outcome::SuppressedForeign, vip);
    }
    let now_ns = tables.now_ns();
    let vip = in_force(*vip, now_ns, tables);
    let answered = match (vip.role, tables.fence(now_ns)) {
        (Role::Foreign, FenceState::Valid | FenceState::HeldOver | FenceState::Over) => {
            return Verdict::about(Outcome::SuppressedForeign, &vip);
        }
        (Role::Held | Role::Handover, FenceState::Over) => {
            return Verdict::about(Outcome::SuppressedFence, &vip);
        }
        (Role::Held, FenceState::Valid) => Outcome::Answered,
        (Role::Held, FenceState::HeldOver) => Outcome::AnsweredHeldOver,
        (Role::Handover, FenceState::Valid | FenceState::HeldOver) => Outcome::AnsweredHandover,
    };
    // A held VIP is at this interface's own MAC, so that `links` need not be asked.
    let own_mac = if vip.role == Role::Held { Some(vip.mac) } else { tables.own_mac() };
    let Some(source) = own_mac else {
        return Verdict::about(Outcome::RefusedLink, &vip);
    };
    if frame.dst != source && frame.dst != MacAddr::BROADCAST {
        return Verdict::about(Outcome::RefusedDestination, &vip);
    }
    if !frame.sha.is_unicast() || frame.sha == source {
        return Verdict::about(Outcome::RefusedSender, &vip);
    }
    Verdict { outcome: answered, answer: Some(Answer { mac: vip.mac, source }), slot: Some(vip.slot) }
}
