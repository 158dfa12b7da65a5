//! A standalone agent: a file lists its VIPs.

use tracing::info;
use vipward_core::{
    agent::{FileSource, Input, Source},
    config::Shutdown,
};

use super::{
    error::RunError,
    event_loop::{EventLoop, Opened, Outer},
    reading::Reading,
    service::Service,
    starting::{OpenEndpoints, check_host, read_config},
    timing::{clock_tick, now},
};
use crate::{
    cli::AgentArgs,
    shell::{
        endpoints::metrics::Mode,
        kernel::{bpf::Loader, systemd::Systemd},
    },
};

/// Runs a standalone agent until a signal ends it.
pub async fn agent(args: AgentArgs) -> Result<(), RunError> {
    let loader = Loader::new();
    let config = read_config(&args.config)?;
    let lock = check_host(&args.plane.pins)?;
    let endpoints = OpenEndpoints::open(Mode::Standalone, &args.pages, None).await?;
    let mut file = FileSource::start(&config, clock_tick()?, now()?);
    let first = file.first_deadline(now()?);
    let opened = Opened::open(&args.plane, loader, lock, first, &endpoints).await?;
    let reading = Reading::start(args.config.clone())?;
    let mut event_loop =
        EventLoop::start(opened, config, Source::File(Box::new(file)), Outer::File(reading), endpoints)?;
    let now = now()?;
    event_loop.service = Systemd::find().map(|systemd| Service::start(systemd, now));
    event_loop.step(Input::Begin).await?;
    let node = &event_loop.agent.config().node;
    info!(%node, config = %args.config.display(), "agent is running");
    event_loop.run().await?;
    let cause = match &event_loop.outer {
        Outer::File(reading) => reading.stopped_by,
        Outer::Cluster(_) => None,
    };
    match event_loop.agent.config().shutdown {
        Shutdown::Keep => {
            info!(cause, "agent ends; the pinned program answers on, under its policy");
        }
        Shutdown::Withdraw => info!(cause, "agent ends; every VIP is withdrawn"),
    }
    Ok(())
}
