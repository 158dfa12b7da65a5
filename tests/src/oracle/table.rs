//! The frame tables as data: every cell, with its expected content.

mod advertisement;
mod flip;

use super::world::{LeaseDeadline, Protocol};

pub use self::{
    advertisement::{Advertisement, Place, Solicitation, advertise},
    flip::Flip,
};

/// A row of a table: the VIP's state when the frame comes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Row {
    /// This node answers with its own MAC.
    Held(LeaseDeadline),
    /// This node answers with the successor's MAC.
    Handover(LeaseDeadline),
    /// Another node holds it, at a known MAC.
    ForeignKnown,
    /// Another node holds it, at an unknown MAC.
    ForeignUnknown,
}

/// A column of the first table: the owner of the sender's MAC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum By {
    /// The MAC of the entry.
    Holder,
    /// The MAC of a peer.
    Peer,
    /// Any other MAC.
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Form {
    /// A claim that does not announce.
    Asks,
    /// An announcing claim by its Ethernet source.
    Announces,
    /// A forged claim: it announces another sender than its Ethernet source.
    AnnouncesForAnother,
}

/// A column of the second table: the form of the request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Ask {
    Any,
    /// A proper request to every host.
    Broadcast,
    /// A proper request to this node's own MAC.
    Unicast,
    /// A request to another host, or whose destinations do not fit it.
    Elsewhere,
    /// A request whose sender is MAC zero.
    FromZero,
    /// A request whose sender is a group address.
    FromGroup,
    /// A request whose sender is this node's own MAC.
    FromUs,
    /// A request on an interface whose own MAC is unknown.
    NoOwnMac,
    /// A probe by an unknown host.
    Probe,
}

/// The rule that makes a frame unread. The first that fits counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Unread {
    Short,
    /// ARP with another header.
    Header,
    /// A hop limit that is not 255.
    HopLimit,
    /// A code that is not 0.
    Code,
    /// A group as the source.
    Source,
    /// A message that is too short, cut off about no VIP, or no multiple of eight bytes.
    Length,
    /// An option without a length, or longer than what is left.
    Options,
    /// A group as the target.
    Target,
    /// A probe that does not go to the group of its target.
    ProbeElsewhere,
    /// A solicitation from `::` with a source option.
    NamedNobody,
    /// An advertisement to a group that has the flag `solicited`.
    SolicitedByGroup,
}

/// The reason for which a frame cannot be verified.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Unverified {
    /// A claim on a VIP, or a request for one, with a wrong checksum.
    Checksum,
    /// A message that is cut off, and names a VIP or may do so.
    Cut,
    /// The same behind extension headers.
    Hidden,
    /// A frame with more than two tags, of which the second or third is of VLAN 0.
    Tags,
}

impl Unverified {
    /// Returns the reasons for frames that count for a protocol.
    pub const fn of(protocol: Protocol) -> &'static [Self] {
        match protocol {
            Protocol::Arp => &[Self::Tags],
            Protocol::Nd => &[Self::Checksum, Self::Cut, Self::Hidden],
        }
    }
}

impl Unread {
    /// Returns the rules for the frames of a protocol.
    pub const fn of(protocol: Protocol) -> &'static [Self] {
        match protocol {
            Protocol::Arp => &[Self::Short, Self::Header],
            Protocol::Nd => &[
                Self::HopLimit,
                Self::Code,
                Self::Source,
                Self::Length,
                Self::Options,
                Self::Target,
                Self::ProbeElsewhere,
                Self::NamedNobody,
                Self::SolicitedByGroup,
            ],
        }
    }
}

/// A cell of the tables, or a way to be in none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cell {
    /// A frame of neither protocol.
    Unrelated,
    /// A frame that the program ignores by this rule.
    Unread(Unread),
    /// A frame that is dropped for this reason.
    Unverified(Unverified),
    /// A frame about no VIP.
    NoVip,
    /// A cell of the first table.
    Claim {
        row: Row,
        /// Its column.
        by: By,
        form: Form,
    },
    /// A cell of the second table.
    Request {
        row: Row,
        /// Its column.
        ask: Ask,
    },
    /// A row of the third table, of answers to neighbour solicitations.
    Answer(Solicitation),
}

/// A cell, met by a frame of a protocol. One of neither protocol counts as ARP's.
pub type Met = (Protocol, Cell);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The frame passes. A claim that requests an address goes on to the second table.
    Pass,
    Drop,
    Answer,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EventName {
    Conflict,
    Contested,
    Moved,
    Yielded,
    Sighted,
    Probed,
}

/// The content of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expect {
    pub effect: Effect,
    /// The counter that increases.
    pub counter: &'static str,
    /// The event that is sent, if any.
    pub event: Option<EventName>,
    /// True if the entry becomes foreign.
    pub yields: bool,
    /// True if a frame to a group address is defended: the holder's announcement takes its place.
    pub defended: bool,
}

const fn pass(counter: &'static str) -> Expect {
    Expect { effect: Effect::Pass, counter, event: None, yields: false, defended: false }
}

const fn drop(counter: &'static str) -> Expect {
    Expect { effect: Effect::Drop, counter, event: None, yields: false, defended: false }
}

const fn answer(counter: &'static str) -> Expect {
    Expect { effect: Effect::Answer, counter, event: None, yields: false, defended: false }
}

impl Expect {
    const fn notify(self, event: EventName) -> Self {
        Self { event: Some(event), ..self }
    }

    const fn yielding(self) -> Self {
        Self { yields: true, ..self }
    }

    const fn defended(self) -> Self {
        Self { defended: true, ..self }
    }
}

pub fn expect(cell: Cell) -> Expect {
    match cell {
        Cell::Unrelated => pass("unrelated"),
        Cell::Unread(_) => pass("unread"),
        Cell::Unverified(_) => drop("unverified"),
        Cell::NoVip => pass("no_vip"),
        Cell::Claim { row, by, form } => claim(row, by, form),
        Cell::Request { row, ask } => request(row, ask),
        Cell::Answer(_) => unreachable!("invariant: the third table says nothing about outcomes"),
    }
}

#[expect(clippy::match_same_arms, reason = "one arm per cell, in the order of the document")]
fn claim(row: Row, by: By, form: Form) -> Expect {
    use By::{Holder, Other, Peer};
    use EventName::{Conflict, Contested, Moved, Sighted, Yielded};
    use Form::{Announces, AnnouncesForAnother, Asks};
    use LeaseDeadline::{Grace, Over, Valid};
    use Row::{ForeignKnown, ForeignUnknown, Handover, Held};

    match (row, by, form) {
        (Held(Valid), Holder, _) => drop("claim_own"),
        (Held(Valid), Peer, _) => drop("claim_contested").notify(Contested).defended(),
        (Held(Valid), Other, _) => drop("claim_conflict").notify(Conflict).defended(),

        (Held(Grace | Over), Holder, _) => drop("claim_own"),
        (Held(Grace | Over), Peer, Announces) => pass("claim_yielded").notify(Yielded).yielding(),
        (Held(Grace | Over), Peer, AnnouncesForAnother) => drop("claim_contested").notify(Contested),
        (Held(Grace | Over), Peer, Asks) => pass("claim_passed"),
        (Held(Grace), Other, _) => drop("claim_conflict").notify(Conflict).defended(),
        (Held(Over), Other, _) => drop("claim_conflict").notify(Conflict),

        (Handover(Valid), Holder, _) => pass("claim_moved").notify(Moved),
        (Handover(Valid), Peer, _) => drop("claim_contested").notify(Contested),
        (Handover(Valid), Other, _) => drop("claim_conflict").notify(Conflict),

        (Handover(Grace | Over), Holder, Announces) => pass("claim_moved").notify(Moved).yielding(),
        (Handover(Grace | Over), Holder, AnnouncesForAnother) => drop("claim_contested").notify(Contested),
        (Handover(Grace | Over), Holder, Asks) => pass("claim_passed"),
        (Handover(Grace | Over), Peer, Announces) => pass("claim_yielded").notify(Yielded).yielding(),
        (Handover(Grace | Over), Peer, AnnouncesForAnother) => drop("claim_contested").notify(Contested),
        (Handover(Grace | Over), Peer, Asks) => pass("claim_passed"),
        (Handover(Grace | Over), Other, _) => drop("claim_conflict").notify(Conflict),

        (ForeignKnown, Holder, _) => pass("claim_passed"),
        (ForeignKnown, Peer, Announces) => pass("claim_moved").notify(Moved),
        (ForeignKnown, Peer, AnnouncesForAnother | Asks) => pass("claim_passed"),
        (ForeignKnown, Other, _) => drop("claim_conflict").notify(Conflict),

        (ForeignUnknown, Peer, Announces | AnnouncesForAnother) => pass("claim_moved").notify(Moved),
        (ForeignUnknown, Peer, Asks) => pass("claim_passed"),
        (ForeignUnknown, Holder | Other, _) => pass("claim_sighted").notify(Sighted),
    }
}

fn request(row: Row, ask: Ask) -> Expect {
    use Ask::{Any, Broadcast, Elsewhere, FromGroup, FromUs, FromZero, NoOwnMac, Probe, Unicast};
    use LeaseDeadline::{Grace, Over, Valid};
    use Row::{ForeignKnown, ForeignUnknown, Handover, Held};

    match (row, ask) {
        (ForeignUnknown, Probe) => drop("suppressed_foreign").notify(EventName::Probed),
        (ForeignKnown | ForeignUnknown, _) => drop("suppressed_foreign"),
        (Held(Over) | Handover(Over), _) => drop("suppressed_deadline"),
        (Held(_) | Handover(_), NoOwnMac) => drop("refused_link"),
        (Held(_) | Handover(_), Elsewhere) => drop("refused_destination"),
        (Held(_) | Handover(_), FromZero | FromGroup | FromUs) => drop("refused_sender"),
        (Held(Valid), Broadcast | Unicast | Any | Probe) => answer("answered"),
        (Held(Grace), Broadcast | Unicast | Any | Probe) => answer("answered_in_grace"),
        (Handover(Valid | Grace), Broadcast | Unicast | Any | Probe) => answer("answered_handover"),
    }
}

impl Cell {
    /// Returns every cell that a frame can be in, for both protocols.
    pub fn all() -> Vec<Met> {
        let of = |protocol| Self::of(protocol).into_iter().map(move |cell| (protocol, cell));
        [(Protocol::Arp, Self::Unrelated)]
            .into_iter()
            .chain(of(Protocol::Arp))
            .chain(of(Protocol::Nd))
            .chain(Solicitation::ALL.map(|solicitation| (Protocol::Nd, Self::Answer(solicitation))))
            .collect()
    }

    /// Returns the cells of the first two tables that a frame of a protocol can be in.
    fn of(protocol: Protocol) -> Vec<Self> {
        use LeaseDeadline::{Grace, Over, Valid};

        let mut cells = vec![Self::NoVip];
        cells.extend(Unread::of(protocol).iter().map(|rule| Self::Unread(*rule)));
        cells.extend(Unverified::of(protocol).iter().map(|reason| Self::Unverified(*reason)));
        for row in [Row::Held, Row::Handover].iter().flat_map(|role| [Valid, Grace, Over].map(role)) {
            cells.extend(Self::claims(row, &[By::Holder, By::Peer, By::Other]));
        }
        cells.extend(Self::claims(Row::ForeignKnown, &[By::Holder, By::Peer, By::Other]));
        cells.extend(Self::claims(Row::ForeignUnknown, &[By::Peer, By::Other]));

        let asks = [Ask::Broadcast, Ask::Unicast, Ask::Elsewhere, Ask::FromZero, Ask::FromGroup, Ask::FromUs];
        for row in [Row::Held, Row::Handover].iter().flat_map(|role| [Valid, Grace].map(role)) {
            cells.extend(asks.map(|ask| Self::Request { row, ask }));
        }
        for row in [Valid, Grace].map(Row::Handover) {
            cells.push(Self::Request { row, ask: Ask::NoOwnMac });
        }
        for row in [Row::Held(Over), Row::Handover(Over), Row::ForeignKnown, Row::ForeignUnknown] {
            cells.push(Self::Request { row, ask: Ask::Any });
        }
        cells.push(Self::Request { row: Row::ForeignUnknown, ask: Ask::Probe });
        cells
    }

    fn claims(row: Row, bys: &[By]) -> impl Iterator<Item = Self> {
        let forms = [Form::Asks, Form::Announces, Form::AnnouncesForAnother];
        bys.iter().flat_map(move |by| forms.map(|form| Self::Claim { row, by: *by, form }))
    }
}
