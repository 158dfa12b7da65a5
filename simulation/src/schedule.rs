//! What a run consists of: the cluster, and the disturbances that befall it.

mod generate;

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One run, whole: the same schedule gives the same run, byte for byte.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Of the noise: latencies, losses, sessions.
    pub(crate) seed: u64,
    /// What the program does when the fence has lapsed: held over, or not.
    pub(crate) hold: bool,
    /// The engines' settings.
    pub(crate) timing: Timing,
    /// How many segments there are: one or two.
    pub(crate) segments: u8,
    /// The nodes.
    pub(crate) nodes: Vec<NodePlan>,
    /// The VIPs.
    pub(crate) vips: Vec<VipPlan>,
    /// What befalls them, in no particular order.
    pub(crate) disturbances: Vec<Disturbance>,
}

impl Schedule {
    /// The schedule of a seed.
    pub fn generate(seed: u64) -> Self {
        generate::generate(seed)
    }

    /// How many disturbances it has.
    pub fn len(&self) -> usize {
        self.disturbances.len()
    }

    /// Whether nothing befalls the cluster.
    pub fn is_empty(&self) -> bool {
        self.disturbances.is_empty()
    }
}

/// The settings that all engines share, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "a scalar that is written down carries its unit")]
pub(crate) struct Timing {
    /// How long one renewal is good for.
    pub(crate) lease_ms: u32,
    /// Time between two renewals.
    pub(crate) renewal_ms: u32,
    /// What the fence lapses earlier, and others wait longer.
    pub(crate) margin_ms: u32,
    /// What the lease is lengthened to for a restart.
    pub(crate) restart_lease_ms: u32,
    /// How long a lapsed fence is held over.
    pub(crate) hold_for_ms: u32,
}

/// One node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodePlan {
    /// Parts per million that its clock is fast.
    pub(crate) clock_ppm: i32,
    /// What its clock shows at the beginning.
    pub(crate) clock_ms: u32,
    /// When it joins.
    pub(crate) joins_ms: u32,
}

/// One VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VipPlan {
    /// When Services begin to want it.
    pub(crate) wanted_ms: u32,
}

/// Something that befalls the cluster. What ends by itself carries its own end, so that the two go together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Disturbance {
    /// When.
    pub(crate) when: When,
    /// What.
    pub(crate) what: What,
}

/// When something befalls the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum When {
    /// At this time.
    Ms(u32),
    /// So long after the first such step of a handover that happens after `from_ms`.
    Step {
        /// Which.
        step: Step,
        /// From when on it is waited for.
        from_ms: u32,
        /// Zero: before anything else happens.
        after_us: u32,
    },
}

/// The steps of a handover.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Step {
    /// The giver's entry answers with the taker's MAC.
    Switched,
    /// The giver has sent the offer.
    Offering,
    /// The API server has stored it.
    Offered,
    /// The taker is about to be told.
    Seen,
    /// The taker has sent its acceptance.
    Accepting,
    /// The API server has stored it.
    Accepted,
    /// The taker answers.
    Taken,
    /// The taker's announcement is on the wire.
    Announced,
    /// The giver is about to be told.
    Heard,
    /// The giver answers no more.
    LetGo,
}

/// All steps, in their order.
pub(crate) const STEPS: [Step; 10] = [
    Step::Switched,
    Step::Offering,
    Step::Offered,
    Step::Seen,
    Step::Accepting,
    Step::Accepted,
    Step::Taken,
    Step::Announced,
    Step::Heard,
    Step::LetGo,
];

/// A node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Who {
    /// The one of this number.
    Node(u8),
    /// Who hands over, in the step that was waited for.
    Giver,
    /// Who is handed to.
    Taker,
}

/// The kinds of object that a node watches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Leases.
    Lease,
    /// Claims.
    Claim,
    /// Nodes.
    Node,
    /// Services, and what comes with them.
    Demand,
}

/// All kinds.
pub(crate) const KINDS: [Kind; 4] = [Kind::Lease, Kind::Claim, Kind::Node, Kind::Demand];

/// How an agent is told to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Ending {
    /// It comes back.
    Restart,
    /// Its node goes away.
    Leave,
    /// It is being removed.
    Uninstall,
}

/// What Kubernetes says against a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Mark {
    /// Cordoned.
    Cordoned,
    /// Not ready.
    NotReady,
    /// Excluded from external load balancers.
    Excluded,
    /// The taint out-of-service.
    OutOfService,
    /// Its network is unavailable.
    NetworkUnavailable,
}

/// What befalls the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum What {
    /// An agent is killed, and started again after `back_ms`.
    Kill { who: Who, back_ms: Option<u32> },
    /// A node loses its power, and what the kernel knows.
    PowerOff { who: Who, back_ms: Option<u32> },
    /// An agent is stopped by a signal, and goes on later.
    Pause { who: Who, for_ms: u32 },
    /// A whole node stands still, with or without its clock.
    Freeze { who: Who, for_ms: u32, clock_too: bool },
    /// An agent is told to end.
    End { who: Who, how: Ending, back_ms: Option<u32> },
    /// An interface gets another MAC.
    ChangeMac { who: Who, segment: u8 },
    /// An interface loses its carrier.
    NoCarrier { who: Who, segment: u8, for_ms: u32 },
    /// The nodes of `side` (a bit each) and the others do not hear each other, and do not know.
    Partition { segment: u8, side: u8, for_ms: u32 },
    /// What one node sends does not reach another.
    Deaf { segment: u8, from: Who, to: Who, for_ms: u32 },
    /// Frames are lost.
    Lossy { segment: u8, percent: u8, for_ms: u32 },
    /// Frames are late.
    LateFrames { segment: u8, by_ms: u32, for_ms: u32 },
    /// A node does not reach the API server.
    CutOff { who: Who, refused: bool, for_ms: u32 },
    /// Nobody reaches the API server.
    ApiDown { refused: bool, for_ms: u32 },
    /// All watches begin anew.
    ApiRestart,
    /// Requests take long, before and after they are carried out.
    SlowApi { by_ms: u32, for_ms: u32 },
    /// A node's requests are carried out, and it does not learn so.
    NoAnswers { who: Who, for_ms: u32 },
    /// A watch is silent, while all else works.
    Stall { who: Who, kind: Kind, for_ms: u32 },
    /// A watch begins anew.
    Reset { who: Who, kind: Kind },
    /// Something is said against a node.
    Marked { who: Who, mark: Mark, for_ms: u32 },
    /// A Node object is gone.
    NodeGone { who: Who, for_ms: u32 },
    /// An operator wants a VIP moved.
    Move { vip: u8, to: Who },
    /// Only the nodes of `on` (a bit each) have endpoints.
    Local { vip: u8, on: u8, for_ms: u32 },
    /// No Service wants the VIP.
    Unwanted { vip: u8, for_ms: u32 },
    /// Somebody deletes a Lease.
    LeaseDeleted { who: Who },
    /// Somebody takes the session out of a Lease.
    LeaseBlanked { who: Who },
    /// Somebody writes another session into a Lease.
    LeaseEdited { who: Who },
    /// Somebody deletes a claim: nicely, or without regard to the finalizer.
    ClaimDeleted { vip: u8, finalized: bool },
    /// Somebody takes the holder out of a claim.
    ClaimBlanked { vip: u8 },
    /// Somebody writes another holder into a claim, one with a session.
    ClaimEdited { vip: u8, to: Who },
}

impl What {
    /// When it ends by itself.
    pub(crate) fn lasts(&self) -> Option<Duration> {
        let millis = match *self {
            Self::Pause { for_ms, .. }
            | Self::Freeze { for_ms, .. }
            | Self::NoCarrier { for_ms, .. }
            | Self::Partition { for_ms, .. }
            | Self::Deaf { for_ms, .. }
            | Self::Lossy { for_ms, .. }
            | Self::LateFrames { for_ms, .. }
            | Self::CutOff { for_ms, .. }
            | Self::ApiDown { for_ms, .. }
            | Self::SlowApi { for_ms, .. }
            | Self::NoAnswers { for_ms, .. }
            | Self::Stall { for_ms, .. }
            | Self::Marked { for_ms, .. }
            | Self::NodeGone { for_ms, .. }
            | Self::Local { for_ms, .. }
            | Self::Unwanted { for_ms, .. } => for_ms,
            Self::Kill { back_ms, .. } | Self::PowerOff { back_ms, .. } | Self::End { back_ms, .. } => {
                back_ms?
            }
            Self::ChangeMac { .. }
            | Self::ApiRestart
            | Self::Reset { .. }
            | Self::Move { .. }
            | Self::LeaseDeleted { .. }
            | Self::LeaseBlanked { .. }
            | Self::LeaseEdited { .. }
            | Self::ClaimDeleted { .. }
            | Self::ClaimBlanked { .. }
            | Self::ClaimEdited { .. } => return None,
        };
        Some(Duration::from_millis(millis.into()))
    }

    /// Whether it is what operators do on a good day: nothing may be unanswered because of it.
    pub(crate) fn is_planned(&self, timing: &Timing) -> bool {
        match *self {
            Self::End { how: Ending::Restart, back_ms, .. } => {
                back_ms.is_some_and(|back| back < timing.restart_lease_ms / 2)
            }
            Self::End { how: Ending::Leave, .. }
            | Self::Marked { .. }
            | Self::Move { .. }
            | Self::Local { .. }
            | Self::Unwanted { .. } => true,
            Self::End { how: Ending::Uninstall, .. }
            | Self::Kill { .. }
            | Self::PowerOff { .. }
            | Self::Pause { .. }
            | Self::Freeze { .. }
            | Self::ChangeMac { .. }
            | Self::NoCarrier { .. }
            | Self::Partition { .. }
            | Self::Deaf { .. }
            | Self::Lossy { .. }
            | Self::LateFrames { .. }
            | Self::CutOff { .. }
            | Self::ApiDown { .. }
            | Self::ApiRestart
            | Self::SlowApi { .. }
            | Self::NoAnswers { .. }
            | Self::Stall { .. }
            | Self::Reset { .. }
            | Self::NodeGone { .. }
            | Self::LeaseDeleted { .. }
            | Self::LeaseBlanked { .. }
            | Self::LeaseEdited { .. }
            | Self::ClaimDeleted { .. }
            | Self::ClaimBlanked { .. }
            | Self::ClaimEdited { .. } => false,
        }
    }

    /// The same, with other nodes.
    #[must_use]
    pub(crate) fn with(mut self, name: impl Fn(Who) -> Who) -> Self {
        match &mut self {
            Self::Deaf { from, to, .. } => (*from, *to) = (name(*from), name(*to)),
            Self::Kill { who, .. }
            | Self::PowerOff { who, .. }
            | Self::Pause { who, .. }
            | Self::Freeze { who, .. }
            | Self::End { who, .. }
            | Self::ChangeMac { who, .. }
            | Self::NoCarrier { who, .. }
            | Self::CutOff { who, .. }
            | Self::NoAnswers { who, .. }
            | Self::Stall { who, .. }
            | Self::Reset { who, .. }
            | Self::Marked { who, .. }
            | Self::NodeGone { who, .. }
            | Self::LeaseDeleted { who }
            | Self::LeaseBlanked { who }
            | Self::LeaseEdited { who }
            | Self::Move { to: who, .. }
            | Self::ClaimEdited { to: who, .. } => *who = name(*who),
            Self::Partition { .. }
            | Self::Lossy { .. }
            | Self::LateFrames { .. }
            | Self::ApiDown { .. }
            | Self::ApiRestart
            | Self::SlowApi { .. }
            | Self::Local { .. }
            | Self::Unwanted { .. }
            | Self::ClaimDeleted { .. }
            | Self::ClaimBlanked { .. } => {}
        }
        self
    }

    /// Whether it befalls one of these nodes, or what all nodes share.
    pub(crate) fn befalls(self, nodes: [usize; 2]) -> bool {
        let meant = std::cell::Cell::new(None);
        let _ = self.with(|who| {
            if let Who::Node(node) = who {
                meant.set(Some(usize::from(node)));
            }
            who
        });
        meant.get().is_none_or(|node| nodes.contains(&node))
    }
}
