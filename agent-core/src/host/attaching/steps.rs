//! The steps that bring the attachments to what is wanted, by what the kernel accepts.

use std::collections::{BTreeMap, BTreeSet};

use vipward_common::{MacAddr, VlanKey};

use super::{Attach, Attachments, Mode, Step, WhyNotNative};
use crate::host::{
    net::{Interface, NetView},
    stack::Point,
};

#[cfg(test)]
mod tests;

/// The programs of a kernel, with the table of them, which each change of a program changes too: `attach`
/// and `detach_own` the entry of an interface, `lead` its keys.
pub trait Programs {
    type Error;

    fn attachments(&self) -> &Attachments;
    fn attachments_mut(&mut self) -> &mut Attachments;
    /// Attaches a program to an interface, in the place of another one in this mode.
    fn attach(&mut self, interface: &Interface, mode: Mode) -> Result<(), Self::Error>;
    /// Assigns the frames with these keys to an interface, and no others.
    fn lead(&mut self, ifindex: u32, keys: BTreeSet<VlanKey>) -> Result<(), Self::Error>;
    /// Detaches all programs from an interface.
    fn detach_own(&mut self, ifindex: u32) -> Result<(), Self::Error>;
    /// Detaches the program of a mode from an interface that has another one.
    fn detach_mode(&mut self, ifindex: u32, mode: Mode) -> Result<(), Self::Error>;
    /// Returns true if the driver of an interface has native XDP, as far as the kernel reports it.
    fn offers_native(&self, ifindex: u32) -> bool;
    /// Returns true if another mode may work after this error.
    fn is_about_the_mode(error: &Self::Error) -> bool;
    /// Returns an error with its causes.
    fn in_words(error: &Self::Error) -> String;
}

/// A line for the log, about an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    Attached {
        interface: String,
        /// The interface whose own program sees the frames, if it is another one.
        through: Option<String>,
        vlan: Option<u16>,
        mode: Mode,
        mac: MacAddr,
        /// The error of a better mode.
        refused: Option<String>,
    },
    Detached(String, Mode),
    /// A better mode was refused with this error.
    Stays(String, Mode, String),
    /// It has no program on a lower interface, for this error, and gets one of its own.
    NotThrough(String, String),
    /// It is in tc only because the card takes VLAN tags off.
    StripsTags(String),
}

/// Attaches the wanted interfaces, and detaches all others. The table gets those that fail, and the view
/// the programs that run. Lines that were added before an error stay.
pub fn attach<P: Programs>(
    programs: &mut P,
    view: &mut NetView,
    setting: Attach,
    wanted: &[u32],
    lines: &mut Vec<Line>,
) -> Result<(), P::Error> {
    Attaching { programs, view, setting, lines }.attach(wanted)
}

/// Attaches a native program again that sees none of a segment's frames. A driver may have lost it
/// while the interface was down, as vmxnet3 does on Linux 6.12. On a bond the ports' entries are
/// missing instead.
pub fn attach_again<P: Programs>(
    programs: &mut P,
    view: &mut NetView,
    setting: Attach,
    segment: u32,
    lines: &mut Vec<Line>,
) -> Result<(), P::Error> {
    let interface = programs.attachments().native_point(view, segment).cloned();
    interface.map_or(Ok(()), |it| Attaching { programs, view, setting, lines }.replace_own(&it))
}

struct Attaching<'a, P> {
    programs: &'a mut P,
    view: &'a mut NetView,
    setting: Attach,
    lines: &'a mut Vec<Line>,
}

impl<P: Programs> Attaching<'_, P> {
    fn attach(&mut self, wanted: &[u32]) -> Result<(), P::Error> {
        let mut unattached = BTreeMap::new();
        // The program of a lower interface may see the frames of those above it.
        let mut bottom_up: Vec<u32> =
            wanted.iter().copied().filter(|ifindex| self.view.interfaces.contains_key(ifindex)).collect();
        bottom_up.sort_by_key(|ifindex| self.view.path(*ifindex).len());
        for ifindex in bottom_up {
            let interface = self.view.interfaces[&ifindex].clone();
            let point = self.programs.attachments().point_below(self.view, &interface, wanted);
            let through = point.map(|point| self.attach_through(&interface, &point));
            if let Some(Err(error)) = &through {
                self.lines.push(Line::NotThrough(interface.name.clone(), P::in_words(error)));
            }
            if !matches!(through, Some(Ok(())))
                && let Err(error) = self.attach_own(&interface).and_then(|()| self.lead_own(&interface))
            {
                unattached.insert(ifindex, P::in_words(&error));
            }
        }
        let attachments = self.programs.attachments_mut();
        attachments.forget_gone(self.view);
        attachments.set_unattached(unattached);
        let attached: Vec<(u32, Mode)> = attachments.attached().collect();
        for (ifindex, mode) in attached {
            if !wanted.contains(&ifindex) || !self.view.interfaces.contains_key(&ifindex) {
                self.programs.lead(ifindex, BTreeSet::new())?;
                self.programs.detach_own(ifindex)?;
                self.lines.push(Line::Detached(self.view.name_of(ifindex), mode));
            }
        }
        Ok(())
    }

    fn lead_own(&mut self, interface: &Interface) -> Result<(), P::Error> {
        let keys = self.programs.attachments().own_keys(self.view, interface);
        self.programs.lead(interface.index, keys)
    }

    /// Has the program of a lower interface decide about a VLAN device's frames, instead of one of its
    /// own.
    fn attach_through(&mut self, device: &Interface, point: &Point) -> Result<(), P::Error> {
        let keys = self.view.keys_of(point);
        let attachments = self.programs.attachments();
        if attachments.own(device.index).is_none() && attachments.keys_of(device.index) == keys {
            return Ok(());
        }
        self.programs.lead(device.index, keys)?;
        self.programs.detach_own(device.index)?;
        self.record_attached(device, point.mode, Some(self.view.name_of(point.ifindex)), None);
        Ok(())
    }

    /// Attaches a program to an interface, in a mode that is wanted there.
    fn attach_own(&mut self, interface: &Interface) -> Result<(), P::Error> {
        let ifindex = interface.index;
        let modes = self.setting.modes(interface, self.view);
        let attachments = self.programs.attachments();
        let step = attachments.step(self.view, self.setting, interface);
        let (Some(own), Some(step)) = (attachments.own(ifindex), step) else {
            return self.attach_in(interface, modes);
        };
        let (name, mode) = (interface.name.clone(), own.mode);
        match step {
            Step::Keep => Ok(()),
            Step::Add(better) => match self.attach_in(interface, better) {
                Ok(()) => {
                    self.programs.detach_mode(ifindex, mode)?;
                    self.lines.push(Line::Detached(name, mode));
                    Ok(())
                }
                Err(error) if P::is_about_the_mode(&error) && modes.contains(&mode) => {
                    self.lines.push(Line::Stays(name, mode, P::in_words(&error)));
                    self.programs.attachments_mut().refuse(ifindex);
                    Ok(())
                }
                Err(error) => Err(error),
            },
            Step::Replace => self.replace_own(interface),
        }
    }

    /// Detaches an interface's own program, and attaches one.
    fn replace_own(&mut self, interface: &Interface) -> Result<(), P::Error> {
        if let Some(own) = self.programs.attachments().own(interface.index) {
            self.programs.detach_own(interface.index)?;
            self.lines.push(Line::Detached(interface.name.clone(), own.mode));
        }
        let modes = self.setting.modes(interface, self.view);
        self.attach_in(interface, modes)
    }

    /// Attaches in the first of some modes that the interface accepts.
    fn attach_in(&mut self, interface: &Interface, modes: &[Mode]) -> Result<(), P::Error> {
        let mut refused: Option<P::Error> = None;
        for mode in modes {
            match self.programs.attach(interface, *mode) {
                Ok(()) => {
                    if refused.is_some() {
                        self.programs.attachments_mut().refuse(interface.index);
                    }
                    self.record_attached(interface, *mode, None, refused.as_ref().map(P::in_words));
                    let own = self.programs.attachments().own(interface.index);
                    if let Some(interface) = self.view.interfaces.get_mut(&interface.index) {
                        mode.note(interface, own.map(|own| own.id).unwrap_or_default());
                    }
                    return Ok(());
                }
                Err(error) if P::is_about_the_mode(&error) => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        refused.map_or(Ok(()), Err)
    }

    fn record_attached(
        &mut self,
        interface: &Interface,
        mode: Mode,
        through: Option<String>,
        refused: Option<String>,
    ) {
        let (vlan, mac) = (interface.vlan_id(), interface.mac);
        let strips_tags = through.is_none()
            && mode == Mode::Tc
            && WhyNotNative::is_offload_alone(interface, self.view)
            && self.programs.offers_native(interface.index);
        let interface = interface.name.clone();
        let remark = strips_tags.then(|| Line::StripsTags(interface.clone()));
        self.lines.push(Line::Attached { interface, through, vlan, mode, mac, refused });
        self.lines.extend(remark);
    }
}
