//! The decision about a question, given the maps. The code has one arm per cell of the two tables in
//! docs/internals/dataplane.md.

use crate::{
    counters::Outcome,
    event::EventKind,
    lease_deadline::DeadlineState,
    mac::MacAddr,
    question::{Question, Reach},
    vip::{Role, VipEntry},
};

/// A VIP's entry, as one look-up found it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vip {
    /// The VIP's MAC; zero if unknown.
    pub mac: MacAddr,
    /// The taking of the VIP for which a yield counts.
    pub generation: u16,
    pub role: Role,
    /// The index of the VIP's state and counters.
    pub slot: u32,
    /// The end of a handover.
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

/// The maps, as a frame of one segment and family sees them.
pub trait Tables {
    type Question: Question;

    /// Returns the coarse monotonic time.
    fn now_ns(&self) -> u64;
    fn lease_deadline(&self, now_ns: u64) -> DeadlineState;
    /// Returns true if `addr` may be a VIP. `false` is certain.
    fn may_be_vip(&self, addr: <Self::Question as Question>::Addr) -> bool;
    fn vip(&self, addr: <Self::Question as Question>::Addr) -> Option<Vip>;
    fn own_mac(&self) -> Option<MacAddr>;
    fn is_peer(&self, mac: MacAddr) -> bool;
    /// Returns the MAC to which this generation of the entry was yielded.
    fn yielded(&self, vip: &Vip) -> Option<MacAddr>;
    /// Records that the entry is yielded to `mac`. Returns `false`
    /// if another CPU has yielded it already.
    fn yield_to(&self, vip: &Vip, mac: MacAddr) -> bool;
    /// Returns true if the frame's checksum is right, or the protocol has none. Hosts ignore a frame
    /// with a wrong one, but for Linux one whose sender left it unfinished.
    fn is_intact(&self) -> bool;
    /// Reports a claim on `vip`, or a probe for it, to userspace, unless this host has sent it.
    fn notify(&self, kind: EventKind, vip: &Vip, question: &Self::Question, now_ns: u64);
    /// Returns true if the program defends VIPs and its limits allow a defence
    /// against this claim of another host, which `notify` has reported. Counts the defence.
    fn admits_defence(&self, vip: &Vip, question: &Self::Question, now_ns: u64) -> bool;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    pub mac: MacAddr,
    /// The Ethernet source: this interface's own MAC, or the switch would learn a wrong port.
    pub source: MacAddr,
}

/// The slot of no VIP. (As for `defence`, an `Option` would not do.)
pub const NO_SLOT: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The counter to raise, which also names the action.
    pub outcome: Outcome,
    /// The answer, if and only if the action is to answer.
    pub answer: Option<Answer>,
    /// The MAC to announce in the place of a dropped claim; zero for none. (The verifier refuses
    /// what the compiler makes of an `Option`.)
    pub defence: MacAddr,
    /// The slot of the VIP that the outcome is about, or [`NO_SLOT`].
    pub slot: u32,
}

impl Verdict {
    /// Returns the verdict about a frame that neither requests nor claims an address.
    #[inline(always)]
    pub fn about_none(outcome: Outcome) -> Self {
        Self { outcome, answer: None, defence: MacAddr::ZERO, slot: NO_SLOT }
    }

    #[inline(always)]
    fn about(outcome: Outcome, vip: &Vip) -> Self {
        Self { outcome, answer: None, defence: MacAddr::ZERO, slot: vip.slot }
    }
}

#[inline(always)]
pub fn decide<T: Tables>(question: &T::Question, tables: &T) -> Verdict {
    let mut passed = Verdict::about_none(Outcome::NoVip);
    if tables.may_be_vip(question.claimed())
        && let Some(vip) = tables.vip(question.claimed())
    {
        if !tables.is_intact() {
            return Verdict::about_none(Outcome::Unverified);
        }
        let (outcome, is_defended) = claim(question, vip, tables);
        let defence = if is_defended { vip.mac } else { MacAddr::ZERO };
        let verdict = Verdict { defence, ..Verdict::about(outcome, &vip) };
        let dropped = !matches!(
            outcome,
            Outcome::ClaimPassed | Outcome::ClaimMoved | Outcome::ClaimYielded | Outcome::ClaimSighted
        );
        if dropped || question.is_gratuitous() {
            return verdict;
        }
        passed = verdict;
    }
    if let Some(asked) = question.asked()
        && let Some(vip) = tables.vip(asked)
    {
        if !tables.is_intact() {
            return Verdict::about_none(Outcome::Unverified);
        }
        return request(question, &vip, tables);
    }
    passed
}

/// Returns the entry as it counts now. An entry that was yielded, or
/// whose handover has ended, counts as foreign.
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

/// Decides about a claim on a VIP (first table). Returns the outcome, and whether the VIP is announced
/// in the place of the claim.
#[inline(always)]
fn claim<T: Tables>(question: &T::Question, vip: Vip, tables: &T) -> (Outcome, bool) {
    let now_ns = tables.now_ns();
    let vip = in_force(vip, now_ns, tables);
    let mut defends = false;
    let (outcome, kind) = match judge(question, &vip, now_ns, tables) {
        Judgement::Count(outcome) => return (outcome, false),
        Judgement::Report(outcome, kind) => (outcome, kind),
        Judgement::Refute(outcome, kind) => {
            // A claim that went to this host alone has deceived no other.
            defends = vip.role == Role::Held && question.dst().is_multicast();
            (outcome, kind)
        }
        Judgement::Yield(outcome, kind) if tables.yield_to(&vip, question.sender()) => (outcome, kind),
        // Another CPU has just yielded: the entry is foreign already.
        Judgement::Yield(..) => (Outcome::ClaimMoved, EventKind::Moved),
    };
    tables.notify(kind, &vip, question, now_ns);
    (outcome, defends && tables.admits_defence(&vip, question, now_ns))
}

/// The consequences of a claim.
enum Judgement {
    Count(Outcome),
    Report(Outcome, EventKind),
    /// Counts and reports the claim, and defends a held VIP against it.
    Refute(Outcome, EventKind),
    /// Counts and reports the claim, and yields the entry.
    Yield(Outcome, EventKind),
}

/// Finds the cell of the first table, with one arm per cell from top to bottom.
#[inline(always)]
fn judge<T: Tables>(question: &T::Question, vip: &Vip, now_ns: u64, tables: &T) -> Judgement {
    let announcing = question.announces();
    // A host that announces in a peer's name is not that peer. The program yields to peers alone.
    let by_sender = question.src() == question.sender();
    let by_holder = question.sender() == vip.mac;

    match vip.role {
        Role::Held if by_holder => Judgement::Count(Outcome::ClaimOwn),
        Role::Handover if by_holder => match tables.lease_deadline(now_ns) {
            DeadlineState::Valid => Judgement::Report(Outcome::ClaimMoved, EventKind::Moved),
            DeadlineState::Grace | DeadlineState::Over if announcing && by_sender => {
                Judgement::Yield(Outcome::ClaimMoved, EventKind::Moved)
            }
            DeadlineState::Grace | DeadlineState::Over if announcing => {
                Judgement::Report(Outcome::ClaimContested, EventKind::Contested)
            }
            DeadlineState::Grace | DeadlineState::Over => Judgement::Count(Outcome::ClaimPassed),
        },
        Role::Held | Role::Handover if tables.is_peer(question.sender()) => {
            match tables.lease_deadline(now_ns) {
                DeadlineState::Valid => Judgement::Refute(Outcome::ClaimContested, EventKind::Contested),
                DeadlineState::Grace | DeadlineState::Over if announcing && by_sender => {
                    Judgement::Yield(Outcome::ClaimYielded, EventKind::Yielded)
                }
                DeadlineState::Grace | DeadlineState::Over if announcing => {
                    Judgement::Report(Outcome::ClaimContested, EventKind::Contested)
                }
                DeadlineState::Grace | DeadlineState::Over => Judgement::Count(Outcome::ClaimPassed),
            }
        }
        Role::Held | Role::Handover => match tables.lease_deadline(now_ns) {
            DeadlineState::Valid | DeadlineState::Grace => {
                Judgement::Refute(Outcome::ClaimConflict, EventKind::Conflict)
            }
            DeadlineState::Over => Judgement::Report(Outcome::ClaimConflict, EventKind::Conflict),
        },
        Role::Foreign if by_holder && !vip.mac.is_zero() => Judgement::Count(Outcome::ClaimPassed),
        Role::Foreign if tables.is_peer(question.sender()) => {
            // A node that hands over answers a probe in the name of its successor. The event has its MAC.
            if announcing && (by_sender || vip.mac.is_zero()) {
                Judgement::Report(Outcome::ClaimMoved, EventKind::Moved)
            } else {
                Judgement::Count(Outcome::ClaimPassed)
            }
        }
        Role::Foreign if vip.mac.is_zero() => Judgement::Report(Outcome::ClaimSighted, EventKind::Sighted),
        Role::Foreign => Judgement::Report(Outcome::ClaimConflict, EventKind::Conflict),
    }
}

/// Decides about a request for a VIP (second table).
#[inline(always)]
fn request<T: Tables>(question: &T::Question, vip: &Vip, tables: &T) -> Verdict {
    if vip.role == Role::Foreign {
        if vip.mac.is_zero() && question.probed().is_some() && !tables.is_peer(question.sender()) {
            tables.notify(EventKind::Probed, vip, question, tables.now_ns());
        }
        return Verdict::about(Outcome::SuppressedForeign, vip);
    }
    let now_ns = tables.now_ns();
    let vip = in_force(*vip, now_ns, tables);
    let answered = match (vip.role, tables.lease_deadline(now_ns)) {
        (Role::Foreign, DeadlineState::Valid | DeadlineState::Grace | DeadlineState::Over) => {
            return Verdict::about(Outcome::SuppressedForeign, &vip);
        }
        (Role::Held | Role::Handover, DeadlineState::Over) => {
            return Verdict::about(Outcome::SuppressedDeadline, &vip);
        }
        (Role::Held, DeadlineState::Valid) => Outcome::Answered,
        (Role::Held, DeadlineState::Grace) => Outcome::AnsweredInGrace,
        (Role::Handover, DeadlineState::Valid | DeadlineState::Grace) => Outcome::AnsweredHandover,
    };
    // A held VIP has this interface's own MAC, so `own_macs` is not needed.
    let own_mac = if vip.role == Role::Held { Some(vip.mac) } else { tables.own_mac() };
    let Some(source) = own_mac else {
        return Verdict::about(Outcome::RefusedLink, &vip);
    };
    let reaches = match question.reach() {
        Reach::All => true,
        Reach::One => question.dst() == source,
        Reach::None => false,
    };
    if !reaches {
        return Verdict::about(Outcome::RefusedDestination, &vip);
    }
    if !question.sender().is_unicast() || question.sender() == source {
        return Verdict::about(Outcome::RefusedSender, &vip);
    }
    Verdict { answer: Some(Answer { mac: vip.mac, source }), ..Verdict::about(answered, &vip) }
}
