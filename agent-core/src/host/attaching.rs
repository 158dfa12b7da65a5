//! Hooks by which the program sees an interface's frames, the choice of one, and what is attached.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use vipward_common::VlanTag;

use crate::host::net::{Interface, NetView};

mod steps;
mod table;
#[cfg(test)]
mod tests;

pub use self::{
    steps::{Line, Programs, attach, attach_again},
    table::{Attachments, OwnProgram},
};

/// The hook of an attached program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// XDP in the driver, before the kernel makes a socket buffer.
    Native,
    /// The ingress of traffic control, beside the programs of others.
    Tc,
    /// XDP in the network stack, on any interface.
    Generic,
}

impl Mode {
    pub const ALL: [Self; 3] = [Self::Native, Self::Tc, Self::Generic];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Tc => "tc",
            Self::Generic => "generic",
        }
    }

    /// Returns true if the kernel runs this program in this mode on an interface.
    pub fn runs(self, interface: &Interface, program: u32) -> bool {
        match self {
            Self::Native | Self::Generic => interface.xdp_programs.contains(&program),
            // Where they may not be read, a pin is all that is known.
            Self::Tc => interface.tc_programs.as_ref().is_none_or(|programs| programs.contains(&program)),
        }
    }

    /// Returns true if a program in this mode runs on the interface's ports (`bond_xdp_set`).
    pub fn runs_on_ports(self, interface: &Interface) -> bool {
        self == Self::Native && interface.has_ports()
    }

    /// Records that the kernel runs this program in this mode, until the next observation.
    pub fn note(self, interface: &mut Interface, program: u32) {
        match self {
            Self::Native | Self::Generic => interface.xdp_programs.push(program),
            Self::Tc => interface.tc_programs.get_or_insert_default().insert(0, program),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Attach {
    /// Native mode where the interface is hardware and its driver takes the program, else tc.
    #[default]
    Auto,
    Native,
    Tc,
    Generic,
}

impl Attach {
    /// Returns the modes to try on an interface, in order.
    ///
    /// Software devices get tc. XDP on a VLAN, macvlan, bridge or bond device would exclude XDP on
    /// the devices below. Native XDP on a bond runs on its ports. A veth delivers native answers
    /// only if its other end runs XDP too. Generic XDP copies the segments of TCP. Hardware gets tc
    /// too if it takes the tags of its VLAN devices off before XDP.
    pub fn modes(self, interface: &Interface, view: &NetView) -> &'static [Mode] {
        match self {
            Self::Auto if interface.is_software() || view.hides_tags(interface, Mode::Native) => &[Mode::Tc],
            Self::Auto => &[Mode::Native, Mode::Tc],
            Self::Native => &[Mode::Native],
            Self::Tc => &[Mode::Tc],
            Self::Generic => &[Mode::Generic],
        }
    }
}

/// The next step for an interface that has a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<'a> {
    Keep,
    /// Attach a program in one of these better modes, and then detach this one. If it is refused, this
    /// one stays.
    Add(&'a [Mode]),
    /// Detach this program, and attach another.
    Replace,
}

impl<'a> Step<'a> {
    /// Returns the step for a program in `mode`. `modes` are wanted, the best first. `runs` is true if
    /// the kernel runs the program, `refused` if it has refused a better mode.
    ///
    /// XDP and traffic control run beside each other, so a change between them leaves no gap.
    pub fn of(modes: &'a [Mode], mode: Mode, runs: bool, refused: bool) -> Self {
        let at = modes.iter().position(|wanted| *wanted == mode);
        let better = &modes[..at.unwrap_or(modes.len())];
        let beside = better.iter().take_while(|other| (**other == Mode::Tc) != (mode == Mode::Tc)).count();
        if !runs {
            Self::Replace
        } else if better.is_empty() || at.is_some() && refused {
            Self::Keep
        } else if beside > 0 {
            Self::Add(&better[..beside])
        } else {
            Self::Replace
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhyNotNative {
    /// The interface is a software device.
    Software,
    /// The interface has VLAN devices, and takes their tags off.
    StripsTags,
    /// Another XDP program is on the interface, which takes one.
    Occupied,
    /// The driver has native XDP, but native mode was refused by the driver or the kernel, or not
    /// tried.
    Refused,
    NotOffered,
    /// The kernel does not report whether the driver has native XDP.
    Unknown,
}

impl WhyNotNative {
    pub fn of(interface: &Interface, view: &NetView, own: Option<u32>, offers_native: Option<bool>) -> Self {
        if interface.is_software() {
            return Self::Software;
        }
        if view.hides_tags(interface, Mode::Native) {
            return Self::StripsTags;
        }
        if interface.xdp_programs.iter().any(|id| Some(*id) != own) {
            return Self::Occupied;
        }
        match offers_native {
            Some(true) => Self::Refused,
            Some(false) => Self::NotOffered,
            None => Self::Unknown,
        }
    }

    /// Returns true if the VLAN offload of the interface's card is the only reason, provided that the
    /// driver has native XDP. Without service tags (802.1ad) it can be switched off.
    pub fn is_offload_alone(interface: &Interface, view: &NetView) -> bool {
        let is_service = |vlan: &Interface| vlan.vlan.is_some_and(VlanTag::is_service);
        let mut vlans = view.vlans_on(interface.index).peekable();
        interface.strips_tags && !interface.is_software() && vlans.peek().is_some() && !vlans.any(is_service)
    }
}
