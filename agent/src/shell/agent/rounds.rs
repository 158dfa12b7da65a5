//! A round of listening on a segment: sends requests to its hosts, and counts the frames that arrive.
//!
//! A round is a task with sockets of its own, one for each protocol, which end with it.

use std::{collections::BTreeSet, net::IpAddr};

use tokio::{
    sync::mpsc::UnboundedSender,
    time::{Instant, sleep_until},
};
use tracing::debug;
use vipward_common::MacAddr;
use vipward_core::segment::{frame::Frame, proving::LISTEN};

use crate::shell::{
    kernel::segment::{Receiving, Segment, SegmentError},
    logging::errors::chain,
};

/// The most frames that a round reads. More prove nothing more.
const MOST_FRAMES: u32 = 256;

#[derive(Debug)]
pub(super) struct Round {
    pub(super) segment: u32,
    pub(super) number: u64,
    pub(super) interface: String,
    /// The interface's MAC. A switch may send this host's frames back.
    pub(super) own: MacAddr,
    /// Receives the segment when the first frame of another host has come.
    pub(super) heard: UnboundedSender<u32>,
    pub(super) questions: Vec<Frame>,
    /// The program's count at the beginning.
    pub(super) counted: u64,
}

#[derive(Debug)]
pub(super) struct Report {
    pub(super) segment: u32,
    pub(super) number: u64,
    pub(super) counted_before: u64,
    pub(super) frames: u32,
    is_heard: bool,
    /// Sender of the first frame.
    pub(super) first: Option<(IpAddr, MacAddr)>,
    pub(super) requested: BTreeSet<IpAddr>,
}

impl Round {
    pub(super) async fn run(self) -> Report {
        let mut report = Report {
            segment: self.segment,
            number: self.number,
            counted_before: self.counted,
            frames: 0,
            is_heard: false,
            first: None,
            requested: BTreeSet::new(),
        };
        if let Err(error) = self.listen(&mut report).await {
            debug!(interface = self.interface, error = chain(&error), "failed to listen");
        }
        report
    }

    async fn listen(&self, report: &mut Report) -> Result<(), SegmentError> {
        let began = Instant::now();
        let open = |receiving| Segment::open(self.segment, &self.interface, receiving);
        let segments = (open(Receiving::Arp)?, open(Receiving::Nd)?);
        self.send_requests(&segments.0)?;
        self.take_until(report, &segments, began + LISTEN / 2).await?;
        if report.frames == 0 {
            self.send_requests(&segments.0)?;
        }
        self.take_until(report, &segments, began + LISTEN).await
    }

    fn send_requests(&self, segment: &Segment) -> Result<(), SegmentError> {
        self.questions.iter().try_for_each(|question| segment.send(question))
    }

    async fn take_until(
        &self,
        report: &mut Report,
        (arp, nd): &(Segment, Segment),
        end: Instant,
    ) -> Result<(), SegmentError> {
        while report.frames < MOST_FRAMES {
            let frame = tokio::select! {
                frame = arp.receive() => frame?,
                frame = nd.receive() => frame?,
                () = sleep_until(end) => return Ok(()),
            };
            report.frames += 1;
            let Some(said) = frame.said() else { continue };
            if said.mac != self.own && !std::mem::replace(&mut report.is_heard, true) {
                // The receiver lives as long as the event loop, which ends this task with it.
                _ = self.heard.send(self.segment);
            }
            report.first = report.first.or_else(|| Some((said.claimed?, said.mac)));
            // The program passes on a request from the VIP itself.
            report.requested.extend(said.asked.filter(|_| said.asked != said.claimed));
        }
        Ok(())
    }
}
