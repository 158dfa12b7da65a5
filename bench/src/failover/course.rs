//! The courses: how many nodes there are, how a dead one is noticed, and how long that may take.

use std::time::Duration;

use crate::report::Group;

#[derive(Clone, Copy)]
pub(super) struct Course {
    pub(super) group: Group,
    /// Name in the plot.
    pub(super) name: &'static str,
    pub(super) nodes: u8,
    /// The scale of wire failover. None if they read the Leases alone.
    pub(super) wire: Option<u8>,
    /// Number of nodes that are API servers, the holder among them. 0: the API server is no node.
    pub(super) api_servers: usize,
    /// True if a witness loses its power with the holder.
    pub(super) with_witness: bool,
    /// Number of crashes, in a full and in a quick measurement.
    pub(super) crashes: (u32, u32),
    pub(super) bars: Bars,
}

/// The bars: the longest times that are good enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bars {
    pub(super) median: Option<Duration>,
    pub(super) p99: Option<Duration>,
    pub(super) longest: Option<Duration>,
}

impl Bars {
    const NONE: Self = Self { median: None, p99: None, longest: None };
}

pub(super) const COURSES: [Course; 7] = [
    Course {
        group: Group::Failover,
        name: "wire failover, 3 nodes",
        nodes: 3,
        wire: Some(1),
        api_servers: 0,
        with_witness: false,
        crashes: (300, 6),
        bars: Bars {
            median: Some(Duration::from_millis(350)),
            p99: Some(Duration::from_millis(600)),
            ..Bars::NONE
        },
    },
    Course {
        group: Group::FailoverByDefault,
        name: "by default, 3 nodes",
        nodes: 3,
        wire: Some(2),
        api_servers: 0,
        with_witness: false,
        crashes: (30, 3),
        bars: Bars::NONE,
    },
    with_api_servers(Group::FailoverOfOneServerOfTwo, 2, "one of two API servers"),
    with_api_servers(Group::FailoverOfOneServerOfThree, 3, "one of three API servers"),
    Course {
        group: Group::FailoverOfTwo,
        name: "wire failover, 2 nodes",
        nodes: 2,
        wire: Some(1),
        api_servers: 0,
        with_witness: false,
        crashes: (30, 3),
        bars: Bars::NONE,
    },
    Course {
        group: Group::FailoverOfBoth,
        name: "holder and witness of 4",
        nodes: 4,
        wire: Some(1),
        api_servers: 0,
        with_witness: true,
        crashes: (30, 3),
        bars: Bars { longest: Some(Duration::from_millis(800)), ..Bars::NONE },
    },
    Course {
        group: Group::FailoverByLease,
        name: "Lease alone, 3 nodes",
        nodes: 3,
        wire: None,
        api_servers: 0,
        with_witness: false,
        crashes: (20, 2),
        bars: Bars { p99: Some(Duration::from_millis(5_500)), ..Bars::NONE },
    },
];

/// Returns the course in which the dead node also runs one of several API servers, by default.
const fn with_api_servers(group: Group, api_servers: usize, name: &'static str) -> Course {
    Course {
        group,
        name,
        nodes: 3,
        wire: Some(2),
        api_servers,
        with_witness: false,
        crashes: (30, 3),
        bars: Bars {
            median: Some(Duration::from_millis(650)),
            longest: Some(Duration::from_millis(1_200)),
            ..Bars::NONE
        },
    }
}
