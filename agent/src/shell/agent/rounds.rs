//! A round of listening on a segment: sends requests to its hosts, and counts the frames that arrive.
//!
//! A round is a task with sockets of its own, one for each protocol and one for this host's own frames,
//! which end with it. It sends in this host's own name alone: the event loop, which knows what is held,
//! sends in the name of VIPs.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use tokio::{
    sync::mpsc::UnboundedSender,
    task::spawn_blocking,
    time::{Instant, sleep_until},
};
use tracing::debug;
use vipward_common::MacAddr;
use vipward_core::segment::{
    egress, frame::Frame, inquiry::Answered, own_frames::OwnFrames, proving::LISTEN,
};

use crate::shell::{
    kernel::segment::{Receiving, Segment, SegmentError},
    logging::errors::chain,
};

/// The most frames that a round counts. More prove nothing more.
const MOST_FRAMES: u32 = 256;
/// The most frames that a round reads which waits for answers.
const MOST_READ: u32 = 4_096;

/// News of a round that has not ended.
#[derive(Debug)]
pub(super) enum News {
    /// The first frame of another host has come on this segment.
    Heard(u32),
    /// A host has answered the own address.
    Answered { segment: u32, round: u64, host: IpAddr, mac: MacAddr, own: IpAddr },
    /// Half of the round is over, and these VIPs were answered.
    Halfway { segment: u32, round: u64, heard: BTreeSet<IpAddr> },
}

#[derive(Debug)]
pub(super) struct Round {
    pub(super) segment: u32,
    pub(super) number: u64,
    pub(super) interface: String,
    /// The interface's MAC. A switch may send this host's frames back.
    pub(super) own: MacAddr,
    pub(super) news: UnboundedSender<News>,
    pub(super) questions: Vec<Frame>,
    /// The source addresses of the questions.
    pub(super) sources: BTreeSet<IpAddr>,
    /// The VIPs of other nodes for which it asks.
    pub(super) of_others: BTreeMap<IpAddr, OfOther>,
    /// The program's count at the beginning.
    pub(super) counted: u64,
}

#[derive(Debug)]
pub(super) struct Report {
    pub(super) segment: u32,
    pub(super) number: u64,
    pub(super) counted_before: u64,
    pub(super) frames: u32,
    read: u32,
    is_heard: bool,
    /// True if silent VIPs of others have been asked for by unicast.
    asks_by_unicast: bool,
    /// Sender of the first frame.
    pub(super) first: Option<(IpAddr, MacAddr)>,
    pub(super) requested: BTreeSet<IpAddr>,
    pub(super) egress: egress::Outcome,
    /// The VIPs of other nodes for which it has asked, with their holders' answers.
    pub(super) of_others: BTreeMap<IpAddr, Option<Answered>>,
    pub(super) own: OwnFrames,
}

/// A VIP of another node.
#[derive(Debug)]
pub(super) struct OfOther {
    /// The holder's MAC.
    pub(super) mac: MacAddr,
    /// The source address of the questions.
    pub(super) own: IpAddr,
    /// The questions: to all, and by unicast.
    pub(super) questions: [Frame; 2],
}

impl Round {
    pub(super) async fn run(self) -> Report {
        let mut report = Report {
            segment: self.segment,
            number: self.number,
            counted_before: self.counted,
            frames: 0,
            read: 0,
            is_heard: false,
            asks_by_unicast: false,
            first: None,
            requested: BTreeSet::new(),
            egress: egress::Outcome::default(),
            of_others: BTreeMap::new(),
            own: OwnFrames::default(),
        };
        if let Err(error) = self.listen(&mut report).await {
            report.egress.has_lost = true;
            debug!(interface = self.interface, error = chain(&error), "failed to listen");
        }
        report
    }

    async fn listen(&self, report: &mut Report) -> Result<(), SegmentError> {
        let open = |receiving| Segment::open(self.segment, &self.interface, receiving);
        let segments = [open(Receiving::Arp)?, open(Receiving::Nd)?, open(Receiving::From(self.own))?];
        let heard = self.listen_on(&segments, report).await;
        // To close one, the kernel waits for a grace period of RCU (`packet_release`), which is about 20 ms.
        spawn_blocking(move || drop(segments));
        heard
    }

    async fn listen_on(&self, segments: &[Segment; 3], report: &mut Report) -> Result<(), SegmentError> {
        let began = Instant::now();
        self.send_requests(&segments[0])?;
        for (vip, OfOther { questions: [to_all, _], .. }) in &self.of_others {
            segments[0].send(to_all)?;
            report.of_others.insert(*vip, None);
        }
        self.take_until(report, segments, (began, LISTEN / 2)).await?;
        for (vip, OfOther { questions: [_, by_unicast], .. }) in &self.of_others {
            if report.of_others.get(vip) == Some(&None) {
                segments[0].send(by_unicast)?;
            }
        }
        report.asks_by_unicast = true;
        if report.frames == 0 {
            self.send_requests(&segments[0])?;
        }
        if !report.egress.answers.is_empty() {
            let heard = report.egress.answers.values().flat_map(|it| &it.vips).copied().collect();
            self.notify(News::Halfway { segment: self.segment, round: self.number, heard });
        }
        self.take_until(report, segments, (began, LISTEN)).await?;
        let is_cut_off = report.read >= MOST_READ;
        report.egress.has_lost = is_cut_off || segments[0].has_lost()? || segments[1].has_lost()?;
        Ok(())
    }

    fn notify(&self, news: News) {
        // The receiver lives as long as the event loop, which ends this task with it.
        _ = self.news.send(news);
    }

    fn send_requests(&self, segment: &Segment) -> Result<(), SegmentError> {
        self.questions.iter().try_for_each(|question| segment.send(question))
    }

    async fn take_until(
        &self,
        report: &mut Report,
        [arp, nd, own]: &[Segment; 3],
        (began, duration): (Instant, Duration),
    ) -> Result<(), SegmentError> {
        let most = |report: &Report| if report.egress.answers.is_empty() { MOST_FRAMES } else { MOST_READ };
        let mut own_frames = 0;
        while report.read < most(report) {
            let frame = tokio::select! {
                // A frame that came in time counts, however late this task is.
                biased;
                frame = arp.receive() => frame?,
                frame = nd.receive() => frame?,
                own = own.receive_both_ways(), if own_frames < MOST_FRAMES => {
                    let (frame, is_outgoing) = own?;
                    own_frames += 1;
                    report.own.on_frame(frame, is_outgoing, began.elapsed());
                    continue;
                }
                () = sleep_until(began + duration) => return Ok(()),
            };
            report.read += 1;
            report.frames = report.read.min(MOST_FRAMES);
            let Some(said) = frame.said() else { continue };
            if said.mac != self.own && !std::mem::replace(&mut report.is_heard, true) {
                self.notify(News::Heard(self.segment));
            }
            if said.mac != self.own
                && let (Some(host), Some(to)) = (said.claimed, frame.answers())
            {
                self.on_answer(report, (host, said.mac), to);
            }
            report.first = report.first.or_else(|| Some((said.claimed?, said.mac)));
            // The program passes on a request from the VIP itself.
            report.requested.extend(said.asked.filter(|_| said.asked != said.claimed));
        }
        Ok(())
    }

    /// Handles the answer of a host to one of this host's addresses.
    fn on_answer(&self, report: &mut Report, (host, mac): (IpAddr, MacAddr), to: IpAddr) {
        if let Some(asked) = self.of_others.get(&host) {
            let answered = if report.asks_by_unicast { Answered::ToUnicast } else { Answered::ToAll };
            if (asked.mac, asked.own) == (mac, to) {
                report.of_others.entry(host).or_default().get_or_insert(answered);
            }
            return;
        }
        let answers = report.egress.answers.entry(host).or_default();
        if !self.sources.contains(&to) {
            answers.vips.insert(to);
            return;
        }
        answers.own += 1;
        if answers.own == 1 {
            self.notify(News::Answered { segment: self.segment, round: self.number, host, mac, own: to });
        }
    }
}
