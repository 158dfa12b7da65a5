//! The address families, each with its own maps.

use aya_ebpf::{
    bindings::BPF_NOEXIST,
    btf_maps::{HashMap, LruHashMap, PerCpuArray},
    macros::btf_map,
};
use vipward_common::{
    ArpFrame, Counters, DEFAULT_MAX_VIPS, EventKind, MAX_OFFENDERS, MacAddr, Message, Offender,
    OffenderKeyV4, OffenderKeyV6, Question, VipEntry, VipKeyV4, VipKeyV6, filter_bit, filter_bit_v6,
};

#[btf_map(name = "vips_v4")]
static VIPS_V4: HashMap<VipKeyV4, VipEntry, { DEFAULT_MAX_VIPS as usize }> = HashMap::new();
#[btf_map(name = "vips_v6")]
static VIPS_V6: HashMap<VipKeyV6, VipEntry, { DEFAULT_MAX_VIPS as usize }> = HashMap::new();
#[btf_map(name = "counters")]
static COUNTERS: PerCpuArray<Counters, 1> = PerCpuArray::new();
#[btf_map(name = "counters_v6")]
static COUNTERS_V6: PerCpuArray<Counters, 1> = PerCpuArray::new();
#[btf_map(name = "offenders")]
static OFFENDERS: LruHashMap<OffenderKeyV4, Offender, { MAX_OFFENDERS as usize }> = LruHashMap::new();
#[btf_map(name = "offenders_v6")]
static OFFENDERS_V6: LruHashMap<OffenderKeyV6, Offender, { MAX_OFFENDERS as usize }> = LruHashMap::new();

pub(crate) type AddrOf<F> = <<F as Family>::Question as Question>::Addr;

/// An address family, and its maps.
pub(crate) trait Family: Sized {
    /// The addresses that its frames request and claim.
    type Question: Question;
    type OffenderKey;

    fn vip(segment: u32, addr: AddrOf<Self>) -> Option<*const VipEntry>;
    fn filter_bit(addr: AddrOf<Self>) -> u32;
    /// Returns the address as events have it.
    fn mapped(addr: AddrOf<Self>) -> [u8; 16];
    /// Returns the key of a sender that claims `addr`.
    fn offender_key(segment: u32, addr: AddrOf<Self>, mac: MacAddr) -> Self::OffenderKey;
    fn offender(key: &Self::OffenderKey) -> Option<*mut Offender>;
    fn add_offender(key: &Self::OffenderKey, offender: Offender);
    fn counters() -> Option<*mut Counters>;
    fn log(kind: EventKind, addr: AddrOf<Self>, sender: MacAddr);
}

#[cfg(feature = "log")]
macro_rules! log_claim {
    ($kind:ident, $addr:ident, $sender:ident) => {
        use aya_log_ebpf::macro_support::{Level, level_enabled};

        // The level is constant once loaded, so the verifier removes the rest when it is off.
        if !level_enabled(Level::Warn) {
            return;
        }
        match $kind {
            EventKind::Conflict | EventKind::Sighted | EventKind::Contested | EventKind::Probed => {
                let kind = $kind as u32;
                aya_log_ebpf::warn!((), "claim on {:i} by {:mac} (kind {})", $addr, $sender.0, kind);
            }
            EventKind::Moved | EventKind::Yielded => {
                aya_log_ebpf::warn!((), "{:i} is at {:mac} now (kind {})", $addr, $sender.0, $kind as u32);
            }
        }
    };
}
#[cfg(not(feature = "log"))]
macro_rules! log_claim {
    ($kind:ident, $addr:ident, $sender:ident) => {
        let _ = ($kind, $addr, $sender);
    };
}

/// Makes a type the family of these maps.
macro_rules! family {
    ($question:ty, $vips:ident[$vip_key:ident], $offenders:ident[$offender_key:ident], $counters:ident) => {
        type Question = $question;
        type OffenderKey = $offender_key;

        #[inline(always)]
        fn vip(segment: u32, addr: AddrOf<Self>) -> Option<*const VipEntry> {
            $vips.get_ptr($vip_key::new(segment, addr))
        }

        #[inline(always)]
        fn offender_key(ifindex: u32, addr: AddrOf<Self>, mac: MacAddr) -> Self::OffenderKey {
            $offender_key { ifindex, addr, mac: mac.0, _pad: 0 }
        }

        #[inline(always)]
        fn offender(key: &Self::OffenderKey) -> Option<*mut Offender> {
            $offenders.get_ptr_mut(key)
        }

        #[inline(always)]
        fn add_offender(key: &Self::OffenderKey, offender: Offender) {
            // The insertion fails when another CPU was first.
            let _ = $offenders.insert(key, offender, u64::from(BPF_NOEXIST));
        }

        #[inline(always)]
        fn counters() -> Option<*mut Counters> {
            $counters.get_ptr_mut(0)
        }

        #[inline(always)]
        fn log(kind: EventKind, addr: AddrOf<Self>, sender: MacAddr) {
            log_claim!(kind, addr, sender);
        }
    };
}

/// IPv4, whose frames are ARP's.
pub(crate) struct V4;

impl Family for V4 {
    family!(ArpFrame, VIPS_V4[VipKeyV4], OFFENDERS[OffenderKeyV4], COUNTERS);

    #[inline(always)]
    fn filter_bit(addr: [u8; 4]) -> u32 {
        filter_bit(addr)
    }

    /// Maps the address to IPv6 (RFC 4291, 2.5.5.2).
    #[inline(always)]
    fn mapped([a, b, c, d]: [u8; 4]) -> [u8; 16] {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
    }
}

/// IPv6, whose frames are those of neighbour discovery.
pub(crate) struct V6;

impl Family for V6 {
    family!(Message, VIPS_V6[VipKeyV6], OFFENDERS_V6[OffenderKeyV6], COUNTERS_V6);

    #[inline(always)]
    fn filter_bit(addr: [u8; 16]) -> u32 {
        filter_bit_v6(addr)
    }

    #[inline(always)]
    fn mapped(addr: [u8; 16]) -> [u8; 16] {
        addr
    }
}
