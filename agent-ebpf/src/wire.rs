//! The failure detector: the frames in which the nodes of a segment ping each other. XDP and traffic
//! control share it; they differ in the [`Packet`].

use core::{hint::black_box, ptr};

use aya_ebpf::{
    btf_maps::{Array, HashMap, PerCpuArray},
    helpers::generated::bpf_ktime_get_boot_ns,
    macros::btf_map,
};
use vipward_common::{
    Action, MAX_WIRE_INDEX, MacAddr, Outcome, SipKey, WIRE_KEYS, WIRE_LEN, WIRE_SLOTS, WireCounters,
    WireFrame, WireIndexKey, WireKey, WireOutcome, WireSeen, WireSelf, WireSlot, WireTables, decide_wire,
};

use crate::{
    atomic::{add, compare_exchange},
    counting::count_outcome,
    family::V4,
    nd::Packet,
    tables::{LEASE_DEADLINE, WIRE_STATE, own_mac},
};

#[btf_map(name = "wire_self")]
static SELF: Array<WireSelf, 1> = Array::new();
#[btf_map(name = "wire_keys")]
static KEYS: Array<WireKey, { WIRE_KEYS as usize }> = Array::new();
#[btf_map(name = "wire_index")]
static INDEX: HashMap<WireIndexKey, WireSlot, { MAX_WIRE_INDEX as usize }> = HashMap::new();
#[btf_map(name = "wire_seen")]
static SEEN: Array<WireSeen, { WIRE_SLOTS as usize }> = Array::new();
#[btf_map(name = "wire_counters")]
static COUNTERS: PerCpuArray<WireCounters, 1> = PerCpuArray::new();
/// The last frame of this CPU. It does not fit the stack beside those of the callers.
#[btf_map(name = "wire_scratch")]
static SCRATCH: PerCpuArray<WireFrame, 1> = PerCpuArray::new();

/// The number of tries to raise a time while other CPUs raise it. When all fail, another CPU has
/// recorded a frame of the same moment.
const TRIES: usize = 4;

/// Handles a segment's frame with the `EtherType` of the failure detector. `start` is the offset behind
/// it. Returns the action for the frame, which may have become its answer.
#[inline(always)]
pub(crate) fn handle(packet: &impl Packet, start: usize, segment: u32) -> Action {
    let is_wire = packet.reach(start + size_of::<u32>())
        && packet.load::<[u16; 2]>(start).is_some_and(|magic| WireFrame::is_magic(bytemuck::cast(magic)));
    if !is_wire {
        count_outcome::<V4>(Outcome::Unrelated);
        return Action::Pass;
    }
    let outcome = answer(packet, start, segment).unwrap_or(WireOutcome::RefusedLength);
    if let Some(counters) = COUNTERS.get_ptr_mut(0) {
        // SAFETY: `WireCounters` has one u64 per outcome, in order (asserted there). It is this
        // CPU's value.
        unsafe { *counters.cast::<u64>().add(outcome as usize) += 1 };
    }
    outcome.action()
}

/// Decides about a frame, and turns it into its answer. Returns `None` if it is too short.
#[inline(always)]
fn answer(packet: &impl Packet, start: usize, segment: u32) -> Option<WireOutcome> {
    if !packet.reach(start + WIRE_LEN) {
        return None;
    }
    let [dst, src] = packet.load::<[MacAddr; 2]>(0)?;
    // SAFETY: this CPU's value. A program runs to its end before another frame on this CPU.
    let frame = unsafe { &mut *SCRATCH.get_ptr_mut(0)? };
    *frame = WireFrame::from_units(packet.units(start)?);
    let outcome = decide_wire(dst, black_box(&mut *frame), &Maps { segment });
    if matches!(outcome.action(), Action::Answer) {
        packet.store(0, &[src, dst])?;
        packet.store_units(start, frame.units())?;
    }
    Some(outcome)
}

/// The maps, as the wire frames of one segment see them.
struct Maps {
    segment: u32,
}

impl WireTables for Maps {
    #[inline(always)]
    fn now_ns(&self) -> u64 {
        // SAFETY: the helper takes no argument.
        unsafe { bpf_ktime_get_boot_ns() }
    }

    #[inline(always)]
    fn own_mac(&self) -> Option<MacAddr> {
        own_mac(self.segment)
    }

    #[inline(always)]
    fn session(&self) -> u64 {
        // SAFETY: valid map value, read as one word.
        LEASE_DEADLINE.get_ptr(0).map_or(0, |lease_deadline| unsafe { (*lease_deadline).session })
    }

    #[inline(always)]
    fn wid(&self) -> u64 {
        // SAFETY: as above.
        SELF.get_ptr(0).map_or(0, |this| unsafe { (*this).wid })
    }

    #[inline(always)]
    fn slot(&self, id: u64) -> Option<u32> {
        let slot = INDEX.get_ptr(WireIndexKey::new(id, self.segment))?;
        // SAFETY: valid map value.
        Some(unsafe { (*slot).slot })
    }

    #[inline(always)]
    fn key(&self, id: u8) -> Option<SipKey> {
        let key = KEYS.get_ptr(WireKey::place(id))?;
        // SAFETY: valid map value. Userspace may be replacing it word by word: then the tag is wrong.
        unsafe {
            let is_there = id != 0 && (*key).id == u32::from(id);
            is_there.then(|| SipKey { k0: (*key).k0, k1: (*key).k1 })
        }
    }

    #[inline(always)]
    fn receive(&self, slot: u32, now_ns: u64) {
        if let Some(seen) = SEEN.get_ptr_mut(slot) {
            // SAFETY: valid map value.
            unsafe { raise(ptr::addr_of_mut!((*seen).received), now_ns) };
        }
    }

    #[inline(always)]
    fn answered(&self, slot: u32, sent_ns: u64) -> bool {
        // SAFETY: valid map value.
        SEEN.get_ptr_mut(slot)
            .is_some_and(|seen| unsafe { raise(ptr::addr_of_mut!((*seen).answered), sent_ns) })
    }

    #[inline(always)]
    fn pinged(&self, slot: u32, sent_ns: u64) -> bool {
        // SAFETY: valid map value.
        SEEN.get_ptr_mut(slot)
            .is_some_and(|seen| unsafe { raise(ptr::addr_of_mut!((*seen).pinged), sent_ns) })
    }

    #[inline(always)]
    fn end(&self, session: u64) {
        if let Some(state) = WIRE_STATE.get_ptr_mut(0) {
            // SAFETY: valid map value. The session comes first: the word is new when it is counted.
            unsafe {
                ptr::addr_of_mut!((*state).ended).write_volatile(session);
                add(ptr::addr_of_mut!((*state).notices), 1);
            }
        }
    }
}

/// Raises a time to `to`, unless it is as late already. Returns true if it was raised.
///
/// A plain store would turn it back if the CPU was stopped just before it.
///
/// # Safety
/// `time` points to an aligned word of a map value.
#[inline(always)]
unsafe fn raise(time: *mut u64, to: u64) -> bool {
    for _ in 0..TRIES {
        // SAFETY: as above; the word is only changed atomically.
        unsafe {
            let before = time.read_volatile();
            if before >= to {
                return false;
            }
            if compare_exchange(time, before, to) {
                return true;
            }
        }
    }
    false
}
