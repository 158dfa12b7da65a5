//! Shared code of the XDP program and the agent: the frames, the values of the pinned maps, and the
//! decision about each frame.
//!
//! Nothing here does I/O. The XDP program gives [`decide`] its maps as
//! [`Tables`]; fuzzers give it tables of their own.
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//!
//! - `layout`: how the pins describe the fields of keys and values.
//! - `mac`: hardware addresses.
//! - `siphash`: the tag of a frame of the failure detector.
//! - `filter`: the bits of the addresses that may be VIPs.
//! - `vlan`: the tags of a frame, and the devices below them.
//! - `question`: the addresses that a frame requests and claims, in either protocol.
//! - `frame`: frames of ARP.
//! - `counters`: the outcomes of frames, and their counters.
//! - `defence`: the limits on the defence of a VIP.
//! - `segment`: the MACs of this host and its peers in a segment.
//! - `vip`: the keys, entries and yields of VIPs.
//! - `wire`: the frames of the failure detector, and the decision about one.
//! - `lease_deadline`: the time until which this node may answer, and its grace period.
//! - `event`: what the program reports and records.
//! - `decide`: the decision about a question.
//! - `nd`: frames of neighbour discovery.
//! - [`maps`]: the pinned maps of all these values.
#![no_std]
#![forbid(unsafe_code)]
#![expect(clippy::inline_always, reason = "a BPF function call costs a frame, and cannot return a pair")]
#![expect(clippy::pub_underscore_fields, reason = "explicit padding: every byte of a map value is written")]

#[cfg(test)]
extern crate std;

#[macro_use]
mod layout;

mod counters;
mod decide;
mod defence;
mod event;
mod filter;
mod frame;
mod lease_deadline;
mod mac;
pub mod maps;
mod nd;
mod question;
mod segment;
mod siphash;
mod vip;
mod vlan;
mod wire;

pub use counters::{Action, Counters, Outcome, WireCounters, WireOutcome};
pub use decide::{Answer, NO_SLOT, Tables, Verdict, Vip, decide};
pub use defence::{
    ANSWER_NS, Answers, DEFENCE_WINDOW_NS, DEFEND_INTERVAL_NS, Defence, DefenceWindow, MAX_ANSWERED,
    MAX_DEFENCES, MAX_STRAYS, MAX_VIP_DEFENCES,
};
pub use event::{
    EVENT_INTERVAL_NS, EVENTS_BYTES, Event, EventKind, Limiter, MAX_OFFENDERS, Offender, OffenderKey,
    OffenderKeyV4, OffenderKeyV6, VipState,
};
pub use filter::{FILTER_BITS, FILTER_WORDS, filter_bit, filter_bit_v6};
pub use frame::{ArpFrame, ETHERTYPE_ARP, FRAME_LEN, OPER_REPLY, OPER_REQUEST};
#[cfg(feature = "next-layout")]
pub use layout::next::Beside;
pub use layout::{Decoder, Described, Field, FieldName, MAX_FIELDS, Place, Shape};
pub use lease_deadline::{DeadlineState, LeaseDeadline, Policy};
pub use mac::MacAddr;
pub use maps::{MapKind, PIN_DIR, PINNED, PinnedMap};
pub use nd::{
    ALL_NODES, ALL_ROUTERS, ETHERTYPE_IPV6, MAX_EXTENSIONS, MAX_OPTIONS, MAX_SUMMED, Message, ND_FRAME_LEN,
    ND_OVERRIDE, ND_SOLICITED, NdFrame, NdHeader, TYPE_ADVERTISEMENT, TYPE_REDIRECT,
    TYPE_ROUTER_SOLICITATION, TYPE_SOLICITATION, Unit, group_mac, hides_claim, may_hide_claim,
    solicited_node,
};
pub use question::{Question, Reach};
pub use segment::{
    MAX_OWN_MACS, MAX_PEERS, OwnMac, OwnMacKey, Peer, PeerKey, Proof, RECEIVED_SLOTS, Twin, received_slot,
};
pub use siphash::SipKey;
pub use vip::{
    DEFAULT_MAX_VIPS, Role, SeenEntry, VIP_COUNTER_SLOTS, VipCounters, VipEntry, VipFault, VipKey, VipKeyV4,
    VipKeyV6, Yield, YieldTotal,
};
pub use vlan::{ETHERTYPE_8021AD, ETHERTYPE_8021Q, MAX_VLANS, VlanDevice, VlanKey, VlanTag, VlanTags};
pub use wire::{
    ETHERTYPE_WIRE, MAX_WIRE_INDEX, WIRE_FRAME_LEN, WIRE_KEYS, WIRE_LEN, WIRE_SLOTS, WireFields, WireFrame,
    WireIndexKey, WireKey, WireSeen, WireSelf, WireSlot, WireState, WireTables, WireType, decide_wire,
};
