//! Cables that lose frames: some or all of them, in either direction.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::host::Host;
use crate::{
    frames::Mac,
    kit::{Process, SpawnOptions},
};

/// Time limit of `tc`.
const LIMIT: Duration = Duration::from_secs(10);

/// Direction of frames on a host's cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From the host.
    Out,
    /// To the host.
    In,
}

/// Frames that a cable loses: those with everything that is given here.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Lost {
    /// Their source.
    pub from: Option<Mac>,
    pub ethertype: Option<u16>,
    /// Their share of what the others leave, at random.
    pub share: Option<f64>,
}

impl Host {
    /// Makes the cable of an interface lose frames from now on. Its ends have carrier as before.
    ///
    /// The first call of this or of [`Host::lose_nothing`] for a cable makes the kernel replace a queue,
    /// which loses frames for a moment.
    pub fn lose(&self, nic: &str, way: Way, lost: Lost) -> Result<()> {
        self.add_hooks(nic)?;
        let program = program(lost);
        let filter = ["filter", "replace", "dev", PORT, hook(way), "prio", "1", "handle", "1", "protocol"];
        self.tc(nic, &[&filter[..], &["all", "bpf", "da", "bytecode", &program]].concat())
    }

    /// Makes the cable of an interface lose nothing from now on.
    pub fn lose_nothing(&self, nic: &str) -> Result<()> {
        self.add_hooks(nic)?;
        [Way::Out, Way::In]
            .into_iter()
            .try_for_each(|way| self.tc(nic, &["filter", "delete", "dev", PORT, hook(way)]))
    }

    fn add_hooks(&self, nic: &str) -> Result<()> {
        self.tc(nic, &["qdisc", "replace", "dev", PORT, "clsact"])
    }

    /// Runs `tc` at the other end of a cable. [`PORT`] stands for the interface there.
    fn tc(&self, nic: &str, args: &[&str]) -> Result<()> {
        let (namespace, port) = self.far_end(nic)?;
        let mut command = Command::new("tc");
        command.args(args.iter().map(|arg| if *arg == PORT { port.as_str() } else { arg }));
        namespace.adopt(&mut command);
        let mut process = Process::spawn(command, &SpawnOptions::default())?;
        let status = process.wait(LIMIT).context("`tc` (package iproute2) has not ended")?;
        ensure!(status.success(), "`tc {}` failed: {}", args.join(" "), process.transcript());
        Ok(())
    }
}

const PORT: &str = "PORT";

/// Returns the hook of the far end that sees frames of this direction.
fn hook(way: Way) -> &'static str {
    match way {
        Way::Out => "ingress",
        Way::In => "egress",
    }
}

/// Returns a program of classic BPF, as `tc` takes it, that drops what is to be lost.
fn program(Lost { from, ethertype, share }: Lost) -> String {
    const LOAD_WORD: u16 = 0x20;
    const LOAD_HALF: u16 = 0x28;
    const IF_EQUAL: u16 = 0x15;
    const UNLESS_LESS: u16 = 0x35;
    const RETURN: u16 = 0x06;
    /// `SKF_AD_OFF + SKF_AD_RANDOM`
    const RANDOM: u32 = 0xffff_f000 + 56;
    /// `TC_ACT_SHOT` and `TC_ACT_UNSPEC`
    const VERDICTS: [u32; 2] = [2, u32::MAX];

    // What to load, and what to compare it with.
    let mut conditions = Vec::new();
    if let Some(Mac([a, b, c, d, e, f])) = from {
        conditions.push((LOAD_WORD, 6, IF_EQUAL, u32::from_be_bytes([a, b, c, d])));
        conditions.push((LOAD_HALF, 10, IF_EQUAL, u32::from(u16::from_be_bytes([e, f]))));
    }
    conditions.extend(ethertype.map(|ethertype| (LOAD_HALF, 12, IF_EQUAL, u32::from(ethertype))));
    conditions.extend(share.map(|share| (LOAD_WORD, RANDOM, UNLESS_LESS, threshold(share))));

    let count = 2 * conditions.len() + VERDICTS.len();
    let mut text = count.to_string();
    for (number, (load, from, compare, value)) in conditions.into_iter().enumerate() {
        // To the last instruction, if it is not so.
        let skipped = count - 2 * (number + 1) - 1;
        let (if_true, if_false) = if compare == UNLESS_LESS { (skipped, 0) } else { (0, skipped) };
        // Writing to a String cannot fail.
        let _ = write!(text, ",{load} 0 0 {from},{compare} {if_true} {if_false} {value}");
    }
    for verdict in VERDICTS {
        let _ = write!(text, ",{RETURN} 0 0 {verdict}");
    }
    text
}

/// Returns the number below which this share of all numbers of 32 bits is.
fn threshold(share: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
    let number = (share.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32;
    number
}

#[cfg(test)]
mod tests {
    use super::{Lost, program};
    use crate::frames::Mac;

    #[test]
    fn a_frame_is_lost_if_all_is_so_and_passes_otherwise() {
        let all =
            program(Lost { from: Some(Mac([2, 0, 0, 0, 1, 3])), ethertype: Some(0x88b5), share: Some(0.5) });
        let expected = "10,32 0 0 6,21 0 7 33554432,40 0 0 10,21 0 5 259,40 0 0 12,21 0 3 34997,\
                        32 0 0 4294963256,53 1 0 2147483647,6 0 0 2,6 0 0 4294967295";
        assert_eq!(all, expected);
        assert_eq!(program(Lost::default()), "2,6 0 0 2,6 0 0 4294967295");
    }
}
