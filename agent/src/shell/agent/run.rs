//! The event loop: waits for one input, and steps the agent.

use tokio::sync::mpsc;
use tracing::info;
use vipward_core::{
    agent::{Input, cluster::Input as ClusterInput},
    base::time::Monotonic,
};

use super::{
    cluster,
    error::RunError,
    event_loop::{EventLoop, Outer},
    executing::listened,
    inputs::Received,
    reading::Read,
    rounds::News,
    service::Service,
    timing::now,
};
use crate::shell::endpoints::Question;

/// An input from the source of VIPs, or a question of the endpoints.
enum SourceEvent {
    /// The file was read.
    File(Read),
    Question(Question),
    Cluster(Box<cluster::ClusterEvent>),
}

/// Returns the next input. Safe to cancel.
async fn next(outer: &mut Outer, questions: &mut mpsc::Receiver<Question>) -> Result<SourceEvent, RunError> {
    match outer {
        Outer::File(reading) => tokio::select! {
            biased;
            read = reading.next() => Ok(SourceEvent::File(read?)),
            Some(question) = questions.recv() => Ok(SourceEvent::Question(question)),
        },
        Outer::Cluster(cluster) => Ok(match cluster.next(questions).await {
            Ok(event) => SourceEvent::Cluster(Box::new(event)),
            Err(question) => SourceEvent::Question(question),
        }),
    }
}

impl EventLoop {
    /// Runs until the agent has ended.
    pub(super) async fn run(&mut self) -> Result<(), RunError> {
        while !self.is_stopped {
            self.turn().await?;
        }
        Ok(())
    }

    async fn turn(&mut self) -> Result<(), RunError> {
        let deadline = self.next_deadline();
        tokio::select! {
            biased;
            received = self.inputs.receive(deadline) => self.on_received(received?).await,
            event = next(&mut self.outer, &mut self.questions) => self.on_source_event(event?).await,
        }?;
        self.notify_service()
    }

    fn next_deadline(&self) -> Monotonic {
        let outer = match &self.outer {
            Outer::File(_) => None,
            Outer::Cluster(cluster) => cluster.next_deadline(),
        };
        let service = self.service.as_ref().and_then(Service::next_deadline);
        let others = [self.log.next_deadline(), outer, service];
        others.into_iter().flatten().fold(self.agent.next_deadline(), Ord::min)
    }

    async fn on_received(&mut self, received: Received) -> Result<(), RunError> {
        match received {
            Received::Deadline => {
                self.report_overload().await?;
                self.step(Input::Deadline).await?;
                let now = now()?;
                self.log.on_time(now);
                if let Some(cluster) = self.outer.cluster() {
                    cluster.on_time(&self.agent, now);
                }
            }
            Received::Stop(signal) => match &mut self.outer {
                Outer::File(reading) => {
                    reading.stopped_by = Some(signal);
                    if let Some(service) = &mut self.service {
                        service.stopping();
                    }
                    self.step(Input::Stop).await?;
                }
                Outer::Cluster(cluster) => cluster.on_signal(signal),
            },
            Received::Hangup => match &mut self.outer {
                Outer::File(reading) => reading.want(true),
                Outer::Cluster(_) => {
                    info!("SIGHUP has no effect: there is no file to read again, and the cluster is watched");
                }
            },
            Received::Network(changed) => self.step(Input::Changed(changed)).await?,
            Received::Events(events) => {
                self.report_overload().await?;
                self.step(Input::Program(events)).await?;
            }
            Received::Round(report) => {
                let listened = listened(self.plane.maps(), &report)?;
                self.step(Input::Listened(listened)).await?;
            }
            Received::Told(key, mac, answerer) => self.step(Input::Told { key, mac, answerer }).await?,
            Received::Stated(all) => {
                for stated in all {
                    self.step(Input::Stated(stated)).await?;
                }
            }
            Received::News(News::Heard(segment)) => self.step(Input::Heard(segment)).await?,
            Received::News(News::Answered { segment, round, host, mac, own }) => {
                self.step(Input::Answered { segment, round, host, mac, own }).await?;
            }
            Received::News(News::Halfway { segment, round, heard }) => {
                self.step(Input::Halfway { segment, round, heard }).await?;
            }
            Received::Watch => self.watch().await?,
            Received::Nothing => {}
        }
        Ok(())
    }

    async fn on_source_event(&mut self, event: SourceEvent) -> Result<(), RunError> {
        match event {
            SourceEvent::File(read) => {
                let Outer::File(reading) = &mut self.outer else { return Ok(()) };
                let file = reading.on_read(read);
                self.step(Input::File(file)).await
            }
            SourceEvent::Question(question) => {
                self.on_question(question);
                Ok(())
            }
            SourceEvent::Cluster(event) => {
                let Outer::Cluster(cluster) = &mut self.outer else { return Ok(()) };
                match cluster.on_event(*event, &mut self.plane, now()?)? {
                    Some(input) => self.step(Input::Cluster(input)).await,
                    None => Ok(()),
                }
            }
        }
    }

    /// Steps the agent when an overload with claims begins or ends.
    async fn report_overload(&mut self) -> Result<(), RunError> {
        let Some(overloaded) = self.outer.cluster().and_then(cluster::Cluster::overloaded) else {
            return Ok(());
        };
        self.step(Input::Cluster(ClusterInput::Crowded(overloaded))).await
    }
}
