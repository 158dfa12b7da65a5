//! One pool: its rules, and the faults of its values.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;

use super::{
    AnnounceRecord, Family, PoolFault, PoolFaultKind,
    fault::{push, selectors},
    range::{AddressRange, MOST_RANGES, number},
};
use crate::records::{Allowance, PoolKind, Selector, ServiceLabels, ServiceName};

/// Largest number of addresses that one search inspects. A network that may not be used can be
/// large.
const MOST_TRIED: usize = 65_536;

/// How long an address stays reserved for a Service of the same name after its deletion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Keep {
    /// It is free at once.
    #[default]
    Not,
    /// It is reserved for this time.
    For(Duration),
    /// It is reserved until the pool's `keep` changes, or an admin releases it.
    Forever,
}

/// Which free address of a pool is given out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    /// The lowest.
    #[default]
    First,
    /// One that depends on the Service's name, or the next free one.
    Spread,
}

/// Which Services may share an address of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sharing {
    /// None: each address has one Service.
    Never,
    Namespace,
    /// Services of one namespace, and of others with the same key by consent.
    #[default]
    Key,
}

/// A pool as its object describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of its own of the object")]
pub struct PoolRecord {
    /// Its name among the pools of all kinds ([`PoolKind::key`]).
    pub name: Arc<str>,
    /// Its uid, by which Events refer to it. It may be left empty.
    pub uid: Arc<str>,
    /// Its `metadata.generation`, which each change of its spec raises.
    pub generation: Option<i64>,
    /// Its labels. They may be left empty unless an [`L2Advertisement`](super::L2Advertisement) may select it.
    pub labels: BTreeMap<String, String>,
    /// The time of its creation, in seconds since 1970.
    pub created: i64,
    pub deleting: bool,
    /// Networks, ranges and single addresses.
    pub addresses: Vec<Box<str>>,
    /// True if a network is read although the address has bits behind its prefix.
    pub lenient: bool,
    /// True if Services get addresses that do not name the pool.
    pub auto_assign: bool,
    /// The pools with lower numbers come first.
    pub priority: i32,
    /// Selectors for Services, as text: one of them matches. If empty: all Services.
    pub service_selectors: Vec<Box<str>>,
    /// Selectors for their namespaces, likewise.
    pub namespace_selectors: Vec<Box<str>>,
    /// The namespaces. If empty, and there is no selector: all.
    pub namespaces: BTreeSet<Arc<str>>,
    /// Addresses that are never given out.
    pub avoid: Vec<Box<str>>,
    /// True if the first address of each network, and in IPv4 the last, are given out too.
    pub use_ends: bool,
    /// True if IPv4 addresses that end in .0 or .255 are never given out.
    pub avoid_buggy: bool,
    pub sharing: Sharing,
    /// How long addresses stay reserved, as text.
    pub keep: Option<Box<str>>,
    /// Largest number of addresses that stay reserved for Services of one namespace that are gone. None:
    /// there is no limit.
    pub keep_at_most: Option<u32>,
    pub choice: Choice,
    /// Where its addresses may be announced.
    pub announce: AnnounceRecord,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool {
    pub record: PoolRecord,
    ranges: Vec<AddressRange>,
    /// The addresses that it gives out, besides those that [`PoolRecord::avoid_buggy`] leaves out.
    spans: Vec<Span>,
    service_selectors: Vec<Selector>,
    namespace_selectors: Vec<Selector>,
    pub keep: Keep,
    /// False if a selector could not be read: then it gives no address, for it might give it to a
    /// Service that is not to have it.
    is_usable: bool,
}

impl Pool {
    /// Reads a record. A range with a fault is left out, and a selector with a fault shuts the pool.
    pub fn read(record: PoolRecord) -> (Self, Vec<PoolFault>) {
        let mut faults = Vec::new();
        let count = record.addresses.len();
        if count > MOST_RANGES {
            push(&mut faults, "addresses".to_owned(), PoolFaultKind::TooMany { count });
        }
        let ranges = sound("addresses", &record.addresses, record.lenient, &mut faults);
        let ranges = apart(ranges, &mut faults);
        let avoid = sound("avoid.addresses", &record.avoid, record.lenient, &mut faults);
        let spans = spans(&ranges, &avoid, &record);
        if ranges.is_empty() && faults.is_empty() {
            push(&mut faults, "addresses".to_owned(), PoolFaultKind::Empty);
        }
        let before = faults.len();
        let (of_services, of_namespaces) = PoolKind::of(&record.name).0.selector_fields();
        let service_selectors = selectors(of_services, &record.service_selectors, &mut faults);
        let namespace_selectors = selectors(of_namespaces, &record.namespace_selectors, &mut faults);
        let is_usable = faults.len() == before;
        let keep = record.keep.as_deref().map_or(Some(Keep::Not), keep).unwrap_or_else(|| {
            let text = record.keep.as_deref().unwrap_or_default().into();
            push(&mut faults, "keep".to_owned(), PoolFaultKind::Keep { text });
            // What cannot be read frees no address.
            Keep::Forever
        });
        Allowance::default().update(&record.announce, &mut faults);
        let pool = Self { record, ranges, spans, service_selectors, namespace_selectors, keep, is_usable };
        (pool, faults)
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }

    #[cfg(test)]
    pub(super) fn span_count(&self) -> usize {
        self.spans.len()
    }

    /// Returns its ranges, in order.
    pub fn ranges(&self) -> &[AddressRange] {
        &self.ranges
    }

    /// Returns true if a Service may have an address of the pool.
    pub fn serves(
        &self,
        service: &ServiceName,
        labels: &ServiceLabels,
        namespace_labels: &BTreeMap<String, String>,
    ) -> bool {
        let listed = &self.record.namespaces;
        let by_label = &self.namespace_selectors;
        let in_namespace = listed.is_empty() && by_label.is_empty()
            || listed.contains(&service.namespace)
            || by_label.iter().any(|selector| selector.matches(namespace_labels));
        let by_label = &self.service_selectors;
        let labelled = by_label.is_empty() || by_label.iter().any(|selector| selector.matches(labels));
        self.is_usable && !self.record.deleting && in_namespace && labelled
    }

    /// Returns the number of addresses of a family that it can give out.
    pub fn total(&self, family: Family) -> u128 {
        self.free_spans(family).map(|span| self.len(span)).fold(0, u128::saturating_add)
    }

    /// Returns the first address of `spans` that `is_free`. Tries [`MOST_TRIED`] at most, from the
    /// address with number `start` on, and then from the first.
    pub(super) fn find(
        &self,
        family: Family,
        spans: &[Span],
        start: u128,
        is_free: impl Fn(IpAddr) -> bool,
    ) -> Option<IpAddr> {
        let from = |first: u128| {
            let spans = spans.iter().filter(move |span| span.last >= first);
            spans
                .flat_map(move |span| span.first.max(first)..=span.last)
                .filter(|number| !self.avoids_buggy(family) || !is_buggy(*number))
                .map(move |number| family.address(number))
        };
        let before = from(0).take_while(|address| number(*address) < start);
        from(start).chain(before).take(MOST_TRIED).find(|address| is_free(*address))
    }

    /// Returns true if the address is one that it gives out.
    pub(super) fn gives(&self, address: IpAddr) -> bool {
        let (family, number) = (Family::of(address), number(address));
        let is_in = |span: Span| (span.first..=span.last).contains(&number);
        self.free_spans(family).any(is_in) && !(self.avoids_buggy(family) && is_buggy(number))
    }

    /// Returns the addresses of a family that it can give out, in some subnets or in all.
    pub(super) fn spans_in(&self, family: Family, subnets: Option<&BTreeSet<IpNet>>) -> Vec<Span> {
        let Some(subnets) = subnets else { return self.free_spans(family).collect() };
        // No two of them have an address in common then.
        let subnets = IpNet::aggregate(&subnets.iter().copied().collect());
        let subnets = || subnets.iter().filter(|net| Family::of(net.addr()) == family);
        let within = |span: Span| {
            subnets().filter_map(move |net| {
                let first = number(net.network()).max(span.first);
                let last = number(net.broadcast()).min(span.last);
                (first <= last).then_some(Span { first, last, ..span })
            })
        };
        self.free_spans(family).flat_map(within).collect()
    }

    /// Returns the number at which a search for a Service's address begins.
    pub(super) fn start(&self, family: Family, seed: u64) -> u128 {
        let total = self.total(family);
        let mut position = match self.record.choice {
            Choice::First => 0,
            Choice::Spread => u128::from(seed).checked_rem(total).unwrap_or_default(),
        };
        for span in self.free_spans(family) {
            let len = self.len(span);
            if position < len {
                return span.first + position;
            }
            position -= len;
        }
        0
    }

    /// Returns true if addresses that end in .0 or .255 are left out.
    fn avoids_buggy(&self, family: Family) -> bool {
        self.record.avoid_buggy && family == Family::V4
    }

    /// Returns the number of addresses of a span that are given out.
    fn len(&self, span: Span) -> u128 {
        let buggy = if self.avoids_buggy(span.family) {
            buggy_below(span.last + 1) - buggy_below(span.first)
        } else {
            0
        };
        (span.last - span.first).saturating_add(1) - buggy
    }

    fn free_spans(&self, family: Family) -> impl Iterator<Item = Span> {
        self.spans.iter().filter(move |span| span.family == family).copied()
    }
}

/// Addresses by number, from the first to the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    family: Family,
    first: u128,
    last: u128,
}

impl From<&AddressRange> for Span {
    fn from(range: &AddressRange) -> Self {
        Self { family: range.family(), first: number(range.first()), last: number(range.last()) }
    }
}

impl Span {
    /// Returns what is left without the addresses of `other`.
    fn without(self, other: Self) -> impl Iterator<Item = Self> {
        let is_apart = self.family != other.family || self.first > other.last || other.first > self.last;
        let before = (self.first < other.first && !is_apart).then(|| Self { last: other.first - 1, ..self });
        let after = (other.last < self.last && !is_apart).then(|| Self { first: other.last + 1, ..self });
        [is_apart.then_some(self), before, after].into_iter().flatten()
    }
}

/// The number of addresses of a /24.
const BLOCK: u128 = 256;

/// Returns true if an IPv4 address ends in .0 or .255.
fn is_buggy(number: u128) -> bool {
    [0, BLOCK - 1].contains(&(number % BLOCK))
}

/// Returns the number of IPv4 addresses below this one that end in .0 or .255.
fn buggy_below(number: u128) -> u128 {
    number / BLOCK * 2 + u128::from(!number.is_multiple_of(BLOCK))
}

/// Returns the addresses that a pool gives out: its ranges without the addresses to avoid.
fn spans(ranges: &[AddressRange], avoid: &[AddressRange], record: &PoolRecord) -> Vec<Span> {
    let ends = ranges.iter().flat_map(AddressRange::ends).filter(|_| !record.use_ends);
    let end = |address| Span { family: Family::of(address), first: number(address), last: number(address) };
    let avoided = avoid.iter().map(Span::from).chain(ends.map(end));
    let all: Vec<_> = ranges.iter().map(Span::from).collect();
    let without =
        |spans: Vec<Span>, avoided| spans.into_iter().flat_map(|span: Span| span.without(avoided)).collect();
    avoided.fold(all, without)
}

/// Reads ranges. Those with a fault are left out.
fn sound(field: &str, texts: &[Box<str>], lenient: bool, faults: &mut Vec<PoolFault>) -> Vec<AddressRange> {
    let mut ranges = Vec::new();
    for (position, text) in texts.iter().take(MOST_RANGES).enumerate() {
        let range = if lenient { AddressRange::of_network(text) } else { text.parse() };
        match range {
            Ok(range) => ranges.push(range),
            Err(why) => push(faults, format!("{field}[{position}]"), why.into()),
        }
    }
    ranges
}

fn apart(ranges: Vec<AddressRange>, faults: &mut Vec<PoolFault>) -> Vec<AddressRange> {
    let mut apart: Vec<AddressRange> = Vec::new();
    for range in ranges {
        match apart.iter().find(|other| other.overlaps(&range)) {
            Some(other) => {
                push(faults, "addresses".to_owned(), PoolFaultKind::Twice { range, other: *other });
            }
            None => apart.push(range),
        }
    }
    apart.sort_unstable();
    apart
}

fn keep(text: &str) -> Option<Keep> {
    match text.trim() {
        "forever" => Some(Keep::Forever),
        text => match humantime::parse_duration(text).ok()? {
            Duration::ZERO => Some(Keep::Not),
            time => Some(Keep::For(time)),
        },
    }
}
