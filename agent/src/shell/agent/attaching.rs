//! Attaches the program to interfaces, and logs the steps.

use tracing::{info, warn};
use vipward_core::host::{
    attaching::{self, Line},
    net::NetView,
};

use super::event_loop::EventLoop;
use crate::shell::{
    kernel::{bind, bpf::BpfError},
    logging::errors::chain,
};

impl EventLoop {
    /// Attaches the wanted interfaces, and detaches all others. The view gets the programs that run.
    pub(super) fn attach(&mut self, view: &mut NetView, wanted: &[u32]) -> Result<(), BpfError> {
        let mut lines = Vec::new();
        let setting = self.agent.config().attach;
        let attached = attaching::attach(&mut self.plane, view, setting, wanted, &mut lines);
        lines.into_iter().for_each(log);
        let interfaces = self.plane.attachments().attached().map(|(ifindex, _)| ifindex);
        self.inputs.netlink.watch_removals(interfaces);
        attached
    }

    /// Attaches a program again that sees no frame of a segment. Returns the view and the attachments
    /// after that. Returns `None` if it failed.
    pub(super) fn attach_again(&mut self, segment: u32) -> Option<Box<(NetView, attaching::Attachments)>> {
        let (mut view, mut lines) = (self.agent.view().clone(), Vec::new());
        let setting = self.agent.config().attach;
        let attached = attaching::attach_again(&mut self.plane, &mut view, setting, segment, &mut lines);
        lines.into_iter().for_each(log);
        match attached {
            Ok(()) => Some(Box::new((view, self.plane.attachments().clone()))),
            Err(error) => {
                let (interface, error) = (self.name(segment), chain(&error));
                warn!(interface, error, "the program could not be attached again; trying soon");
                None
            }
        }
    }

    /// Returns a warning for each interface on which the kernel may send ARP requests with a bound
    /// VIP as sender. The program cannot see those.
    pub(super) fn kernel_may_ask(&self, view: &NetView, binds_ipv4: bool) -> Vec<String> {
        let warning = |(ifindex, _)| bind::check_arp_announce(&view.name_of(ifindex));
        let attached = self.plane.attachments().attached().filter(|_| binds_ipv4);
        attached.filter_map(warning).map(|warning| warning.to_string()).collect()
    }
}

fn log(line: Line) {
    match line {
        Line::Attached { interface, through: Some(through), vlan, mode, mac, refused: _ } => {
            info!(%interface, vlan, through, %mode, %mac, "the program is attached");
        }
        Line::Attached { interface, through: None, vlan, mode, mac, refused } => {
            info!(%interface, vlan, %mode, %mac, refused, "the program is attached");
        }
        Line::Detached(interface, mode) => info!(%interface, %mode, "the program is detached"),
        Line::Stays(interface, mode, refused) => {
            info!(%interface, %mode, refused, "the program stays attached");
        }
        Line::NotThrough(interface, error) => {
            warn!(%interface, error, "the program is not attached through a lower interface");
        }
        Line::StripsTags(interface) => {
            let remedy = format!("ethtool -K {interface} rxvlan off");
            info!(
                %interface,
                remedy,
                "the program runs in mode tc, since the card removes VLAN tags before XDP sees them"
            );
        }
    }
}
