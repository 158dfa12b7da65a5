//! The maps of a loaded program, as the benchmark fills them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use aya::Ebpf;
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, PerCpuValues};
use bytemuck::{NoUninit, bytes_of};
use vipward_common::{
    ALL_NODES, ArpFrame, Defence, FILTER_WORDS, LeaseDeadline, MacAddr, ND_OVERRIDE, NdFrame, OPER_REQUEST,
    OwnMac, Policy, Role, VipEntry, VipKeyV4, VipKeyV6, filter_bit, filter_bit_v6, group_mac, maps,
};
use vipward_tests::frames::MIN_FRAME_LEN;

pub(crate) const SESSION: u64 = 1;
/// Two frames, each of neighbour discovery's length.
const FRAMES_BYTES: usize = 2 * size_of::<NdFrame>();
const ASK_BYTES: usize = FRAMES_BYTES + 24;

/// An address family, and the protocol by which hosts request its addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const ALL: [Self; 2] = [Self::V4, Self::V6];

    pub(crate) fn protocol(self) -> &'static str {
        match self {
            Self::V4 => "ARP",
            Self::V6 => "ND",
        }
    }

    /// Returns a VIP. 65,536 of them fill `10.1.0.0/16` or `2001:db8::1:0/112`.
    pub(crate) fn vip(self, number: u32) -> IpAddr {
        self.address(1, number)
    }

    /// Returns an asker. 65,536 of them fill `10.2.0.0/16` or `2001:db8::2:0/112`.
    fn asker(self, number: u32) -> IpAddr {
        self.address(2, number)
    }

    /// Returns an address of a network that has no VIP.
    fn elsewhere(self) -> IpAddr {
        self.address(3, 1)
    }

    fn address(self, network: u32, number: u32) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::from_bits((10 << 24 | network << 16) + number)),
            Self::V6 => {
                let prefix = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0).to_bits();
                IpAddr::V6(Ipv6Addr::from_bits(prefix + u128::from((network << 16) + number)))
            }
        }
    }

    /// Returns the first asker's request for the first VIP.
    pub(crate) fn request(self, asker: MacAddr) -> Vec<u8> {
        self.request_for(asker, self.vip(0))
    }

    /// Returns a request for an address that is no VIP.
    pub(crate) fn request_elsewhere(self, asker: MacAddr) -> Vec<u8> {
        self.request_for(asker, self.elsewhere())
    }

    fn request_for(self, asker: MacAddr, asked: IpAddr) -> Vec<u8> {
        match (self.asker(0), asked) {
            (IpAddr::V4(from), IpAddr::V4(asked)) => {
                let (from, asked) = (from.octets(), asked.octets());
                padded(&ArpFrame::new(
                    MacAddr::BROADCAST,
                    asker,
                    OPER_REQUEST,
                    asker,
                    from,
                    MacAddr::ZERO,
                    asked,
                ))
            }
            (IpAddr::V6(from), IpAddr::V6(asked)) => {
                padded(&NdFrame::solicitation(asker, from.octets(), asked.octets()))
            }
            _ => unreachable!("a family's addresses are its own"),
        }
    }

    /// Returns the claim on the first VIP by a MAC, to the whole segment.
    pub(crate) fn claim(self, mac: MacAddr) -> Vec<u8> {
        claim(self.vip(0), mac)
    }
}

fn claim(addr: IpAddr, mac: MacAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(addr) => {
            let addr = addr.octets();
            padded(&ArpFrame::new(MacAddr::BROADCAST, mac, OPER_REQUEST, mac, addr, MacAddr::ZERO, addr))
        }
        IpAddr::V6(addr) => {
            let all = group_mac(ALL_NODES);
            padded(&NdFrame::advertisement(all, mac, ALL_NODES, addr.octets(), mac, ND_OVERRIDE))
        }
    }
}

fn padded(frame: &impl NoUninit) -> Vec<u8> {
    let mut bytes = bytes_of(frame).to_vec();
    bytes.resize(bytes.len().max(MIN_FRAME_LEN), 0);
    bytes
}

/// Frames that a generator sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// Ethernet source of every request, which its sender gives as its own MAC.
    pub(crate) mac: MacAddr,
    pub(crate) crowd: Crowd,
    /// Frames between the requests.
    pub(crate) intruders: Option<Intruders>,
}

/// The askers, and the VIPs that they request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Crowd {
    pub(crate) family: Family,
    /// Number of requested VIPs; a power of two.
    pub(crate) vips: u32,
    /// Number of askers; a power of two.
    pub(crate) askers: u32,
}

/// Frames that are no requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intruders {
    /// Frames per intruder; a power of two.
    pub(crate) every: u32,
    pub(crate) kind: Intruder,
}

/// Kind of a frame that is no request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Intruder {
    /// A claim on an address that is no VIP.
    Unrelated = 0,
    /// A claim on the first VIP, by one MAC.
    Claim = 1,
    /// The same, each by another MAC.
    ClaimByNewMac = 2,
}

impl Ask {
    /// Returns the value of `bench_ask`, from the first request on.
    fn to_bytes(self) -> [u8; ASK_BYTES] {
        let Self { mac, crowd: Crowd { family, vips, askers }, intruders } = self;
        let every = intruders.map_or(0, |intruders| intruders.every);
        let differ = intruders.is_some_and(|intruders| intruders.kind == Intruder::ClaimByNewMac);
        let intruder = match intruders.map(|intruders| intruders.kind) {
            None | Some(Intruder::Claim) => family.claim(mac),
            Some(Intruder::Unrelated) => claim(family.elsewhere(), mac),
            Some(Intruder::ClaimByNewMac) => family.claim(MacAddr([0x02, 0xf0, 0, 0, 0, 0])),
        };
        let numbers = [vips, askers, every, u32::from(differ), u32::from(family == Family::V6), 0];

        let mut bytes = [0; ASK_BYTES];
        let (frames, rest) = bytes.split_at_mut(FRAMES_BYTES);
        for (to, frame) in frames.chunks_exact_mut(size_of::<NdFrame>()).zip([family.request(mac), intruder])
        {
            to[..frame.len()].copy_from_slice(&frame);
        }
        rest.copy_from_slice(bytemuck::cast_slice(&numbers));
        bytes
    }
}

pub(crate) struct Tables {
    vips: HashMap<MapData, [u8; 8], [u8; 24]>,
    /// The object of a build before IPv6 has none.
    vips_v6: Option<HashMap<MapData, [u8; 20], [u8; 24]>>,
    filter: Array<MapData, u64>,
    own_macs: HashMap<MapData, u32, [u8; 8]>,
}

impl Tables {
    /// Takes them out of a loaded object, with a lease deadline that never passes.
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Self> {
        let tables = Self {
            vips: take(ebpf, maps::VIPS_V4)?,
            vips_v6: ebpf.take_map(maps::VIPS_V6).map(TryInto::try_into).transpose()?,
            filter: take(ebpf, maps::FILTER)?,
            own_macs: take(ebpf, maps::OWN_MACS)?,
        };
        let mut lease_deadlines: Array<MapData, [u8; size_of::<LeaseDeadline>()]> =
            take(ebpf, maps::LEASE_DEADLINE)?;
        let lease_deadline = LeaseDeadline {
            deadline_ns: u64::MAX,
            grace_until_ns: u64::MAX,
            yields_settled: 0,
            session: SESSION,
            notices_settled: 0,
            policy: Policy::Stop,
            // A defended frame is rewritten, and the test run would see it again as the holder's own.
            defence: Defence::Off,
        };
        lease_deadlines.set(0, raw(&lease_deadline), 0)?;
        Ok(tables)
    }

    /// Returns true if the program knows VIPs of the family.
    pub(crate) fn has(&self, family: Family) -> bool {
        match family {
            Family::V4 => true,
            Family::V6 => self.vips_v6.is_some(),
        }
    }

    /// Makes an interface hold `count` VIPs, one system call each; returns how long that took.
    pub(crate) fn hold(
        &mut self,
        ifindex: u32,
        mac: MacAddr,
        family: Family,
        count: u32,
    ) -> Result<Duration> {
        let mut words = vec![0_u64; usize::try_from(FILTER_WORDS)?];
        let start = Instant::now();
        self.own_macs.insert(ifindex, raw(&OwnMac { mac: mac.0, proof: 0 }), 0)?;
        for slot in 0..count {
            let entry = VipEntry { mac: mac.0, generation: 1, role: Role::Held, slot, until_ns: 0 };
            let bit = self.insert(ifindex, family.vip(slot), &entry)?;
            words[usize::try_from(bit / 64)?] |= 1 << (bit % 64);
        }
        for (index, word) in (0..).zip(&words).filter(|(_, word)| **word != 0) {
            let before = self.filter.get(&index, 0)?;
            self.filter.set(index, before | word, 0)?;
        }
        Ok(start.elapsed())
    }

    /// Adds an entry. Returns its bit in the filter.
    fn insert(&mut self, ifindex: u32, addr: IpAddr, entry: &VipEntry) -> Result<u32> {
        match addr {
            IpAddr::V4(addr) => {
                let key = VipKeyV4::new(ifindex, addr.octets());
                self.vips.insert(raw::<_, 8>(&key), raw::<_, 24>(entry), 0)?;
                Ok(filter_bit(addr.octets()))
            }
            IpAddr::V6(addr) => {
                let vips = self.vips_v6.as_mut().context("the object has no VIPs of IPv6")?;
                let key = VipKeyV6::new(ifindex, addr.octets());
                vips.insert(raw::<_, 20>(&key), raw::<_, 24>(entry), 0)?;
                Ok(filter_bit_v6(addr.octets()))
            }
        }
    }
}

/// The maps of the generators and the receiver.
pub(crate) struct Traffic {
    ask: PerCpuArray<MapData, [u8; ASK_BYTES]>,
    seen: PerCpuArray<MapData, [u64; 2]>,
    cpus: usize,
}

impl Traffic {
    /// Takes them out of a loaded object.
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Self> {
        Ok(Self {
            ask: take(ebpf, "bench_ask")?,
            seen: take(ebpf, "bench_seen")?,
            cpus: aya::util::nr_cpus().map_err(|(_, error)| error).context("failed to count the CPUs")?,
        })
    }

    /// Makes the generators send these frames from now on.
    pub(crate) fn ask(&mut self, ask: Ask) -> Result<()> {
        Ok(self.ask.set(0, PerCpuValues::try_from(vec![ask.to_bytes(); self.cpus])?, 0)?)
    }

    /// Returns the number of replies that the receiver has counted.
    pub(crate) fn replies(&self) -> Result<u64> {
        Ok(self.seen.get(&0, 0)?.iter().map(|[replies, _]| replies).sum())
    }

    /// Returns the number of all frames that the receiver has
    /// counted. A reflector sends requests back as they are.
    pub(crate) fn received(&self) -> Result<u64> {
        Ok(self.seen.get(&0, 0)?.iter().flatten().sum())
    }
}

pub(crate) fn take<M: TryFrom<Map, Error = MapError>>(ebpf: &mut Ebpf, name: &str) -> Result<M> {
    let map = ebpf.take_map(name).with_context(|| format!("the object has no map {name}"))?;
    map.try_into().with_context(|| format!("map {name} has another layout"))
}

pub(crate) fn raw<T: NoUninit, const N: usize>(value: &T) -> [u8; N] {
    const { assert!(size_of::<T>() == N) };
    bytes_of(value).try_into().expect("invariant: as long as the value")
}

#[cfg(test)]
mod tests {
    use vipward_common::{MacAddr, NdFrame};

    use super::Family;

    #[test]
    fn the_solicitations_of_neighbour_discovery_are_valid() {
        let mac = MacAddr([2, 0, 0, 0, 0, 9]);
        for frame in [Family::V6.request(mac), Family::V6.claim(mac)] {
            assert!(NdFrame::read(&frame).is_some());
        }
    }
}
