//! Yields: asks the segment about yielded VIPs, and takes back those for which no peer answers.

use std::{collections::BTreeSet, net::IpAddr};

use tracing::{info, warn};
use vipward_core::{
    base::time::Monotonic,
    host::{placement::Desired, plan::Observed},
    segment::{
        probing,
        yields::{Command, Event, NoPeer},
    },
};

use super::{error::RunError, event_loop::EventLoop, source::Source, timing::now};

impl<S: Source> EventLoop<S> {
    /// Begins to ask about the VIPs that the program has yielded since the last reconciliation.
    /// Returns all VIPs that the segment is asked about.
    pub(super) fn ask_about_yields(
        &mut self,
        desired: &Desired,
        observed: &Observed,
        reclaim: bool,
    ) -> Result<BTreeSet<IpAddr>, RunError> {
        if reclaim {
            let asked: Vec<IpAddr> = self.yields.asked().collect();
            for vip in asked {
                self.tell_yields(Event::Decided(vip))?;
            }
            return Ok(BTreeSet::new());
        }
        let may = |vip| self.source.may_take_back(&self.config, vip);
        let commands = self.yields.on_observed(observed, desired, self.source.is_known(), may, now()?);
        for command in commands {
            if let Command::Ask(key) = command {
                let vip = key.addr;
                info!(%vip, "the VIP was yielded; asking whether a peer answers for it");
            }
            self.carry_out_asking(command)?;
        }
        Ok(self.yields.asked().collect())
    }

    /// Takes back the VIPs for which no peer has answered in time.
    pub(super) async fn take_back_yielded(&mut self, now: Monotonic) -> Result<(), RunError> {
        let may = |vip| self.source.may_take_back(&self.config, vip);
        let mut taken = BTreeSet::new();
        for NoPeer { key, from, take_back } in self.yields.on_tick(may, now) {
            self.carry_out_asking(Command::StopAsking(key))?;
            if take_back {
                let vip = key.addr;
                warn!(%vip, mac = %from, "no peer answers for the yielded VIP; this node takes it back");
                self.source.note_taken_back(vip, from, now);
                taken.insert(vip);
            }
        }
        if taken.is_empty() {
            return Ok(());
        }
        self.taking_back.clone_from(&taken);
        if self.source.is_known() {
            self.write_some(&taken).await;
        } else {
            // The source cannot place the VIPs yet.
            self.reconcile(false).await;
            self.yielded.retain(|vip, _| !taken.contains(vip));
        }
        self.taking_back.clear();
        Ok(())
    }

    /// Passes an event about a yielded VIP on, and carries out the commands.
    pub(super) fn tell_yields(&mut self, event: Event) -> Result<(), RunError> {
        for command in self.yields.on_event(event, now()?) {
            self.carry_out_asking(command)?;
        }
        Ok(())
    }

    fn carry_out_asking(&mut self, command: Command) -> Result<(), RunError> {
        match command {
            Command::Ask(key) => self.tell_prober(probing::Event::Wanted { key, often: true }),
            Command::StopAsking(key) => {
                // If a peer answers, the next reconciliation writes its MAC into the entry.
                self.settled = None;
                self.verify = now()?;
                self.stop_asking(key)
            }
        }
    }
}
