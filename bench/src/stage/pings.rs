//! The frames of wire failover that are measured, and the maps that they meet.

use anyhow::Result;
use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData};
use vipward_common::{
    ETHERTYPE_WIRE, MacAddr, SipKey, WIRE_FRAME_LEN, WireFields, WireFrame, WireIndexKey, WireKey, WireSlot,
    WireType, maps,
};

use super::table::{SESSION, raw, take};

const WID: u64 = 2;
const PEER_SESSION: u64 = 3;
const PEER_WID: u64 = 4;
const KEY: u8 = 1;
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn key() -> SipKey {
    SipKey::from_bytes([7; 16])
}

/// Makes the interface with this MAC receive a peer, and writes its ping for `bench_ping`.
pub(crate) fn receive(ebpf: &mut Ebpf, (ifindex, own): (u32, MacAddr)) -> Result<()> {
    let mut this: Array<MapData, u64> = take(ebpf, maps::WIRE_SELF)?;
    this.set(0, WID, 0)?;
    let mut keys: Array<MapData, [u8; 24]> = take(ebpf, maps::WIRE_KEYS)?;
    keys.set(WireKey::place(KEY), raw(&WireKey::new(KEY, key())), 0)?;
    let mut index: HashMap<MapData, [u8; 16], [u8; 8]> = take(ebpf, maps::WIRE_INDEX)?;
    for id in [PEER_SESSION, PEER_WID] {
        index.insert(raw::<_, 16>(&WireIndexKey::new(id, ifindex)), raw::<_, 8>(&WireSlot::default()), 0)?;
    }
    let mut frame: Array<MapData, [u8; WIRE_FRAME_LEN]> = take(ebpf, "bench_ping_frame")?;
    let ping = ping(own);
    Ok(frame.set(0, <[u8; WIRE_FRAME_LEN]>::try_from(&ping[..])?, 0)?)
}

fn whole(to: MacAddr, frame: WireFrame) -> Vec<u8> {
    [&to.0[..], &PEER.0, &ETHERTYPE_WIRE.to_be_bytes(), &frame.to_bytes()].concat()
}

/// Returns a ping of the peer.
pub(crate) fn ping(to: MacAddr) -> Vec<u8> {
    let fields = WireFields { holder: SESSION, wid: PEER_WID, sent_ns: 1, ..WireFields::default() };
    whole(to, WireFrame::new(WireType::Ping, KEY, &fields, key()))
}

/// Returns the peer's answer to a ping.
pub(crate) fn echo(to: MacAddr) -> Vec<u8> {
    let fields = WireFields { holder: PEER_SESSION, wid: WID, sent_ns: 1, ..WireFields::default() };
    whole(to, WireFrame::new(WireType::Echo, KEY, &fields, key()))
}

/// Returns a ping with a wrong tag, which is all that a forger gets wrong.
pub(crate) fn forged(to: MacAddr) -> Vec<u8> {
    let mut ping = ping(to);
    ping[WIRE_FRAME_LEN - 1] ^= 1;
    ping
}
