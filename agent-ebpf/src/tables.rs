//! The pinned maps, and the view that a frame has of them.

use core::{marker::PhantomData, ptr};

use aya_ebpf::{
    btf_maps::{Array, HashMap, PerCpuArray, RingBuf},
    helpers::generated::{bpf_jiffies64, bpf_ktime_get_coarse_ns},
    macros::btf_map,
};
use vipward_common::{
    Answers, DEFAULT_MAX_VIPS, DEFENCE_WINDOW_NS, DeadlineState, DefenceWindow, EVENT_INTERVAL_NS,
    EVENTS_BYTES, Event, EventKind, FILTER_WORDS, FieldName, LeaseDeadline, Limiter, MAX_DEFENCES,
    MAX_FIELDS, MAX_OWN_MACS, MAX_PEERS, MAX_VIP_DEFENCES, MAX_VLANS, MacAddr, Offender, OwnMac, OwnMacKey,
    Peer, PeerKey, Place, Question, Role, Tables, Vip, VipState, VlanDevice, VlanKey, VlanTags, WireState,
    Yield, YieldTotal,
};

use crate::{
    atomic::{add, compare_exchange, take},
    family::{AddrOf, Family},
};

#[btf_map(name = "own_macs")]
static OWN_MACS: HashMap<OwnMacKey, OwnMac, { MAX_OWN_MACS as usize }> = HashMap::new();
#[btf_map(name = "vlans")]
static VLANS: HashMap<VlanKey, VlanDevice, { MAX_VLANS as usize }> = HashMap::new();
#[btf_map(name = "peers")]
static PEERS: HashMap<PeerKey, Peer, { MAX_PEERS as usize }> = HashMap::new();
#[btf_map(name = "lease_deadline")]
pub(crate) static LEASE_DEADLINE: Array<LeaseDeadline, 1> = Array::new();
#[btf_map(name = "vip_state")]
static VIP_STATE: Array<VipState, { DEFAULT_MAX_VIPS as usize }> = Array::new();
#[btf_map(name = "yields")]
static YIELDS: Array<YieldTotal, 1> = Array::new();
#[btf_map(name = "defences")]
static DEFENCES: Array<DefenceWindow, 1> = Array::new();
#[btf_map(name = "filter")]
static FILTER: Array<u64, { FILTER_WORDS as usize }> = Array::new();
#[btf_map(name = "events")]
static EVENTS: RingBuf<Event, { EVENTS_BYTES as usize }> = RingBuf::new();
#[btf_map(name = "wire_state")]
pub(crate) static WIRE_STATE: Array<WireState, 1> = Array::new();
/// The layout of the other maps, for agents. The program does not read it.
#[btf_map(name = "layout")]
static LAYOUT: HashMap<FieldName, Place, { MAX_FIELDS as usize }> = HashMap::new();
/// A map that another version lacks.
#[cfg(feature = "next-layout")]
#[btf_map(name = "beside")]
static BESIDE: Array<vipward_common::Beside, 4> = Array::new();

/// The coarse time as this CPU last read it.
#[repr(C)]
struct Clock {
    jiffies: u64,
    now_ns: u64,
}

/// A cache: the coarse clock moves when jiffies do (`tick_do_update_jiffies64`), and reading those
/// costs no call.
#[btf_map(name = "clock")]
static CLOCK: PerCpuArray<Clock, 1> = PerCpuArray::new();

/// Returns the interface to whose segment a frame belongs: the one on which the program runs, or the
/// VLAN device of the frame's tags. Returns `None` if the host has no
/// device for that VLAN.
#[inline(always)]
pub(crate) fn segment(ifindex: u32, tags: VlanTags) -> Option<u32> {
    if tags.is_empty() { Some(ifindex) } else { segment_of_port(ifindex, tags) }
}

/// Does the same on a port of a bond, whose untagged frames belong to the bond. A port that has copies
/// of another's frames has no entry.
#[inline(always)]
pub(crate) fn segment_of_port(ifindex: u32, tags: VlanTags) -> Option<u32> {
    let device = VLANS.get_ptr(VlanKey::new(ifindex, tags))?;
    // SAFETY: valid map value of one word.
    Some(unsafe { (*device).ifindex })
}

#[inline(always)]
pub(crate) fn own_mac(segment: u32) -> Option<MacAddr> {
    let own = OWN_MACS.get_ptr(OwnMacKey { ifindex: segment })?;
    // SAFETY: valid map value.
    Some(MacAddr(unsafe { (*own).mac }))
}

/// Returns true if an expiry notice for this node's session has arrived that the agent has not settled.
///
/// # Safety
/// `lease_deadline` points to a valid map value.
#[inline(always)]
unsafe fn has_ended(lease_deadline: *const LeaseDeadline) -> bool {
    // SAFETY: valid map values, read word by word. Between the two words of a new expiry notice, the
    // session is another one, or the notice before counts.
    unsafe {
        let session = (*lease_deadline).session;
        session != 0
            && WIRE_STATE.get_ptr(0).is_some_and(|state| {
                (*state).ended == session
                    && (*lease_deadline).notices_settled != WireState::settled_by((*state).notices)
            })
    }
}

/// The maps, as the frames of one segment see them.
pub(crate) struct Maps<F, I> {
    segment: u32,
    is_intact: I,
    family: PhantomData<F>,
}

impl<F: Family, I: Fn() -> bool> Maps<F, I> {
    /// Returns the maps, as a frame of the segment of this interface sees them. `is_intact` returns
    /// true if the frame's checksum is right, or the protocol has none.
    #[inline(always)]
    pub(crate) fn of(segment: u32, is_intact: I) -> Self {
        Self { segment, is_intact, family: PhantomData }
    }
}

impl<F: Family, I: Fn() -> bool> Tables for Maps<F, I> {
    type Question = F::Question;

    #[inline(always)]
    fn now_ns(&self) -> u64 {
        let Some(clock) = CLOCK.get_ptr_mut(0) else { return 0 };
        // SAFETY: this CPU's value; the helpers take no argument.
        unsafe {
            let jiffies = bpf_jiffies64();
            if (*clock).jiffies != jiffies {
                (*clock).now_ns = bpf_ktime_get_coarse_ns();
                (*clock).jiffies = jiffies;
            }
            (*clock).now_ns
        }
    }

    #[inline(always)]
    fn lease_deadline(&self, now_ns: u64) -> DeadlineState {
        let Some(lease_deadline) = LEASE_DEADLINE.get_ptr(0) else { return DeadlineState::Over };
        // SAFETY: valid map value. Userspace may be replacing it word by word, and each word is
        // valid by itself. `policy` is compared as a number, because shared memory need not hold a
        // valid enum.
        unsafe {
            if now_ns < (*lease_deadline).deadline_ns && !has_ended(lease_deadline) {
                DeadlineState::Valid
            } else if ptr::addr_of!((*lease_deadline).policy).cast::<u32>().read() == 1
                && now_ns < (*lease_deadline).grace_until_ns
            {
                DeadlineState::Grace
            } else {
                DeadlineState::Over
            }
        }
    }

    #[inline(always)]
    fn may_be_vip(&self, addr: AddrOf<F>) -> bool {
        let bit = F::filter_bit(addr);
        FILTER.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 != 0)
    }

    #[inline(always)]
    fn vip(&self, addr: AddrOf<F>) -> Option<Vip> {
        let entry = F::vip(self.segment, addr)?;
        // SAFETY: valid map value, only read here.
        unsafe {
            Some(Vip {
                mac: MacAddr((*entry).mac),
                generation: (*entry).generation,
                role: match ptr::addr_of!((*entry).role).cast::<u32>().read() {
                    1 => Role::Held,
                    2 => Role::Handover,
                    _ => Role::Foreign,
                },
                slot: (*entry).slot,
                until_ns: (*entry).until_ns,
            })
        }
    }

    #[inline(always)]
    fn own_mac(&self) -> Option<MacAddr> {
        own_mac(self.segment)
    }

    #[inline(always)]
    fn is_peer(&self, mac: MacAddr) -> bool {
        PEERS.get_ptr(PeerKey { ifindex: self.segment, mac: mac.0, _pad: 0 }).is_some()
    }

    // A yield changes what the entry counts as without touching the entry, so nothing can be lost:
    //
    // * Userspace replaces whole entries and never writes `vip_state`. The program writes
    //   `vip_state` and never an entry. Neither overwrites the other.
    // * A yield names the generation of the entry that it ends. An update for another reason (a new
    //   MAC) keeps the generation, so the yield stays in force, whichever came first. Taking the
    //   VIP again needs a new generation. A CPU that still sees the old entry can only yield the
    //   old generation.
    // * Generation and MAC are one word, set by compare-and-exchange. Of two CPUs that yield to two
    //   peers, one wins; the other, and every reader, sees a whole record.
    #[inline(always)]
    fn yielded(&self, vip: &Vip) -> Option<MacAddr> {
        let total = YIELDS.get_ptr(0)?;
        let lease_deadline = LEASE_DEADLINE.get_ptr(0)?;
        // SAFETY: valid map values; one word each.
        if unsafe { (*total).total == (*lease_deadline).yields_settled } {
            // Userspace has written every yield into its entry.
            return None;
        }
        let state = VIP_STATE.get_ptr(vip.slot)?;
        // SAFETY: valid map value, aligned to eight bytes, read as the one word as which it is
        // replaced.
        let word = unsafe { ptr::addr_of!((*state).yielded).cast::<u64>().read_volatile() };
        Yield::of_generation(word, vip.generation)
    }

    #[inline(always)]
    fn yield_to(&self, vip: &Vip, mac: MacAddr) -> bool {
        let Some(state) = VIP_STATE.get_ptr_mut(vip.slot) else { return false };
        // SAFETY: valid map value, aligned to eight bytes, only ever accessed as one word.
        let won = unsafe {
            let word = ptr::addr_of_mut!((*state).yielded).cast::<u64>();
            let before = word.read_volatile();
            Yield::of_generation(before, vip.generation).is_none()
                && compare_exchange(word, before, Yield::to_word(mac, vip.generation))
        };
        if won && let Some(total) = YIELDS.get_ptr_mut(0) {
            // SAFETY: valid map value of one word.
            unsafe { add(ptr::addr_of_mut!((*total).total), 1) };
        }
        won
    }

    #[inline(always)]
    fn is_intact(&self) -> bool {
        (self.is_intact)()
    }

    #[inline(always)]
    fn notify(&self, kind: EventKind, vip: &Vip, question: &F::Question, now_ns: u64) {
        // A switch may send this host's frames back. Their events would hold those of other hosts back.
        if own_mac(self.segment) == Some(question.sender()) {
            return;
        }
        let addr = question.probed().unwrap_or(question.claimed());
        if !matches!(kind, EventKind::Moved | EventKind::Yielded) {
            let key = F::offender_key(self.segment, addr, question.sender());
            remember::<F>(&key, kind, question, now_ns);
        }
        let Some(state) = VIP_STATE.get_ptr_mut(vip.slot) else { return };
        // SAFETY: valid map value; its words are changed atomically below.
        let limiter = unsafe {
            match kind {
                EventKind::Conflict | EventKind::Sighted | EventKind::Probed => {
                    ptr::addr_of_mut!((*state).unknown_hosts)
                }
                EventKind::Contested | EventKind::Moved | EventKind::Yielded => {
                    ptr::addr_of_mut!((*state).peers)
                }
            }
        };
        // SAFETY: part of a valid map value.
        let Some(swallowed) = (unsafe { admit(limiter, kind, now_ns) }) else { return };
        F::log(kind, addr, question.sender());
        let event = Event {
            at_ns: now_ns,
            swallowed,
            kind,
            ifindex: self.segment,
            oper: question.oper(),
            vip: F::mapped(addr),
            sha: question.sender().0,
            source: question.src().0,
            holder: vip.mac.0,
            _pad: [0; 4],
        };
        if EVENTS.output(event, 0).is_err() {
            // SAFETY: a word of a valid map value; then this CPU's counters.
            unsafe {
                add(ptr::addr_of_mut!((*limiter).swallowed), swallowed + 1);
                if let Some(counters) = F::counters() {
                    (*counters).events_lost += 1;
                }
            }
        }
    }

    #[inline(always)]
    fn admits_defence(&self, vip: &Vip, question: &F::Question, now_ns: u64) -> bool {
        let Some(lease_deadline) = LEASE_DEADLINE.get_ptr(0) else { return false };
        // SAFETY: valid map value, compared as a number like `policy`.
        if unsafe { ptr::addr_of!((*lease_deadline).defence).cast::<u32>().read() } != 1 {
            return false;
        }
        let key = F::offender_key(self.segment, question.claimed(), question.sender());
        let (Some(rival), Some(state), Some(all)) =
            (F::offender(&key), VIP_STATE.get_ptr_mut(vip.slot), DEFENCES.get_ptr_mut(0))
        else {
            return false;
        };
        // SAFETY: valid map values. Of two CPUs that meet the rival at once, one's record stays.
        unsafe {
            let answers = Answers { in_a_row: (*rival).answered, strays: (*rival).strays };
            let answers = answers.after_claim((*rival).defended_ns, now_ns);
            let admitted = answers.may_be_met()
                && fits(ptr::addr_of_mut!((*state).defences), MAX_VIP_DEFENCES, now_ns)
                && fits(all, MAX_DEFENCES, now_ns);
            if admitted {
                (*rival).defended_ns = now_ns;
            }
            if admitted || !answers.may_be_met() {
                (*rival).answered = answers.in_a_row;
                (*rival).strays = answers.strays;
            }
            admitted
        }
    }
}

/// Counts a defence that is due, and returns true if the window has room for it. CPUs that meet here
/// may send one more each.
///
/// # Safety
/// `window` points to a map value.
#[inline(always)]
unsafe fn fits(window: *mut DefenceWindow, most: u64, now_ns: u64) -> bool {
    // SAFETY: as above; its words are only changed atomically.
    unsafe {
        let (began, wanted) = (ptr::addr_of_mut!((*window).began_ns), ptr::addr_of_mut!((*window).wanted));
        let began_ns = began.read_volatile();
        let is_over = began_ns == 0 || now_ns.saturating_sub(began_ns) >= DEFENCE_WINDOW_NS;
        if is_over && compare_exchange(began, began_ns, now_ns) {
            take(wanted);
        }
        let before = wanted.read_volatile();
        add(wanted, 1);
        before < most
    }
}

/// Counts a claim for its sender. If two CPUs meet a new sender at once, the later one's first
/// claim is not counted.
#[inline(always)]
fn remember<F: Family>(key: &F::OffenderKey, kind: EventKind, question: &F::Question, now_ns: u64) {
    let (oper, source) = (question.oper(), question.src().0);
    if let Some(known) = F::offender(key) {
        // SAFETY: valid map value. The other fields describe the last claim, whichever CPU saw it.
        unsafe {
            (*known).last_ns = now_ns;
            (*known).kind = kind;
            (*known).oper = oper;
            (*known).source = source;
            add(ptr::addr_of_mut!((*known).claims), 1);
        }
        return;
    }
    let new = Offender {
        first_ns: now_ns,
        last_ns: now_ns,
        claims: 1,
        kind,
        oper,
        source,
        answered: 0,
        strays: 0,
        defended_ns: 0,
    };
    F::add_offender(key, new);
}

/// Lets an event through and returns the number swallowed before it, or counts it as swallowed.
///
/// A yield is always let through: there is one per generation.
///
/// # Safety
/// `limiter` points into a map value.
#[inline(always)]
unsafe fn admit(limiter: *mut Limiter, kind: EventKind, now_ns: u64) -> Option<u64> {
    // SAFETY: as above; its words are only changed atomically.
    unsafe {
        let next = ptr::addr_of_mut!((*limiter).next_ns);
        let swallowed = ptr::addr_of_mut!((*limiter).swallowed);
        let due = next.read_volatile();
        let admitted = kind as u32 == EventKind::Yielded as u32
            || now_ns >= due && compare_exchange(next, due, now_ns + EVENT_INTERVAL_NS);
        if admitted {
            Some(take(swallowed))
        } else {
            add(swallowed, 1);
            None
        }
    }
}
