//! The maps of a loaded program, as the benchmark fills them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use aya::Ebpf;
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, PerCpuValues};
use bytemuck::{NoUninit, bytes_of};
use vipward_common::{
    Defence, FILTER_WORDS, Fence, MacAddr, OwnMac, Policy, Role, VipEntry, VipKeyV4, filter_bit, maps,
};

const ASK_BYTES: usize = 48;

/// Frames that a generator sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    /// Ethernet source and sha of every request.
    pub(super) mac: MacAddr,
    /// spa of the first asker; the others follow.
    pub(super) spa: [u8; 4],
    /// The first VIP; the others follow.
    pub(super) tpa: [u8; 4],
    /// Number of VIPs that are asked for; a power of two.
    pub(super) vips: u32,
    /// Number of askers; a power of two.
    pub(super) askers: u32,
    /// Frames between the requests.
    pub(super) intruders: Option<Intruders>,
}

/// Frames that are no requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intruders {
    /// Frames per intruder; a power of two.
    pub(super) every: u32,
    /// Their kind.
    pub(super) kind: Intruder,
}

/// Kind of a frame that is no request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Intruder {
    /// ARP about no VIP.
    Unrelated = 0,
    /// A claim on the first VIP, by one MAC.
    Claim = 1,
    /// The same, each by another MAC.
    ClaimByNewMac = 2,
}

impl Ask {
    /// Returns the value of `bench_ask`, from the first request on.
    fn to_bytes(self) -> [u8; ASK_BYTES] {
        let mut bytes = [0; ASK_BYTES];
        let every = self.intruders.map_or(0, |intruders| intruders.every);
        let kind = self.intruders.map_or(0, |intruders| intruders.kind as u32);
        let fields: [&[u8]; 8] = [
            &MacAddr::BROADCAST.0,
            &self.mac.0,
            &self.spa,
            &self.tpa,
            &self.vips.to_ne_bytes(),
            &self.askers.to_ne_bytes(),
            &every.to_ne_bytes(),
            &kind.to_ne_bytes(),
        ];
        let mut at = 0;
        for field in fields {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        }
        bytes
    }
}

/// The maps.
pub(super) struct Tables {
    vips: HashMap<MapData, [u8; 8], [u8; 24]>,
    filter: Array<MapData, u64>,
    own_macs: HashMap<MapData, u32, [u8; 8]>,
    fence: Array<MapData, [u8; 40]>,
    ask: PerCpuArray<MapData, [u8; ASK_BYTES]>,
    seen: PerCpuArray<MapData, [u64; 2]>,
    cpus: usize,
}

impl Tables {
    /// Takes them out of a loaded object, with a fence that is always valid.
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self> {
        let mut tables = Self {
            vips: take(ebpf, maps::VIPS_V4)?,
            filter: take(ebpf, maps::FILTER)?,
            own_macs: take(ebpf, maps::OWN_MACS)?,
            fence: take(ebpf, maps::FENCE)?,
            ask: take(ebpf, "bench_ask")?,
            seen: take(ebpf, "bench_seen")?,
            cpus: aya::util::nr_cpus().map_err(|(_, error)| error).context("failed to count the CPUs")?,
        };
        let fence = Fence {
            deadline_ns: u64::MAX,
            hold_until_ns: u64::MAX,
            yields_settled: 0,
            session: 0,
            policy: Policy::Stop,
            // A defended frame is rewritten, and the test run would see it again as the holder's own.
            defence: Defence::Off,
        };
        tables.fence.set(0, raw(&fence), 0)?;
        Ok(tables)
    }

    /// Makes an interface hold `count` VIPs from `first` on, one system call each; returns how long
    /// that took.
    pub(super) fn hold(
        &mut self,
        ifindex: u32,
        mac: MacAddr,
        first: [u8; 4],
        count: u32,
    ) -> Result<Duration> {
        let mut words = vec![0_u64; usize::try_from(FILTER_WORDS)?];
        let start = Instant::now();
        self.own_macs.insert(ifindex, raw(&OwnMac { mac: mac.0, proof: 0 }), 0)?;
        for slot in 0..count {
            let addr = (u32::from_be_bytes(first) + slot).to_be_bytes();
            let key = VipKeyV4::new(ifindex, addr);
            let entry = VipEntry { mac: mac.0, generation: 1, role: Role::Held, slot, until_ns: 0 };
            self.vips.insert(raw::<_, 8>(&key), raw::<_, 24>(&entry), 0)?;
            let bit = filter_bit(addr);
            words[usize::try_from(bit / 64)?] |= 1 << (bit % 64);
        }
        for (index, word) in (0..).zip(&words).filter(|(_, word)| **word != 0) {
            self.filter.set(index, word, 0)?;
        }
        Ok(start.elapsed())
    }

    /// Makes the generators send these frames from now on.
    pub(super) fn ask(&mut self, ask: Ask) -> Result<()> {
        Ok(self.ask.set(0, PerCpuValues::try_from(vec![ask.to_bytes(); self.cpus])?, 0)?)
    }

    /// Returns the number of replies that the receiver has counted.
    pub(super) fn replies(&self) -> Result<u64> {
        Ok(self.seen.get(&0, 0)?.iter().map(|[replies, _]| replies).sum())
    }

    /// Returns the number of all frames that the receiver has
    /// counted. A reflector sends requests back as they are.
    pub(super) fn received(&self) -> Result<u64> {
        Ok(self.seen.get(&0, 0)?.iter().flatten().sum())
    }
}

fn take<M: TryFrom<Map, Error = MapError>>(ebpf: &mut Ebpf, name: &str) -> Result<M> {
    let map = ebpf.take_map(name).with_context(|| format!("the object has no map {name}"))?;
    map.try_into().with_context(|| format!("map {name} has another layout"))
}

fn raw<T: NoUninit, const N: usize>(value: &T) -> [u8; N] {
    const { assert!(size_of::<T>() == N) };
    bytes_of(value).try_into().expect("invariant: as long as the value")
}
