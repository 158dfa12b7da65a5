//! The binary: reads the command line, runs what it asks for, and prints an error chain once.

use std::{
    env,
    error::Error,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use anyhow::{Context, bail};
use clap::{CommandFactory, Parser};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use vipward::{
    cli::{AgentArgs, Cli, Command, KubernetesArgs, LogFormat, MoveArgs, Output, PinArgs, StatusArgs},
    core::{config::ConfigError, ownership::SettingsError},
    shell::{
        bind,
        bpf::{self, Pins},
        kube::{Access, ConnectError, Moved, Mover, crd_yaml},
        netlink::Netlink,
        preflight::{PinDirError, PinDirLock, PreflightError},
        run::{self, RunError},
        status,
    },
};

const FAILED: u8 = 1;
const BAD_CONFIGURATION: u8 = 3;
const UNFIT_HOST: u8 = 4;
const NOT_ALONE: u8 = 5;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Agent(args) if args.check => check(&args),
        Command::Agent(args) => agent(args),
        Command::Kubernetes(args) => kubernetes(*args),
        Command::Move(args) => runtime().and_then(|runtime| runtime.block_on(move_vip(&args))),
        Command::Crd => show(&crd_yaml()),
        Command::Status(args) => show_status(&args),
        Command::Unload(args) => runtime().and_then(|runtime| runtime.block_on(unload(&args))),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "vipward", &mut io::stdout());
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(exit_code(&error))
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    let unread = |cause: &RunError| matches!(cause, RunError::ReadConfig { .. });
    let alone = |cause: &RunError| !matches!(cause, RunError::NotAlone { .. });
    let wrong = |cause: &(dyn Error + 'static)| {
        cause.is::<ConfigError>() || cause.is::<SettingsError>() || cause.is::<ConnectError>()
    };
    if error.chain().any(wrong) || error.downcast_ref().is_some_and(unread) {
        return BAD_CONFIGURATION;
    }
    if !error.downcast_ref().is_none_or(alone) {
        return NOT_ALONE;
    }
    if error.chain().any(<dyn Error>::is::<PreflightError>) {
        return UNFIT_HOST;
    }
    match error.chain().find_map(|cause| cause.downcast_ref::<PinDirError>()) {
        Some(PinDirError::InUse { .. }) => NOT_ALONE,
        Some(_) => UNFIT_HOST,
        None => FAILED,
    }
}

fn check(args: &AgentArgs) -> anyhow::Result<()> {
    show(&run::read_config(&args.config)?.to_yaml())
}

fn agent(args: AgentArgs) -> anyhow::Result<()> {
    let _writer = start_logging(args.plane.log_format);
    runtime()?.block_on(run::agent(args)).map_err(Into::into)
}

fn kubernetes(args: KubernetesArgs) -> anyhow::Result<()> {
    let _writer = start_logging(args.plane.log_format);
    runtime()?.block_on(run::kubernetes(args)).map_err(Into::into)
}

/// Asks for a handover, and tells how it goes until the VIP is where it is wanted.
async fn move_vip(args: &MoveArgs) -> anyhow::Result<()> {
    let home = || Some(env::home_dir()?.join(".kube/config")).filter(|path| path.exists());
    let access = Access { kubeconfig: args.kubeconfig.clone().or_else(home), context: None };
    let mover = Mover::connect(&access).await?;
    let from = mover.ask(args.address, &args.to).await?;
    println!("{} is held by {from}; asked for a move to {}", args.address, args.to);
    match mover.wait(args.address, &args.to, args.timeout).await? {
        Moved::There { mac } => println!("{} is held by {} now, at {mac}", args.address, args.to),
        Moved::Refused { why } => bail!("{} stays where it is: {why}", args.address),
        Moved::NotYet { holder } => bail!(
            "{} is still held by {holder} after {}; see `kubectl describe vip {}`",
            args.address,
            humantime::format_duration(args.timeout),
            args.address
        ),
    }
    Ok(())
}

fn show_status(args: &StatusArgs) -> anyhow::Result<()> {
    let status = runtime()?.block_on(status::read(&Pins::new(&args.pins.pin_dir)))?;
    match args.output {
        Output::Table => show(&status.to_string()),
        Output::Json => show(&(serde_json::to_string_pretty(&status)? + "\n")),
        Output::Yaml => show(&serde_saphyr::to_string(&status)?),
    }
}

/// Prints to a reader that may have enough before the end (`vipward status | head`).
fn show(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("failed to print"),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes what an agent leaves when it ends: links, maps and bound addresses. An agent that runs would go on with
/// what it has open, unseen, so that it must be stopped first.
async fn unload(args: &PinArgs) -> anyhow::Result<()> {
    let mut removed = Vec::new();
    if args.pin_dir.try_exists().unwrap_or(true) {
        let _lock = PinDirLock::acquire(&args.pin_dir)?;
        // The addresses first: the kernel must not answer for them when the program has gone.
        let view = Netlink::connect()?.observe().await?;
        for (interface, vip) in bind::observe_binds(&view).await? {
            bind::remove(&view, &interface, vip)?;
            removed.push(format!("address {vip} from {interface}"));
        }
        removed.extend(bpf::unload(&args.pin_dir)?);
    }
    if removed.is_empty() {
        println!("nothing is pinned under {}", args.pin_dir.display());
    }
    for what in removed {
        println!("removed {what}");
    }
    Ok(())
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start the runtime")
}

/// Log lines are written by a thread of their own, which drops some rather than make the heartbeat wait for whoever
/// reads them. It writes what is left when the guard is dropped.
fn start_logging(format: LogFormat) -> WorkerGuard {
    const LINES: usize = 8_192;

    // RUST_LOG overrides; aya tells more than an operator wants to know.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,aya=warn"));
    let (writer, guard) =
        NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES).finish(io::stderr());
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal());
    match format {
        LogFormat::Text => subscriber.init(),
        LogFormat::Json => subscriber.json().flatten_event(true).init(),
    }
    guard
}
