//! Typed access to the pinned maps.

use std::collections::{BTreeMap, BTreeSet};

use aya::{
    Ebpf,
    maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, PerCpuValues},
};
use bytemuck::Pod;
use vipward_common::{
    Counters, DeadlineState, Defence, FILTER_WORDS, LeaseDeadline, MAX_OFFENDERS, MAX_VLANS, MacAddr,
    Offender, OffenderKey, OffenderKeyV4, OffenderKeyV6, OwnMac, Peer, PeerKey, Proof, Role, Twin,
    VIP_COUNTER_SLOTS, VipCounters, VipEntry, VipFault, VipKey, VipState, VlanKey, YieldTotal, maps as names,
    received_slot,
};

use super::{
    data::{VipCount, bytes, checked, plain, total},
    error::{BpfError, absent_is_fine, failed},
    liveness::WireMaps,
    pins::Pins,
    vips::{self, Vips},
};

const PEER_KEY: usize = size_of::<PeerKey>();
const PEER: usize = size_of::<Peer>();
const OWN_MAC: usize = size_of::<OwnMac>();
const VLAN_KEY: usize = size_of::<VlanKey>();
const LEASE_DEADLINE: usize = size_of::<LeaseDeadline>();
const STATE: usize = size_of::<VipState>();
const OFFENDER_KEY_V4: usize = size_of::<OffenderKeyV4>();
const OFFENDER_KEY_V6: usize = size_of::<OffenderKeyV6>();
const OFFENDER: usize = size_of::<Offender>();
const COUNTERS: usize = size_of::<Counters>() / 8;
const VIP_COUNTERS: usize = size_of::<VipCounters>() / 8;

/// The pinned maps. Values are bytes, and are checked when they are read: anyone may have made a
/// pin.
pub struct Maps {
    vips: Vips,
    own_macs: HashMap<MapData, u32, [u8; OWN_MAC]>,
    vlans: HashMap<MapData, [u8; VLAN_KEY], u32>,
    peers: HashMap<MapData, [u8; PEER_KEY], [u8; PEER]>,
    lease_deadline: Array<MapData, [u8; LEASE_DEADLINE]>,
    counters: PerCpuArray<MapData, [u64; COUNTERS]>,
    counters_v6: PerCpuArray<MapData, [u64; COUNTERS]>,
    received: PerCpuArray<MapData, u64>,
    vip_counters: PerCpuArray<MapData, [u64; VIP_COUNTERS]>,
    states: Array<MapData, [u8; STATE]>,
    yields: Array<MapData, u64>,
    filter: Array<MapData, u64>,
    offenders: HashMap<MapData, [u8; OFFENDER_KEY_V4], [u8; OFFENDER]>,
    offenders_v6: HashMap<MapData, [u8; OFFENDER_KEY_V6], [u8; OFFENDER]>,
    wire: WireMaps,
    /// The number of entries that need each bit of the filter; derived from the entries when first
    /// needed.
    filter_users: Option<BTreeMap<u32, u32>>,
}

impl Maps {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self, BpfError> {
        Self::build(|name| ebpf.take_map(name).ok_or(BpfError::Missing { kind: "map", name }))
    }

    pub fn open(pins: &Pins) -> Result<Self, BpfError> {
        Self::build(|name| pins.open(name))
    }

    fn build(mut map: impl FnMut(&'static str) -> Result<Map, BpfError>) -> Result<Self, BpfError> {
        let open = |name| failed("open", name);
        Ok(Self {
            vips: Vips::build(&mut map)?,
            own_macs: map(names::OWN_MACS)?.try_into().map_err(open(names::OWN_MACS))?,
            vlans: map(names::VLANS)?.try_into().map_err(open(names::VLANS))?,
            peers: map(names::PEERS)?.try_into().map_err(open(names::PEERS))?,
            lease_deadline: map(names::LEASE_DEADLINE)?.try_into().map_err(open(names::LEASE_DEADLINE))?,
            counters: map(names::COUNTERS)?.try_into().map_err(open(names::COUNTERS))?,
            counters_v6: map(names::COUNTERS_V6)?.try_into().map_err(open(names::COUNTERS_V6))?,
            received: map(names::RECEIVED)?.try_into().map_err(open(names::RECEIVED))?,
            vip_counters: map(names::VIP_COUNTERS)?.try_into().map_err(open(names::VIP_COUNTERS))?,
            states: map(names::VIP_STATE)?.try_into().map_err(open(names::VIP_STATE))?,
            yields: map(names::YIELDS)?.try_into().map_err(open(names::YIELDS))?,
            filter: map(names::FILTER)?.try_into().map_err(open(names::FILTER))?,
            offenders: map(names::OFFENDERS)?.try_into().map_err(open(names::OFFENDERS))?,
            offenders_v6: map(names::OFFENDERS_V6)?.try_into().map_err(open(names::OFFENDERS_V6))?,
            wire: WireMaps::build(&mut map)?,
            filter_users: None,
        })
    }

    pub fn wire(&self) -> &WireMaps {
        &self.wire
    }

    pub fn wire_mut(&mut self) -> &mut WireMaps {
        &mut self.wire
    }

    /// Returns the number of VIPs that there is room for, in both families together.
    pub fn max_vips(&self) -> u32 {
        self.vips.max()
    }

    pub fn entries(&self) -> Result<BTreeMap<VipKey, VipEntry>, BpfError> {
        self.vips.entries()
    }

    /// Returns the held VIPs, in no order. All entries in order would take megabytes more.
    pub fn held(&self) -> Result<Vec<(VipKey, VipEntry)>, BpfError> {
        let mut held = Vec::new();
        self.vips.for_each(|key, entry| {
            if entry.role == Role::Held {
                held.push((key, entry));
            }
        })?;
        Ok(held)
    }

    pub fn entry(&self, key: &VipKey) -> Result<Option<VipEntry>, BpfError> {
        self.vips.get(key)
    }

    /// Writes an entry. Its bit in the filter goes first, or the program would not see its claims.
    pub fn put_entry(&mut self, key: &VipKey, entry: &VipEntry) -> Result<(), BpfError> {
        let bit = vips::bit_of(key);
        let is_new = self.entry(key)?.is_none();
        if is_new {
            self.use_filter_bit(bit)?;
        }
        let put = self.vips.insert(key, entry);
        if put.is_err() && is_new {
            self.free_filter_bit(bit)?;
        }
        put
    }

    /// Writes the agent's finding about a VIP, if this node holds it.
    pub fn put_fault(&mut self, key: &VipKey, fault: Option<VipFault>) -> Result<(), BpfError> {
        match self.entry(key)? {
            Some(entry) if entry.fault() != fault => self.vips.insert(key, &entry.with_fault(fault)),
            Some(_) | None => Ok(()),
        }
    }

    /// Removes an entry, and then its bit in the filter when no other entry needs it.
    pub fn remove_entry(&mut self, key: &VipKey) -> Result<(), BpfError> {
        // The index is made before the removal, or it would lack this entry.
        self.filter_users()?;
        if self.vips.remove(key)? { self.free_filter_bit(vips::bit_of(key)) } else { Ok(()) }
    }

    fn filter_users(&mut self) -> Result<&mut BTreeMap<u32, u32>, BpfError> {
        if self.filter_users.is_none() {
            let mut users = BTreeMap::new();
            self.vips.for_each(|key, _| *users.entry(vips::bit_of(&key)).or_insert(0) += 1)?;
            self.filter_users = Some(users);
        }
        Ok(self.filter_users.as_mut().expect("invariant: set above"))
    }

    fn use_filter_bit(&mut self, bit: u32) -> Result<(), BpfError> {
        let users = self.filter_users()?.entry(bit).or_insert(0);
        *users += 1;
        if *users == 1 { self.write_filter_bit(bit, true) } else { Ok(()) }
    }

    fn free_filter_bit(&mut self, bit: u32) -> Result<(), BpfError> {
        let users = self.filter_users()?;
        let left = users.get(&bit).map_or(0, |users| users.saturating_sub(1));
        if left == 0 {
            users.remove(&bit);
            self.write_filter_bit(bit, false)
        } else {
            users.insert(bit, left);
            Ok(())
        }
    }

    fn write_filter_bit(&mut self, bit: u32, set: bool) -> Result<(), BpfError> {
        let index = bit / 64;
        let word = self.filter.get(&index, 0).map_err(failed("read", names::FILTER))?;
        let mask = 1 << (bit % 64);
        let changed = if set { word | mask } else { word & !mask };
        if changed == word {
            return Ok(());
        }
        self.filter.set(index, changed, 0).map_err(failed("write", names::FILTER))
    }

    /// Sets the filter to what the entries need. A former agent may have ended between the two
    /// writes.
    pub fn repair_filter(&mut self) -> Result<(), BpfError> {
        let mut words = vec![0_u64; FILTER_WORDS as usize];
        for bit in self.filter_users()?.keys() {
            words[(bit / 64) as usize] |= 1 << (bit % 64);
        }
        for (index, word) in (0_u32..).zip(words) {
            if self.filter.get(&index, 0).map_err(failed("read", names::FILTER))? != word {
                self.filter.set(index, word, 0).map_err(failed("write", names::FILTER))?;
            }
        }
        Ok(())
    }

    pub fn own_macs(&self) -> Result<BTreeMap<u32, MacAddr>, BpfError> {
        self.own().map(|own| own.map(|(ifindex, own)| (ifindex, MacAddr(own.mac)))).collect()
    }

    pub fn proofs(&self) -> Result<BTreeMap<u32, Proof>, BpfError> {
        self.own().map(|own| own.map(|(ifindex, own)| (ifindex, own.proof()))).collect()
    }

    pub fn twins(&self) -> Result<BTreeMap<u32, Twin>, BpfError> {
        self.own().map(|own| own.map(|(ifindex, own)| (ifindex, own.twin()))).collect()
    }

    fn own(&self) -> impl Iterator<Item = Result<(u32, OwnMac), BpfError>> {
        self.own_macs.iter().map(|element| {
            let (ifindex, own) = element.map_err(failed("read", names::OWN_MACS))?;
            Ok((ifindex, plain(&own)))
        })
    }

    /// Writes this host's MAC on an interface, and the findings about its segment.
    pub fn put_own_mac(&mut self, ifindex: u32, own: OwnMac) -> Result<(), BpfError> {
        self.own_macs.insert(ifindex, bytes::<_, OWN_MAC>(&own), 0).map_err(failed("write", names::OWN_MACS))
    }

    /// Writes the findings about a segment, if its MAC is there.
    pub fn put_findings(&mut self, ifindex: u32, proof: Proof, twin: Twin) -> Result<(), BpfError> {
        match self.own_macs.get(&ifindex, 0) {
            Ok(own) => {
                let mac = MacAddr(plain::<OwnMac>(&own).mac);
                self.put_own_mac(ifindex, OwnMac::new(mac, proof, twin))
            }
            Err(MapError::KeyNotFound) => Ok(()),
            Err(error) => Err(failed("read", names::OWN_MACS)(error)),
        }
    }

    pub fn remove_own_mac(&mut self, ifindex: u32) -> Result<(), BpfError> {
        absent_is_fine(self.own_macs.remove(&ifindex), names::OWN_MACS)
    }

    /// Returns the VLAN devices whose frames are decided where they have tags.
    pub fn vlans(&self) -> Result<BTreeMap<VlanKey, u32>, BpfError> {
        self.vlans
            .iter()
            .map(|element| {
                let (key, device) = element.map_err(failed("read", names::VLANS))?;
                Ok((plain(&key), device))
            })
            .collect()
    }

    pub(super) fn put_vlan(&mut self, key: VlanKey, device: u32) -> Result<(), BpfError> {
        self.vlans.insert(bytes::<_, VLAN_KEY>(&key), device, 0).map_err(|source| match source {
            MapError::SyscallError(error) if error.io_error.raw_os_error() == Some(libc::E2BIG) => {
                BpfError::TooManyVlans { max: MAX_VLANS }
            }
            source => failed("write", names::VLANS)(source),
        })
    }

    pub(super) fn remove_vlan(&mut self, key: VlanKey) -> Result<(), BpfError> {
        absent_is_fine(self.vlans.remove(&bytes(&key)), names::VLANS)
    }

    pub fn peers(&self) -> Result<BTreeSet<(u32, MacAddr)>, BpfError> {
        self.peers
            .keys()
            .map(|key| {
                let key: PeerKey = plain(&key.map_err(failed("read", names::PEERS))?);
                Ok((key.ifindex, MacAddr(key.mac)))
            })
            .collect()
    }

    pub fn put_peer(&mut self, ifindex: u32, mac: MacAddr, since_ns: u64) -> Result<(), BpfError> {
        let key = PeerKey { ifindex, mac: mac.0, _pad: 0 };
        self.peers
            .insert(bytes::<_, PEER_KEY>(&key), bytes::<_, PEER>(&Peer::since(since_ns)), 0)
            .map_err(failed("write", names::PEERS))
    }

    pub fn remove_peer(&mut self, ifindex: u32, mac: MacAddr) -> Result<(), BpfError> {
        let key = PeerKey { ifindex, mac: mac.0, _pad: 0 };
        absent_is_fine(self.peers.remove(&bytes(&key)), names::PEERS)
    }

    pub fn lease_deadline(&self) -> Result<LeaseDeadline, BpfError> {
        checked(
            &self.lease_deadline.get(&0, 0).map_err(failed("read", names::LEASE_DEADLINE))?,
            names::LEASE_DEADLINE,
        )
    }

    /// Returns the state of the lease deadline, which also depends on expiry notices.
    pub fn lease_deadline_state(&self, now_ns: u64) -> Result<DeadlineState, BpfError> {
        Ok(self.lease_deadline()?.state(now_ns, self.wire.expiry_notice()?))
    }

    pub fn set_deadline(&mut self, lease_deadline: &LeaseDeadline) -> Result<(), BpfError> {
        self.lease_deadline
            .set(0, bytes::<_, LEASE_DEADLINE>(lease_deadline), 0)
            .map_err(failed("write", names::LEASE_DEADLINE))
    }

    /// Writes the program's part in the defence of held VIPs, and leaves the lease deadline as it is.
    pub(super) fn set_defence(&mut self, defence: Defence) -> Result<(), BpfError> {
        let lease_deadline = self.lease_deadline()?;
        self.set_deadline(&LeaseDeadline { defence, ..lease_deadline })
    }

    /// Returns the frames by outcome, summed over the CPUs, without those of neighbour discovery.
    pub fn counters(&self) -> Result<Counters, BpfError> {
        sum(&self.counters, names::COUNTERS)
    }

    /// Returns the frames of neighbour discovery by outcome, summed over the CPUs.
    pub fn counters_v6(&self) -> Result<Counters, BpfError> {
        sum(&self.counters_v6, names::COUNTERS_V6)
    }

    /// Returns the frames of ARP and neighbour discovery that the program has counted in a segment,
    /// summed over the CPUs.
    pub fn received(&self, ifindex: u32) -> Result<u64, BpfError> {
        let values =
            self.received.get(&received_slot(ifindex), 0).map_err(failed("read", names::RECEIVED))?;
        Ok(values.iter().fold(0, |sum, cpu| sum.wrapping_add(*cpu)))
    }

    /// Returns the counters of the VIP in `slot`, or `None` if the slot has no counters.
    pub fn vip_count(&self, slot: u32) -> Result<Option<VipCount>, BpfError> {
        if slot >= VIP_COUNTER_SLOTS {
            return Ok(None);
        }
        let values = self.vip_counters.get(&slot, 0).map_err(failed("read", names::VIP_COUNTERS))?;
        Ok(Some(total(values.iter().map(|cpu| bytemuck::cast(*cpu)))))
    }

    pub fn reset_vip_count(&mut self, slot: u32) -> Result<(), BpfError> {
        if slot >= VIP_COUNTER_SLOTS {
            return Ok(());
        }
        let cpus = self.vip_counters.get(&slot, 0).map_err(failed("read", names::VIP_COUNTERS))?.len();
        let zero = PerCpuValues::try_from(vec![[0; VIP_COUNTERS]; cpus])
            .map_err(|source| BpfError::Sys { operation: "count the CPUs", source })?;
        self.vip_counters.set(slot, zero, 0).map_err(failed("write", names::VIP_COUNTERS))
    }

    pub fn state(&self, slot: u32) -> Result<VipState, BpfError> {
        Ok(plain(&self.states.get(&slot, 0).map_err(failed("read", names::VIP_STATE))?))
    }

    /// Writes the program's record about a VIP, into maps that no program uses yet.
    pub(super) fn set_state(&mut self, slot: u32, state: &VipState) -> Result<(), BpfError> {
        self.states.set(slot, bytes::<_, STATE>(state), 0).map_err(failed("write", names::VIP_STATE))
    }

    /// Returns the number of entries that have yielded since the maps were made.
    pub fn yields(&self) -> Result<YieldTotal, BpfError> {
        Ok(YieldTotal { total: self.yields.get(&0, 0).map_err(failed("read", names::YIELDS))? })
    }

    /// Writes that number, into maps that no program uses yet.
    pub(super) fn set_yields(&mut self, yields: YieldTotal) -> Result<(), BpfError> {
        self.yields.set(0, yields.total, 0).map_err(failed("write", names::YIELDS))
    }

    /// Returns the hosts that claimed VIPs lately. The program goes on writing: a record that makes
    /// room for another meanwhile may be missing, or the reading may end early.
    pub fn offenders(&self) -> Result<BTreeMap<OffenderKey, Offender>, BpfError> {
        let mut offenders = BTreeMap::new();
        read_offenders::<OffenderKeyV4, OFFENDER_KEY_V4>(names::OFFENDERS, &self.offenders, &mut offenders)?;
        read_offenders::<OffenderKeyV6, OFFENDER_KEY_V6>(
            names::OFFENDERS_V6,
            &self.offenders_v6,
            &mut offenders,
        )?;
        Ok(offenders)
    }
}

fn sum(counters: &PerCpuArray<MapData, [u64; COUNTERS]>, map: &'static str) -> Result<Counters, BpfError> {
    let values = counters.get(&0, 0).map_err(failed("read", map))?;
    Ok(values.iter().fold(Counters::default(), |sum, cpu| sum.plus(bytemuck::cast(*cpu))))
}

fn read_offenders<K: Pod + Into<OffenderKey>, const KEY: usize>(
    name: &'static str,
    map: &HashMap<MapData, [u8; KEY], [u8; OFFENDER]>,
    offenders: &mut BTreeMap<OffenderKey, Offender>,
) -> Result<(), BpfError> {
    for key in map.keys().take(MAX_OFFENDERS as usize) {
        let key = key.map_err(failed("read", name))?;
        match map.get(&key, 0) {
            Ok(offender) => {
                offenders.insert(plain::<K>(&key).into(), checked(&offender, name)?);
            }
            Err(MapError::KeyNotFound) => {}
            Err(error) => return Err(failed("read", name)(error)),
        }
    }
    Ok(())
}
