//! The event loop in a cluster: passes the API server's objects to
//! the core, and carries out its commands.
//!
//! Other tasks read and write objects. This task alone decides and
//! changes the maps. It never waits for a request.

mod aspect;
mod conflicts;
mod execute;
mod failover;
mod intake;
mod interfaces;
mod messages;
mod probing;
mod showing;
mod source;
mod start;
mod wire;

use std::{collections::BTreeSet, future::pending, io};

use nix::unistd::gethostname;
use tokio::task::{self, JoinHandle};
use tracing::{error, info};
use vipward_common::{EventKind, MacAddr};
use vipward_core::{
    host::net::Vital,
    ownership::{self, StopReason, Wire},
    services,
};

use self::{
    failover::found,
    source::Cluster,
    start::{ownership_settings, start},
};
use super::{
    error::{RunError, system},
    event_loop::EventLoop,
    inputs::Heard,
    starting::{Desk, check_host},
    timing::now,
};
use crate::{
    cli::KubernetesArgs,
    shell::{
        kernel::bpf::{self, Loader},
        kube::{ConnectError, find_reason},
        logging::causes::chain,
        pages::metrics::Mode,
    },
};

/// Runs the agent of a cluster's node until a signal ends it.
pub async fn agent(args: KubernetesArgs) -> Result<(), RunError> {
    let loader = Loader::new();
    let host = gethostname().map_err(io::Error::from).map_err(system("read the host name"))?;
    let node = args.node_name.clone().unwrap_or_else(|| host.to_string_lossy().into_owned());
    if args.services.metallb && args.without_controller {
        return Err(RunError::NoPools);
    }
    let settings = ownership_settings(&args, &node)?;
    let _lock = check_host(&args.plane.pins)?;
    let pod = args.pod_address.and_then(|pod| pod.0);
    let desk = Desk::open(Mode::Kubernetes, &args.pages, pod).await?;
    let mut event_loop = Box::pin(start(&args, loader, settings, desk)).await?;
    while !event_loop.source.stopped {
        event_loop.turn().await?;
    }
    Box::pin(event_loop.end()).await
}

impl EventLoop<Cluster> {
    /// Waits for one thing and handles it.
    async fn turn(&mut self) -> Result<(), RunError> {
        let deadline = self.next_deadline();
        let others = [
            self.source.engine.next_deadline(),
            self.source.statuses.next_deadline(),
            self.source.shown.next_deadline(),
            self.source.messages.next_deadline(),
            self.source.services.index().next_deadline(),
        ];
        let deadline = others.into_iter().flatten().fold(deadline, Ord::min);
        let source = &mut self.source;
        let done = tokio::select! {
            biased;
            heard = self.inputs.hear(deadline) => self.on_heard(heard?).await,
            finding = found(&mut source.wire) => self.on_found(finding).await,
            Some(reply) = source.replies.recv() => self.on_replies(reply).await,
            Some(question) = self.questions.recv() => {
                self.on_question(question);
                Ok(())
            }
            why = found_out(&mut source.why) => self.on_why(why).await,
            Some(outcome) = source.messages.bulletin.event_written() => {
                source.messages.bulletin.on_event_written(outcome, now()?);
                Ok(())
            }
            Some(seen) = source.seen.recv() => self.on_seen(seen).await,
        };
        done?;
        self.tell_probed().await
    }

    async fn on_heard(&mut self, heard: Heard) -> Result<(), RunError> {
        match heard {
            Heard::Deadline => {
                self.decide(ownership::Event::Tick).await?;
                self.look_for_quiet().await?;
                self.heed_fence().await?;
                self.source.write_statuses_due(now()?);
                let looked_at = self.look_at_answers()?;
                self.show_answers(&looked_at, now()?);
                self.show_due()?;
                let Cluster { engine, services, messages, .. } = &mut self.source;
                messages.on_time(engine, services.index(), now()?);
                // The network is observed only then. Other deadlines
                // may come a thousand times a second.
                let verifies = self.host.next_deadline() <= now()?;
                self.on_deadline().await?;
                if verifies {
                    self.report_interfaces().await?;
                }
            }
            Heard::Stop(signal) => self.on_signal(signal),
            Heard::Hangup => info!("SIGHUP: there is no file to read again; the cluster is watched"),
            Heard::Network(changed) => {
                self.on_network(&changed).await?;
                self.report_interfaces().await?;
            }
            Heard::Events(events) => {
                self.on_program(&events)?;
                for event in &events {
                    let mac = MacAddr(event.sha);
                    let heard = match event.kind {
                        EventKind::Contested => Wire::Contested { mac },
                        EventKind::Moved => Wire::Moved { mac },
                        // The yield is passed on after it has been read back.
                        EventKind::Yielded | EventKind::Conflict | EventKind::Sighted | EventKind::Probed => {
                            continue;
                        }
                    };
                    self.decide(ownership::Event::Wire { vip: event.key().addr, heard }).await?;
                }
                self.tell_engine_of_yields().await?;
            }
            Heard::Round(report) => self.on_round(&report).await?,
            Heard::Nothing => {}
        }
        Ok(())
    }

    /// Writes the program's yields into the entries, and passes them to the engine.
    async fn tell_engine_of_yields(&mut self) -> Result<(), RunError> {
        for (vip, mac) in self.settle_yields().await? {
            self.decide(ownership::Event::Wire { vip, heard: Wire::Yielded { mac } }).await?;
        }
        Ok(())
    }

    /// Ends contests over statuses that have been quiet for long enough.
    async fn look_for_quiet(&mut self) -> Result<(), RunError> {
        let now = now()?;
        let told = self.source.services.on_time(now);
        let commands = self.serve(told, now);
        self.execute(commands).await
    }

    /// Lifts the guards over what leads to the API server while this node may be behind: what it knows
    /// of holders may be untrue by now, and it must be able to learn that.
    async fn heed_fence(&mut self) -> Result<(), RunError> {
        let is_behind = self.source.engine.is_behind(now()?);
        if self.source.services.index().is_behind() == is_behind {
            return Ok(());
        }
        let served = self.source.services.on_event(services::Event::Behind(is_behind));
        let owned = self.serve(served, now()?);
        self.execute(owned).await?;
        let Vital { api_servers, next_hops } = self.source.services.index().vital();
        let mut guarded: BTreeSet<_> = api_servers.union(&next_hops).copied().collect();
        guarded.retain(|vip| self.source.assigned.contains_key(vip));
        if !guarded.is_empty() {
            self.write_some(&guarded).await;
        }
        Ok(())
    }

    /// Begins to find out why the agent is to end. That may take seconds, and the agent goes on
    /// meanwhile. Further signals change nothing: the end is near already.
    fn on_signal(&mut self, signal: &'static str) {
        if self.source.stopping.is_some() || self.source.why.is_some() {
            return;
        }
        info!(signal, "signal to end; finding out why");
        let (kube, pod) = (self.source.kube.clone(), self.source.pod.clone());
        self.source.why = Some(task::spawn(async move { find_reason(&kube, pod.as_deref()).await }));
    }

    async fn on_why(&mut self, reason: StopReason) -> Result<(), RunError> {
        self.source.why = None;
        self.source.stopping = Some(reason);
        info!(reason = messages::reason_name(reason), "the agent ends");
        self.decide(ownership::Event::Stop(reason)).await
    }

    /// Ends the agent. Withdraws the VIPs and unpins everything if Vipward is uninstalled.
    async fn end(mut self) -> Result<(), RunError> {
        match self.source.stopping {
            Some(StopReason::Uninstall) => {
                self.withdraw().await?;
                let pin_dir = self.source.pin_dir.clone();
                drop(self);
                for removed in bpf::unload(&pin_dir)? {
                    info!(removed, "removed");
                }
                info!("Vipward is being removed: every VIP is withdrawn, and nothing is pinned any more");
            }
            Some(StopReason::Leave) => info!("the node goes away; other nodes have its VIPs"),
            Some(StopReason::Restart) | None => {
                info!("agent ends; the pinned program answers on, under the fence's policy");
            }
        }
        Ok(())
    }
}

/// Returns the reason why the agent is to end. Never resolves before a signal asks it to end.
async fn found_out(why: &mut Option<JoinHandle<Result<StopReason, ConnectError>>>) -> StopReason {
    let Some(task) = why else { return pending().await };
    match task.await {
        Ok(Ok(reason)) => reason,
        Ok(Err(error)) => unclear(error),
        Err(error) => unclear(error),
    }
}

fn unclear(error: impl std::error::Error + Send + Sync + 'static) -> StopReason {
    error!(error = chain(&error), "failed to find out why the agent is to end; assuming a restart");
    StopReason::Restart
}
