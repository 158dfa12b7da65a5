//! The failure detector: the frames by which the nodes of a segment ping each other, and the
//! decision about one.

mod frame;
mod maps;

pub use self::{
    frame::{ETHERTYPE_WIRE, WIRE_FRAME_LEN, WIRE_LEN, WireFields, WireFrame, WireType},
    maps::{
        MAX_WIRE_INDEX, WIRE_KEYS, WIRE_SLOTS, WireIndexKey, WireKey, WireSeen, WireSelf, WireSlot, WireState,
    },
};
use crate::{counters::WireOutcome, mac::MacAddr, siphash::SipKey};

/// The maps, as a wire frame of one segment sees them.
pub trait WireTables {
    /// Returns the time on `CLOCK_BOOTTIME`.
    fn now_ns(&self) -> u64;
    fn own_mac(&self) -> Option<MacAddr>;
    /// Returns the session of this node; 0 for none.
    fn session(&self) -> u64;
    /// Returns the number of this node as a monitor; 0 for none.
    fn wid(&self) -> u64;
    /// Returns the slot of a peer's session or monitor number, if its frames may arrive in this
    /// segment.
    fn slot(&self, id: u64) -> Option<u32>;
    fn key(&self, id: u8) -> Option<SipKey>;
    /// Records a frame from the peer of a slot.
    fn receive(&self, slot: u32, now_ns: u64);
    /// Records that the peer of a slot has answered the ping that was sent at `sent_ns`. Returns false if it
    /// has answered that one or a later one before.
    fn answered(&self, slot: u32, sent_ns: u64) -> bool;
    /// Records that the peer of a slot has sent a ping at `sent_ns`, on its own clock. Returns false if that
    /// one or a later one has come before.
    fn pinged(&self, slot: u32, sent_ns: u64) -> bool;
    /// Records that a session of this node has ended.
    fn end(&self, session: u64);
}

/// Decides about a frame with this Ethernet destination. If it is answered, `frame` becomes the
/// answer, which goes back to the sender.
#[inline(always)]
pub fn decide_wire<T: WireTables>(dst: MacAddr, frame: &mut WireFrame, tables: &T) -> WireOutcome {
    if tables.own_mac() != Some(dst) {
        return WireOutcome::OtherPassed;
    }
    let Some(kind) = frame.kind() else { return WireOutcome::RefusedType };
    let (holder, wid) = (frame.holder(), frame.wid());
    let is_own_session = holder != 0 && holder == tables.session();
    // The peer that sends the frame, or that it is about. Who takes VIPs need not know the node
    // whose session has ended.
    let peer = match kind {
        WireType::Ping if !is_own_session => return WireOutcome::RefusedTarget,
        WireType::Ended if holder == 0 => return WireOutcome::RefusedTarget,
        WireType::Ping => tables.slot(wid),
        WireType::Echo | WireType::VoteRequest | WireType::Vote => tables.slot(holder),
        WireType::Ended => Some(0),
    };
    let Some(slot) = peer else { return WireOutcome::RefusedPeer };
    if matches!(kind, WireType::Echo) && (wid == 0 || wid != tables.wid()) {
        return WireOutcome::RefusedTarget;
    }
    let Some(key) = tables.key(frame.key()) else { return WireOutcome::RefusedKey };
    if !frame.is_signed(key) {
        return WireOutcome::RefusedTag;
    }
    match kind {
        WireType::Ping => {
            let now_ns = tables.now_ns();
            let is_new = tables.pinged(slot, frame.sent_ns());
            if is_new {
                tables.receive(slot, now_ns);
            }
            frame.turn_into_echo(now_ns, key);
            if is_new { WireOutcome::PingAnswered } else { WireOutcome::PingRepeated }
        }
        WireType::Echo => {
            let (now_ns, sent_ns) = (tables.now_ns(), frame.sent_ns());
            if sent_ns > now_ns {
                return WireOutcome::RefusedTime;
            }
            if !tables.answered(slot, sent_ns) {
                return WireOutcome::RefusedRepeated;
            }
            tables.receive(slot, now_ns);
            WireOutcome::EchoReceived
        }
        WireType::VoteRequest => WireOutcome::VoteRequestPassed,
        WireType::Vote => WireOutcome::VotePassed,
        WireType::Ended if is_own_session => {
            tables.end(holder);
            WireOutcome::EndedReceived
        }
        WireType::Ended => WireOutcome::EndedPassed,
    }
}

#[cfg(test)]
mod tests;
