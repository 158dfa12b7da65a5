//! Repetitions and sizes of the measurements on one host.

use std::time::Duration;

/// VIPs of a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Load {
    pub(super) v4: u32,
    pub(super) v6: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Repetitions of a `TEST_RUN` and runs of the program in each.
    pub(super) cost: (usize, u32),
    /// Repetitions of a generator's run, its frames to Vipward, and its frames to the kernel's ARP.
    pub(super) rates: (usize, u32, u32),
    /// Repetitions of other traffic, datagrams of each, and the duration of each stream.
    pub(super) traffic: (usize, u32, Duration),
    /// Repetitions of loading each configuration.
    pub(super) loads: usize,
    /// Sizes of these configurations.
    pub(super) vips: &'static [Load],
    /// Announced VIPs, and configured frames per second.
    pub(super) announced: (u32, u32),
}

impl Effort {
    pub(super) const WHOLE: Self = Self {
        cost: (21, 1_000_000),
        rates: (9, 2_000_000, 500_000),
        traffic: (9, 300_000, Duration::from_millis(700)),
        loads: 3,
        vips: &[
            Load { v4: 1, v6: 0 },
            Load { v4: 4_096, v6: 0 },
            Load { v4: 65_536, v6: 0 },
            Load { v4: 32_768, v6: 32_768 },
            Load { v4: 0, v6: 65_536 },
        ],
        announced: (10_000, 5_000),
    };
    pub(super) const QUICK: Self = Self {
        cost: (7, 200_000),
        rates: (3, 500_000, 200_000),
        traffic: (3, 100_000, Duration::from_millis(200)),
        loads: 1,
        vips: &[Load { v4: 1, v6: 0 }, Load { v4: 65_536, v6: 0 }, Load { v4: 32_768, v6: 32_768 }],
        announced: (1_000, 1_000),
    };
}
