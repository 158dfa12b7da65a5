//! Reads and writes the maps of a loaded program.

use std::{collections::BTreeMap, net::IpAddr};

use anyhow::{Context as _, Result, anyhow};
use aya::{
    Ebpf,
    maps::{Array, HashMap, MapData, MapError, PerCpuArray, PerCpuValues, RingBuf},
    util::nr_cpus,
};
use bytemuck::{NoUninit, bytes_of, pod_read_unaligned};
use vipward_common::{
    Counters, Defence, DefenceWindow, Event, LeaseDeadline, MacAddr, Offender, OffenderKey, OffenderKeyV4,
    OffenderKeyV6, Outcome, OwnMac, PeerKey, Policy, SipKey, VIP_COUNTER_SLOTS, VipCounters, VipEntry,
    VipKey, VipKeyV4, VipKeyV6, VipState, VlanKey, WIRE_KEYS, WireCounters, WireIndexKey, WireKey,
    WireOutcome, WireSeen, WireSelf, WireSlot, WireState, YieldTotal, filter_bit, filter_bit_v6, maps,
};

/// aya requires its own marker trait of keys and values; byte arrays implement it.
type Bytes<T> = <T as AsBytes>::Bytes;

trait AsBytes: Sized {
    type Bytes: aya::Pod;
}

macro_rules! as_bytes {
    ($($type:ty),+) => { $(impl AsBytes for $type { type Bytes = [u8; size_of::<$type>()]; })+ };
}

as_bytes!(
    VipKeyV4,
    VipKeyV6,
    VipEntry,
    OwnMac,
    VlanKey,
    PeerKey,
    LeaseDeadline,
    Counters,
    VipCounters,
    VipState,
    DefenceWindow,
    YieldTotal,
    OffenderKeyV4,
    OffenderKeyV6,
    Offender,
    WireSelf,
    WireKey,
    WireIndexKey,
    WireSlot,
    WireSeen,
    WireState,
    WireCounters
);

/// Maps of a loaded program, and the changes for [`Maps::reset`] to undo.
pub struct Maps {
    vips_v4: HashMap<MapData, Bytes<VipKeyV4>, Bytes<VipEntry>>,
    vips_v6: HashMap<MapData, Bytes<VipKeyV6>, Bytes<VipEntry>>,
    own_macs: HashMap<MapData, u32, Bytes<OwnMac>>,
    vlans: HashMap<MapData, Bytes<VlanKey>, u32>,
    peers: HashMap<MapData, Bytes<PeerKey>, u64>,
    lease_deadline: Array<MapData, Bytes<LeaseDeadline>>,
    counters: PerCpuArray<MapData, Bytes<Counters>>,
    counters_v6: PerCpuArray<MapData, Bytes<Counters>>,
    received: PerCpuArray<MapData, u64>,
    vip_counters: PerCpuArray<MapData, Bytes<VipCounters>>,
    vip_state: Array<MapData, Bytes<VipState>>,
    yields: Array<MapData, Bytes<YieldTotal>>,
    defences: Array<MapData, Bytes<DefenceWindow>>,
    filter: Array<MapData, u64>,
    offenders: HashMap<MapData, Bytes<OffenderKeyV4>, Bytes<Offender>>,
    offenders_v6: HashMap<MapData, Bytes<OffenderKeyV6>, Bytes<Offender>>,
    events: RingBuf<MapData>,
    wire_self: Array<MapData, Bytes<WireSelf>>,
    wire_keys: Array<MapData, Bytes<WireKey>>,
    wire_index: HashMap<MapData, Bytes<WireIndexKey>, Bytes<WireSlot>>,
    wire_seen: Array<MapData, Bytes<WireSeen>>,
    wire_state: Array<MapData, Bytes<WireState>>,
    wire_counters: PerCpuArray<MapData, Bytes<WireCounters>>,
    cpus: usize,
    used: Used,
}

#[derive(Default)]
struct Used {
    keys: Vec<VipKey>,
    own_macs: Vec<u32>,
    vlans: Vec<VlanKey>,
    peers: Vec<PeerKey>,
    slots: Vec<u32>,
    words: Vec<u32>,
    wire_slots: Vec<u32>,
}

fn take<M: TryFrom<aya::maps::Map, Error = MapError>>(ebpf: &mut Ebpf, name: &str) -> Result<M> {
    let map = ebpf.take_map(name).with_context(|| format!("the object has no map {name}"))?;
    map.try_into().with_context(|| format!("map {name} has another layout"))
}

impl Maps {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self> {
        let cpus = nr_cpus().map_err(|(_, error)| error).context("failed to count the CPUs")?;
        let mut maps = Self {
            vips_v4: take(ebpf, maps::VIPS_V4)?,
            vips_v6: take(ebpf, maps::VIPS_V6)?,
            own_macs: take(ebpf, maps::OWN_MACS)?,
            vlans: take(ebpf, maps::VLANS)?,
            peers: take(ebpf, maps::PEERS)?,
            lease_deadline: take(ebpf, maps::LEASE_DEADLINE)?,
            counters: take(ebpf, maps::COUNTERS)?,
            counters_v6: take(ebpf, maps::COUNTERS_V6)?,
            received: take(ebpf, maps::RECEIVED)?,
            vip_counters: take(ebpf, maps::VIP_COUNTERS)?,
            vip_state: take(ebpf, maps::VIP_STATE)?,
            yields: take(ebpf, maps::YIELDS)?,
            defences: take(ebpf, maps::DEFENCES)?,
            filter: take(ebpf, maps::FILTER)?,
            offenders: take(ebpf, maps::OFFENDERS)?,
            offenders_v6: take(ebpf, maps::OFFENDERS_V6)?,
            events: take(ebpf, maps::EVENTS)?,
            wire_self: take(ebpf, maps::WIRE_SELF)?,
            wire_keys: take(ebpf, maps::WIRE_KEYS)?,
            wire_index: take(ebpf, maps::WIRE_INDEX)?,
            wire_seen: take(ebpf, maps::WIRE_SEEN)?,
            wire_state: take(ebpf, maps::WIRE_STATE)?,
            wire_counters: take(ebpf, maps::WIRE_COUNTERS)?,
            cpus,
            used: Used::default(),
        };
        maps.reset()?;
        Ok(maps)
    }

    /// Undoes all changes since the last reset. `counters` and `received` keep counting.
    pub fn reset(&mut self) -> Result<()> {
        let used = std::mem::take(&mut self.used);
        for key in used.keys {
            absent_is_fine(match key.addr {
                IpAddr::V4(addr) => self.vips_v4.remove(&raw(&VipKeyV4::new(key.ifindex, addr.octets()))),
                IpAddr::V6(addr) => self.vips_v6.remove(&raw(&VipKeyV6::new(key.ifindex, addr.octets()))),
            })?;
        }
        for ifindex in used.own_macs {
            absent_is_fine(self.own_macs.remove(&ifindex))?;
        }
        for key in used.vlans {
            absent_is_fine(self.vlans.remove(&raw(&key)))?;
        }
        for key in used.peers {
            absent_is_fine(self.peers.remove(&raw(&key)))?;
        }
        for slot in used.slots {
            self.vip_state.set(slot, raw(&VipState::default()), 0)?;
            if slot < VIP_COUNTER_SLOTS {
                let zero = vec![[0; size_of::<VipCounters>()]; self.cpus];
                self.vip_counters.set(slot, PerCpuValues::try_from(zero)?, 0)?;
            }
        }
        for word in used.words {
            self.filter.set(word, 0, 0)?;
        }
        for key in keys(&self.wire_index)? {
            absent_is_fine(self.wire_index.remove(&key))?;
        }
        for slot in used.wire_slots {
            self.wire_seen.set(slot, raw(&WireSeen::default()), 0)?;
        }
        for place in 0..WIRE_KEYS {
            self.wire_keys.set(place, raw(&WireKey::default()), 0)?;
        }
        self.set_wid(0)?;
        self.set_notified(WireState::default())?;
        self.set_yields(0)?;
        self.set_defences(DefenceWindow::default())?;
        for key in keys(&self.offenders)? {
            absent_is_fine(self.offenders.remove(&key))?;
        }
        for key in keys(&self.offenders_v6)? {
            absent_is_fine(self.offenders_v6.remove(&key))?;
        }
        self.set_deadline(LeaseDeadline {
            deadline_ns: 0,
            grace_until_ns: 0,
            yields_settled: 0,
            session: 0,
            notices_settled: 0,
            policy: Policy::Stop,
            defence: Defence::Off,
        })?;
        self.events()?;
        Ok(())
    }

    /// Sets an entry and the address's bit in the filter.
    pub fn set_entry(&mut self, key: VipKey, entry: &VipEntry) -> Result<()> {
        self.used.keys.push(key);
        self.used.slots.push(entry.slot);
        self.set_filter(key.addr, true)?;
        self.replace_entry(key, entry)
    }

    /// Replaces an existing entry with one system call.
    pub fn replace_entry(&mut self, key: VipKey, entry: &VipEntry) -> Result<()> {
        match key.addr {
            IpAddr::V4(addr) => {
                self.vips_v4.insert(raw(&VipKeyV4::new(key.ifindex, addr.octets())), raw(entry), 0)?;
            }
            IpAddr::V6(addr) => {
                self.vips_v6.insert(raw(&VipKeyV6::new(key.ifindex, addr.octets())), raw(entry), 0)?;
            }
        }
        Ok(())
    }

    /// Sets or clears an address's bit in the filter. Addresses may share a bit.
    pub fn set_filter(&mut self, addr: impl Into<IpAddr>, set: bool) -> Result<()> {
        let bit = match addr.into() {
            IpAddr::V4(addr) => filter_bit(addr.octets()),
            IpAddr::V6(addr) => filter_bit_v6(addr.octets()),
        };
        let (word, mask) = (bit / 64, 1 << (bit % 64));
        self.used.words.push(word);
        let before = self.filter.get(&word, 0)?;
        Ok(self.filter.set(word, if set { before | mask } else { before & !mask }, 0)?)
    }

    pub fn set_own_mac(&mut self, ifindex: u32, mac: MacAddr) -> Result<()> {
        self.used.own_macs.push(ifindex);
        Ok(self.own_macs.insert(ifindex, raw(&OwnMac { mac: mac.0, proof: 0 }), 0)?)
    }

    pub fn remove_own_mac(&mut self, ifindex: u32) -> Result<()> {
        Ok(self.own_macs.remove(&ifindex)?)
    }

    /// Makes the frames of an interface with these tags those of a VLAN device. A tag is the VLAN ID,
    /// plus 0x8000 for a service tag; an inner tag of 0 is none.
    pub fn set_vlan(&mut self, ifindex: u32, [outer, inner]: [u16; 2], device: u32) -> Result<()> {
        let key = VlanKey { ifindex, outer, inner };
        self.used.vlans.push(key);
        Ok(self.vlans.insert(raw(&key), device, 0)?)
    }

    /// Adds the MAC of a peer on the segment of an interface.
    pub fn set_peer(&mut self, ifindex: u32, mac: MacAddr) -> Result<()> {
        let key = PeerKey { ifindex, mac: mac.0, _pad: 0 };
        self.used.peers.push(key);
        Ok(self.peers.insert(raw(&key), 0, 0)?)
    }

    pub fn set_deadline(&mut self, lease_deadline: LeaseDeadline) -> Result<()> {
        Ok(self.lease_deadline.set(0, raw(&lease_deadline), 0)?)
    }

    /// Returns the number of frames of ARP and neighbour discovery in some slots of `received`, summed over
    /// all CPUs.
    pub fn received(&self, mut slots: impl Iterator<Item = u32>) -> Result<u64> {
        slots.try_fold(0, |sum, slot| Ok(sum + self.received.get(&slot, 0)?.iter().sum::<u64>()))
    }

    /// Returns the number of frames by outcome, summed over all CPUs: of ARP frames and those of
    /// neither protocol.
    pub fn counters(&self) -> Result<Counters> {
        sum(&self.counters)
    }

    /// Returns the number of frames of neighbour discovery by outcome, summed over all CPUs.
    pub fn counters_v6(&self) -> Result<Counters> {
        sum(&self.counters_v6)
    }

    /// Returns the counters of the VIP in a slot, summed
    /// over all CPUs; zero for slots without counters.
    pub fn vip_counters(&self, slot: u32) -> Result<VipCounters> {
        if slot >= VIP_COUNTER_SLOTS {
            return Ok(VipCounters::default());
        }
        let values = self.vip_counters.get(&slot, 0)?;
        Ok(values.iter().fold(VipCounters::default(), |sum, bytes| {
            let one: VipCounters = pod_read_unaligned(bytes);
            VipCounters {
                answered: sum.answered + one.answered,
                conflicts: sum.conflicts + one.conflicts,
                suppressed: sum.suppressed + one.suppressed,
            }
        }))
    }

    pub fn vip_state(&self, slot: u32) -> Result<VipState> {
        Ok(pod_read_unaligned(&self.vip_state.get(&slot, 0)?))
    }

    /// Writes the state of one slot. Outside tests only the program writes it.
    pub fn set_vip_state(&mut self, slot: u32, state: VipState) -> Result<()> {
        self.used.slots.push(slot);
        Ok(self.vip_state.set(slot, raw(&state), 0)?)
    }

    /// Returns the number of entries that have yielded.
    pub fn yields(&self) -> Result<u64> {
        let total: YieldTotal = pod_read_unaligned(&self.yields.get(&0, 0)?);
        Ok(total.total)
    }

    /// Sets the number of entries that have yielded. Outside tests only the program writes it.
    pub fn set_yields(&mut self, total: u64) -> Result<()> {
        Ok(self.yields.set(0, raw(&YieldTotal { total }), 0)?)
    }

    /// Sets the defences of all VIPs. Outside tests only the program writes them.
    pub fn set_defences(&mut self, window: DefenceWindow) -> Result<()> {
        Ok(self.defences.set(0, raw(&window), 0)?)
    }

    /// Writes the record of a MAC that has claimed a VIP. Outside tests only the program writes it.
    pub fn set_offender(&mut self, key: &OffenderKey, offender: &Offender) -> Result<()> {
        let VipKey { ifindex, addr } = key.vip;
        let mac = key.mac.0;
        match addr {
            IpAddr::V4(addr) => {
                let key = OffenderKeyV4 { ifindex, addr: addr.octets(), mac, _pad: 0 };
                self.offenders.insert(raw(&key), raw(offender), 0)?;
            }
            IpAddr::V6(addr) => {
                let key = OffenderKeyV6 { ifindex, addr: addr.octets(), mac, _pad: 0 };
                self.offenders_v6.insert(raw(&key), raw(offender), 0)?;
            }
        }
        Ok(())
    }

    /// Returns the MACs that have claimed a VIP, with the VIP.
    pub fn offenders(&self) -> Result<BTreeMap<OffenderKey, Offender>> {
        let offender = |value: &Bytes<Offender>| {
            let offender = bytemuck::checked::try_pod_read_unaligned(value);
            offender.map_err(|error| anyhow!("not an offender: {error}"))
        };
        let v4 = self.offenders.iter().map(|element| {
            let (key, value) = element?;
            Ok((pod_read_unaligned::<OffenderKeyV4>(&key).into(), offender(&value)?))
        });
        let v6 = self.offenders_v6.iter().map(|element| {
            let (key, value) = element?;
            Ok((pod_read_unaligned::<OffenderKeyV6>(&key).into(), offender(&value)?))
        });
        v4.chain(v6).collect()
    }

    /// Sets the number of this node as a monitor.
    pub fn set_wid(&mut self, wid: u64) -> Result<()> {
        Ok(self.wire_self.set(0, raw(&WireSelf { wid }), 0)?)
    }

    pub fn set_wire_key(&mut self, id: u8, key: SipKey) -> Result<()> {
        Ok(self.wire_keys.set(WireKey::place(id), raw(&WireKey::new(id, key)), 0)?)
    }

    /// Makes a peer known on an interface, by its session or its number as a monitor.
    pub fn set_wire_index(&mut self, id: u64, ifindex: u32, slot: u32) -> Result<()> {
        self.used.wire_slots.push(slot);
        let slot = WireSlot { slot, ..WireSlot::default() };
        Ok(self.wire_index.insert(raw(&WireIndexKey::new(id, ifindex)), raw(&slot), 0)?)
    }

    /// Returns what has been learned of the peer in a slot.
    pub fn wire_seen(&self, slot: u32) -> Result<WireSeen> {
        Ok(pod_read_unaligned(&self.wire_seen.get(&slot, 0)?))
    }

    /// Writes what has been learned of the peer in a slot. Outside tests only the program writes it.
    pub fn set_wire_seen(&mut self, slot: u32, seen: WireSeen) -> Result<()> {
        self.used.wire_slots.push(slot);
        Ok(self.wire_seen.set(slot, raw(&seen), 0)?)
    }

    /// Returns the session in the last expiry notice, and the number of that notice.
    pub fn notified(&self) -> Result<WireState> {
        Ok(pod_read_unaligned(&self.wire_state.get(&0, 0)?))
    }

    /// Sets the last expiry notice. Outside tests only the program writes it.
    pub fn set_notified(&mut self, notified: WireState) -> Result<()> {
        Ok(self.wire_state.set(0, raw(&notified), 0)?)
    }

    /// Returns the number of frames of wire failover by outcome, summed over all CPUs.
    pub fn wire_counters(&self) -> Result<WireCounters> {
        let values = self.wire_counters.get(&0, 0)?;
        let cpus = values.iter().map(|bytes| pod_read_unaligned(bytes));
        Ok(cpus.fold(WireCounters::default(), WireCounters::plus))
    }

    /// Returns the events since the last call.
    pub fn events(&mut self) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        while let Some(record) = self.events.next() {
            let event = Event::from_bytes(&record);
            events.push(event.with_context(|| format!("not an event: {:02x?}", &*record))?);
        }
        Ok(events)
    }
}

fn keys<K: aya::Pod, V: aya::Pod>(map: &HashMap<MapData, K, V>) -> Result<Vec<K>> {
    Ok(map.keys().collect::<Result<_, _>>()?)
}

/// Returns counters, summed over all CPUs.
fn sum(counters: &PerCpuArray<MapData, Bytes<Counters>>) -> Result<Counters> {
    let values = counters.get(&0, 0)?;
    Ok(values.iter().map(|bytes| pod_read_unaligned(bytes)).fold(Counters::default(), Counters::plus))
}

fn raw<T: NoUninit, const N: usize>(value: &T) -> [u8; N] {
    const { assert!(size_of::<T>() == N) };
    let mut bytes = [0; N];
    bytes.copy_from_slice(bytes_of(value));
    bytes
}

/// Ignores the error of a missing key. A key may have been set twice, or refused.
fn absent_is_fine(removed: Result<(), MapError>) -> Result<()> {
    match removed {
        Ok(()) | Err(MapError::KeyNotFound) => Ok(()),
        Err(MapError::SyscallError(error)) if error.io_error.raw_os_error() == Some(2) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the names of the counters of wire failover that differ, and the differences.
pub fn moved_wire(before: &WireCounters, after: &WireCounters) -> Vec<(&'static str, u64)> {
    WireOutcome::ALL
        .iter()
        .map(|outcome| (outcome.name(), after.get(*outcome).wrapping_sub(before.get(*outcome))))
        .filter(|(_, by)| *by != 0)
        .collect()
}

/// Returns the names of the counters that differ, and the differences.
pub fn moved(before: &Counters, after: &Counters) -> Vec<(&'static str, u64)> {
    let by_outcome =
        Outcome::ALL.iter().map(|outcome| (outcome.name(), before.get(*outcome), after.get(*outcome)));
    by_outcome
        .chain([
            ("claims_defended", before.claims_defended, after.claims_defended),
            ("events_lost", before.events_lost, after.events_lost),
        ])
        .filter(|(_, before, after)| before != after)
        .map(|(name, before, after)| (name, after.wrapping_sub(before)))
        .collect()
}
