//! Measures VIPs as other hosts and applications see them, and draws the results.
//!
//! - [`ArpProbe`]: a thousand requests a second, with the sources and times of the answers.
//! - [`Monitor`]: several VIPs on the wire: gaps, double answers, moves, announcements.
//! - [`Datagrams`]: the datagrams of a client's kernel, and the nodes that received them.
//! - [`prometheus`], [`chart`]: a real Prometheus, and its series as a drawing.

pub mod chart;
mod datagrams;
mod monitor;
mod probe;
pub mod prometheus;

pub use self::{
    datagrams::{DatagramReport, Datagrams, INTERVAL, Interruption, Received, bind_locally, unbind_locally},
    monitor::{
        Announcement, AnnouncementForm, Double, DoubleKind, Gap, Monitor, MonitorReport, Move, Note,
        VipReport,
    },
    probe::{ANSWER_LIMIT, Answer, Answerer, ArpProbe, ProbeMode, ProbeReport, Request},
};
