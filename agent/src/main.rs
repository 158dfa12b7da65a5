//! The binary: reads the command line, runs the command, and prints an error chain once.

use std::{
    collections::BTreeSet,
    env,
    error::Error,
    io::{self, IsTerminal as _, Write},
    iter, panic,
    path::{Path, PathBuf},
    process::{self, ExitCode},
    thread,
    time::Duration,
};

use anyhow::{Context, bail};
use clap::FromArgMatches;
use serde::Serialize;
use vipward::{
    cli::{
        AgentArgs, CalledAs, Cli, Command, ControllerArgs, DoctorArgs, ExplainArgs, ExtentArgs, IdentityArgs,
        KubernetesArgs, LinesArg, MoveArgs, Output, PoolsArgs, RecordArgs, ReleaseArgs, ReportFormat,
        StatusArgs, Subject, UninstallArgs, UnloadArgs, WatchArgs, WhoHasArgs, WireArgs, WireCommand,
        WireInitArgs, WireRotateArgs, complete, in_order,
    },
    shell::{
        agent::{self, RunError},
        commands::{
            cluster_status,
            doctor::{self as examination, Report},
            explain,
            live::{self, Lines, Watching},
            pool_tables,
            status::{self, Detail},
            terminal::Screen,
            who_has::{self, render},
        },
        controller,
        kernel::{
            bind,
            bpf::{self, Pins},
            groups, liveness,
            netlink::Netlink,
            other_pins::{self, Search},
            preflight::{PinDirError, PinDirLock, PreflightError, check_bpffs},
            segment,
            status::StatusError,
        },
        kube::{
            Access, ConnectError, Moved, Mover, Released, Releaser, RequestError, Rotating, SECRET,
            Uninstaller, WireSecret, crd_yaml, read_overview, read_pools,
        },
        logging::{self, chain, is_denied},
    },
};
use vipward_core::{
    base::legible::Legible,
    config::ConfigError,
    diagnosis::{
        doctor,
        explain::{Outcome, explain, explain_service},
        fact::Fact,
        who_has::Verdict,
    },
    ownership::SettingsError,
    records::{NodeName, object_name},
    segment::groups::Membership,
};

const FAILED: u8 = 1;
const BAD_CONFIGURATION: u8 = 3;
const UNFIT_HOST: u8 = 4;
const NOT_ALONE: u8 = 5;
const NO_HOST_ANSWERS: u8 = 6;
const SEVERAL_ANSWER: u8 = 7;
const BROKEN: u8 = 8;
/// A wait that is longer than this is explained on stderr.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);
/// The note for a user of the plugin on a workstation.
const ON_A_NODE: &str = "this inspects the machine that it runs on, which is no node of Vipward's; on a node: \
    kubectl -n vipward-system exec ds/vipward -- /vipward";

fn main() -> ExitCode {
    abort_on_panic();
    let (called, cli) = match command_line() {
        Ok(called) => called,
        Err(ended) => return ended,
    };
    let result = match cli.command {
        Command::Agent(args) if args.check => check(&args),
        Command::Agent(args) => agent(args),
        Command::Kubernetes(args) => kubernetes(*args),
        Command::Controller(args) => controller(*args),
        Command::Move(args) => runtime().and_then(|runtime| runtime.block_on(move_vip(&args))),
        Command::Pools(args) => show_pools(&args),
        Command::Release(args) => runtime().and_then(|runtime| runtime.block_on(release(&args))),
        Command::Wire(args) => runtime().and_then(|runtime| runtime.block_on(change_key(&args))),
        Command::Crd => show(&crd_yaml()),
        Command::Version => show(concat!("vipward ", env!("CARGO_PKG_VERSION"), "\n")),
        Command::Status(args) => show_status(&args, called),
        Command::Doctor(args) => return ended(doctor(args, called)),
        Command::Watch(args) => watch(&args).map_err(|error| on_a_node(called, error)),
        Command::WhoHas(args) => {
            return ended(runtime().and_then(|runtime| runtime.block_on(who_has(&args))));
        }
        Command::Explain(args) => {
            return ended(runtime().and_then(|runtime| runtime.block_on(explain_subject(&args))));
        }
        Command::Unload(args) => {
            return ended(runtime().and_then(|runtime| runtime.block_on(unload(&args))));
        }
        Command::Uninstall(args) => runtime().and_then(|runtime| runtime.block_on(uninstall(&args))),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut CalledAs::Vipward.command(), "vipward", &mut io::stdout());
            Ok(())
        }
    };
    ended(result.map(|()| ExitCode::SUCCESS))
}

/// Ends the process when a thread panics: an agent without one of its parts must begin anew. The
/// exception is the thread that the agent goes on without.
fn abort_on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        report(panic);
        if thread::current().name() != Some(liveness::THREAD) {
            process::abort();
        }
    }));
}

fn ended(result: anyhow::Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => ExitCode::from(report(&error)),
    }
}

/// Prints an error with its causes. Returns its exit code.
fn report(error: &anyhow::Error) -> u8 {
    for line in format!("error: {}", chain(error.as_ref())).lines() {
        eprintln!("{}", Legible(line));
    }
    exit_code(error)
}

/// Returns the command, and the name under which it was called. Returns an exit code if kubectl only
/// wants completions.
fn command_line() -> Result<(CalledAs, Cli), ExitCode> {
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    let called = CalledAs::by(&name);
    if called == CalledAs::Completion {
        let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
        return Err(show(&complete(&words)).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS));
    }
    let arguments = if called == CalledAs::Plugin { in_order(arguments) } else { arguments.collect() };
    let matches = called.command().get_matches_from(iter::once(name).chain(arguments));
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    Ok((called, cli))
}

/// Explains an error about missing pins, if the binary runs as the plugin.
fn on_a_node(called: CalledAs, error: anyhow::Error) -> anyhow::Error {
    let nothing = error.chain().filter_map(|cause| cause.downcast_ref::<StatusError>());
    let nothing = nothing.into_iter().any(|cause| matches!(cause, StatusError::NothingPinned { .. }));
    if called == CalledAs::Plugin && nothing { error.context(ON_A_NODE) } else { error }
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
    let no_raw_socket =
        |cause: &(dyn Error + 'static)| matches!(cause.downcast_ref(), Some(segment::SegmentError::Open(_)));
    let refused = |cause: &(dyn Error + 'static)| {
        matches!(cause.downcast_ref().and_then(RequestError::code), Some(401 | 403))
    };
    if error.chain().any(|cause| cause.is::<PreflightError>() || no_raw_socket(cause) || refused(cause)) {
        return UNFIT_HOST;
    }
    match error.chain().find_map(|cause| cause.downcast_ref::<PinDirError>()) {
        Some(PinDirError::InUse { .. }) => NOT_ALONE,
        Some(_) => UNFIT_HOST,
        None if is_denied(error.as_ref()) => UNFIT_HOST,
        None => FAILED,
    }
}

fn check(args: &AgentArgs) -> anyhow::Result<()> {
    show(&agent::read_config(&args.config)?.to_yaml())
}

fn agent(args: AgentArgs) -> anyhow::Result<()> {
    let _writer = logging::start(args.plane.log_format);
    runtime()?.block_on(agent::agent(args)).map_err(Into::into)
}

fn kubernetes(args: KubernetesArgs) -> anyhow::Result<()> {
    let _writer = logging::start(args.plane.log_format);
    runtime()?.block_on(agent::kubernetes(args)).map_err(Into::into)
}

fn controller(args: ControllerArgs) -> anyhow::Result<()> {
    let _writer = logging::start(args.log_format);
    runtime()?.block_on(controller::run(args)).map_err(Into::into)
}

/// Requests a handover, and reports its progress until the VIP is where it is wanted.
async fn move_vip(args: &MoveArgs) -> anyhow::Result<()> {
    let mover = Mover::connect(&Access::of(&args.access, kubeconfig_at_home)).await?;
    let from = mover.request(args.address, &args.to).await?;
    println!("{} is held by {}; requested a move to {}", args.address, Legible(from), args.to);
    match mover.wait(args.address, &args.to, args.timeout).await? {
        Moved::There { mac } => println!("{} is held by {} now, at {mac}", args.address, args.to),
        Moved::Refused { why } => bail!("{} stays where it is: {why}", args.address),
        Moved::NotYet { holder } => bail!(
            "{} is still held by {holder} after {}; see `kubectl describe vip {}`",
            args.address,
            humantime::format_duration(args.timeout),
            object_name(args.address)
        ),
    }
    Ok(())
}

/// Requests the release of an address, and waits for it.
async fn release(args: &ReleaseArgs) -> anyhow::Result<()> {
    let vip = args.address;
    let releaser = Releaser::connect(&Access::of(&args.access, kubeconfig_at_home)).await?;
    let reservation = releaser.request(vip).await?;
    let service = Legible(&reservation.service);
    if reservation.kept.is_some() {
        println!("{vip} is kept for Service {service}, which is gone; requested its release");
    } else {
        println!("{vip} is reserved for Service {service}; requested another address for the Service");
    }
    match releaser.wait(vip, &reservation, args.timeout).await? {
        Released::Done { next, others } => {
            let now = next
                .map_or_else(|| "free".to_owned(), |next| format!("reserved for Service {}", Legible(next)));
            let others: Vec<String> = others.iter().map(ToString::to_string).collect();
            let has = if others.is_empty() {
                String::new()
            } else {
                format!("; Service {service} has {}", others.join(" and "))
            };
            println!("{vip} is {now} now{has}");
        }
        Released::Withdrawn => bail!("Service {service} has {vip}, and the request to release it is gone"),
        Released::NotYet => bail!(
            "{vip} is still reserved for Service {service} after {}: no pool gives the Service another \
             address (`kubectl describe service`, `vipward pools`), or no controller runs; the wish stays \
             (to take it back: kubectl annotate virtualip {} vipward.io/release-)",
            humantime::format_duration(args.timeout),
            object_name(vip)
        ),
    }
    Ok(())
}

/// Removes Vipward from the cluster, once the operator agrees.
async fn uninstall(args: &UninstallArgs) -> anyhow::Result<()> {
    let namespace = &args.installed.lease_namespace;
    let access = Access::of(&args.installed.access, kubeconfig_at_home);
    let uninstaller = Uninstaller::connect(&access, namespace, args.timeout).await?;
    for (number, step) in (1..).zip(uninstaller.plan().await?) {
        println!("{number}. {}", Legible(step));
    }
    if args.dry_run {
        return Ok(());
    }
    if !args.yes {
        if !io::stdin().is_terminal() {
            bail!("nothing was changed: without a terminal to ask at, it needs --yes");
        }
        eprint!("Type yes to do this: ");
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).context("failed to read the answer")?;
        if answer.trim() != "yes" {
            bail!("nothing was changed");
        }
    }
    uninstaller.run(args.force, |done| eprintln!("{}", Legible(done))).await?;
    println!("Vipward is removed");
    Ok(())
}

/// Creates or replaces the key of the failure detector.
async fn change_key(args: &WireArgs) -> anyhow::Result<()> {
    match &args.command {
        WireCommand::Init(WireInitArgs { secret }) => {
            let namespace = &secret.lease_namespace;
            WireSecret::connect(&Access::of(&secret.access, kubeconfig_at_home), namespace)
                .await?
                .init()
                .await?;
            println!("Secret {namespace}/{SECRET} is created, with key 1");
        }
        WireCommand::Rotate(WireRotateArgs { timeout, linger, secret }) => {
            let namespace = &secret.lease_namespace;
            let rotating =
                WireSecret::connect(&Access::of(&secret.access, kubeconfig_at_home), namespace).await?;
            let id = rotating
                .rotate(*timeout, (*linger).into(), |step| eprintln!("{}", Legible(described(&step))))
                .await?;
            println!("Secret {namespace}/{SECRET} has key {} alone", id.0);
        }
    }
    Ok(())
}

/// Describes a step of a rotation.
fn described(step: &Rotating) -> String {
    match step {
        Rotating::Added(id) => format!("key {} is added", id.0),
        Rotating::Found(id) => format!("key {} was added before; going on", id.0),
        Rotating::Waiting { missing, of } => {
            let names: Vec<&str> = missing.iter().map(NodeName::as_str).collect();
            let accepting = of.saturating_sub(names.len());
            format!("{accepting} of {of} agents accept it; waiting for {}", names.join(", "))
        }
        Rotating::Used { id, linger } => {
            let linger = humantime::format_duration(*linger);
            format!("all agents accept key {}; the old key goes in {linger}", id.0)
        }
        Rotating::Removed(ids) => {
            let ids: Vec<String> = ids.iter().map(|id| id.0.to_string()).collect();
            format!("removed: key {}", ids.join(", "))
        }
    }
}

fn show_pools(args: &PoolsArgs) -> anyhow::Result<()> {
    let mut list = runtime()?.block_on(read_pools(&Access::of(&args.access, kubeconfig_at_home)))?;
    if let Some(pool) = &args.pool {
        let only = list.only(pool);
        list = only.with_context(|| {
            format!("there is no VIPPool {pool:?}; `vipward pools` lists those that there are")
        })?;
    }
    let addresses = args.addresses || args.pool.is_some();
    print_as(args.output, &list, |screen| pool_tables::render(&list, addresses, screen))
}

fn kubeconfig_at_home() -> Option<PathBuf> {
    Some(env::home_dir()?.join(".kube/config")).filter(|path| path.exists())
}

fn show_status(args: &StatusArgs, called: CalledAs) -> anyhow::Result<()> {
    let ExtentArgs { brief, verbose } = args.extent;
    if args.cluster || called == CalledAs::Plugin && !(args.node || brief || verbose) {
        return show_cluster(args);
    }
    let status = runtime()?.block_on(status::read_with_agent(&Pins::new(&args.pins.pin_dir)));
    let status = status.map_err(|error| on_a_node(called, error.into()))?;
    if brief {
        return show(&status::brief(&status));
    }
    let detail = if verbose { Detail::Verbose } else { Detail::Usual };
    print_as(args.output, &status, |screen| status::render(&status, detail, screen))
}

fn show_cluster(args: &StatusArgs) -> anyhow::Result<()> {
    let RecordArgs { access, lease_namespace, look } = &args.records;
    let access = Access::of(access, kubeconfig_at_home);
    let overview = runtime()?.block_on(read_overview(&access, lease_namespace, *look))?;
    print_as(args.output, &overview, |screen| cluster_status::render(&overview, screen))
}

fn print_as(
    output: Output,
    report: &impl Serialize,
    tables: impl FnOnce(Screen) -> String,
) -> anyhow::Result<()> {
    match output {
        Output::Table => show(&tables(Screen::of_stdout())),
        Output::Json => show(&(serde_json::to_string_pretty(report)? + "\n")),
        Output::Yaml => show(&serde_saphyr::to_string(report)?),
    }
}

/// Watches the pins until the operator has seen enough.
fn watch(args: &WatchArgs) -> anyhow::Result<()> {
    let watching = Watching { pins: Pins::new(&args.pins.pin_dir), interval: args.interval };
    let lines = match args.output {
        LinesArg::Text => Lines::Text,
        LinesArg::Json => Lines::Json,
    };
    runtime()?.block_on(async {
        if args.plain { live::plain(&watching, lines).await } else { live::screen(&watching).await }
    })?;
    Ok(())
}

/// Examines the host. Reports on stderr if it waits long for a heartbeat.
fn doctor(args: DoctorArgs, called: CalledAs) -> anyhow::Result<ExitCode> {
    let DoctorArgs { pins, interfaces, strict, checks, all, output } = args;
    if checks {
        return show(&examination::described(&doctor::CHECKS)).map(|()| ExitCode::SUCCESS);
    }
    let mut notified = Duration::ZERO;
    let progress = |watched: Duration| {
        if watched >= notified + PROGRESS_AFTER {
            notified += PROGRESS_AFTER;
            eprintln!(
                "watched the lease deadline for {}: no heartbeat so far",
                humantime::format_duration(notified)
            );
        }
    };
    let facts = runtime()?.block_on(examination::read(&pins.pin_dir, interfaces, progress));
    if called == CalledAs::Plugin && matches!(facts.plane, Fact::Read(None)) {
        eprintln!("note: {ON_A_NODE}");
    }
    let checks = doctor::examine(&facts);
    let (passes, outcome) = (doctor::passes(&checks, strict), doctor::Outcome::of(&checks, strict));
    let report = Report::new(checks, passes);
    print_as(output, &report, |screen| report.text(all, screen))?;
    Ok(match outcome {
        doctor::Outcome::Passes => ExitCode::SUCCESS,
        doctor::Outcome::Fails => ExitCode::from(BROKEN),
        doctor::Outcome::Denied => ExitCode::from(UNFIT_HOST),
        doctor::Outcome::Nothing => ExitCode::from(FAILED),
    })
}

/// Probes the segment. Reports its progress on stderr if that takes long.
async fn who_has(args: &WhoHasArgs) -> anyhow::Result<ExitCode> {
    let options = who_has::Options {
        address: args.address,
        interface: args.interface.clone(),
        count: args.count,
        timeout: args.timeout,
        pin_dir: args.pins.pin_dir.clone(),
    };
    let mut waited = Duration::ZERO;
    let report = who_has::probe(&options, |asking| {
        waited += args.timeout;
        if waited >= PROGRESS_AFTER && asking.next_deadline().is_some() {
            let (asked, macs) = (asking.asked() - 1, asking.claimants().len());
            eprintln!("sent {asked} of {} probes for {}: {macs} answering so far", args.count, args.address);
        }
    })
    .await?;
    match args.output {
        ReportFormat::Table => show(&render(&report, Screen::of_stdout()))?,
        ReportFormat::Json => show(&(serde_json::to_string_pretty(&report)? + "\n"))?,
    }
    Ok(match report.verdict {
        Verdict::One => ExitCode::SUCCESS,
        Verdict::NoHost => ExitCode::from(NO_HOST_ANSWERS),
        Verdict::Several => ExitCode::from(SEVERAL_ANSWER),
    })
}

/// Examines the chain from the Service to the answer. Reports on
/// stderr what it waits for, if that takes long.
async fn explain_subject(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    // A named context belongs to a kubeconfig, and so to a cluster.
    let is_named = args.access.context.is_some() || args.access.identity != IdentityArgs::default();
    let is_clusters = args.config.is_none() || is_named;
    let options = explain::Options {
        interface: args.interface.clone(),
        access: Access::of(&args.access, || if is_clusters { kubeconfig_at_home() } else { None }),
        lease_namespace: args.lease_namespace.clone(),
        services: args.services.settings(),
        honour_exclude_label: !args.services.ignore_exclude_label,
        config: args.config.clone(),
        pin_dir: args.pins.pin_dir.clone(),
    };
    let progress = |what: &str| eprintln!("{}", Legible(what));
    let screen = Screen::of_stdout();
    let (text, json, outcome) = match &args.subject {
        Subject::Address(address) => {
            let explanation = explain(&explain::gather(&options, *address, progress).await?);
            let text = explain::render(&explanation, screen);
            (text, serde_json::to_string_pretty(&explanation)?, explanation.outcome())
        }
        Subject::Service(service) => {
            let (facts, addresses) = explain::gather_service(&options, service, progress).await?;
            let explanation = explain_service(&facts, &addresses);
            let text = explain::render_service(&explanation, screen);
            (text, serde_json::to_string_pretty(&explanation)?, explanation.outcome())
        }
    };
    match args.output {
        ReportFormat::Table => show(&text)?,
        ReportFormat::Json => show(&(json + "\n"))?,
    }
    Ok(match outcome {
        Outcome::Broken => ExitCode::from(BROKEN),
        Outcome::Sound { .. } => ExitCode::SUCCESS,
        Outcome::Nothing { needs_root: true } => ExitCode::from(UNFIT_HOST),
        Outcome::Nothing { needs_root: false } => ExitCode::from(FAILED),
    })
}

/// Prints to a reader that may close the pipe before the end (`vipward status | head`).
fn show(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("failed to print"),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes the leftovers of an agent: links, maps and bound addresses. A running
/// agent must be stopped first: it would keep its open objects without pins.
async fn unload(args: &UnloadArgs) -> anyhow::Result<ExitCode> {
    if !args.all {
        return unload_from(&args.pins.pin_dir).await.map(|()| ExitCode::SUCCESS);
    }
    let Search { found: dirs, error } = other_pins::all();
    if dirs.is_empty() && error.is_none() {
        println!("no bpffs in sight has pins of Vipward");
    }
    // The directories after one in use are unloaded, too. The first error has the exit code.
    let mut code = error.map(|error| report(&error.into()));
    for dir in dirs {
        if let Err(error) = unload_from(&dir).await {
            let its = report(&error);
            code.get_or_insert(its);
        }
    }
    Ok(code.map_or(ExitCode::SUCCESS, ExitCode::from))
}

async fn unload_from(pin_dir: &Path) -> anyhow::Result<()> {
    let mut removed = Vec::new();
    if pin_dir.try_exists().unwrap_or(true) {
        check_bpffs(pin_dir)?;
        let _lock = PinDirLock::acquire(pin_dir)?;
        // The addresses go first: the kernel must not answer for them after the program has gone.
        let view = Netlink::connect()?.observe().await?;
        // The mark of an address names no agent: those of another one that runs here stay.
        // A directory that may not be read counts as unused: it must not keep this one from being unloaded.
        let others = other_pins::running(pin_dir, &view).found;
        let is_alone = others.iter().all(|other| other.agent == doctor::Agent::None);
        if is_alone {
            for (interface, vip) in bind::observe_binds(&view).await? {
                bind::remove(&view, &interface, vip)?;
                removed.push(format!("address {vip} from {interface}"));
            }
        }
        removed.extend(bpf::unload(pin_dir)?);
        let left = if is_alone { groups::leave_all().await? } else { BTreeSet::new() };
        let group = |it: &Membership| format!("group {} from {}", it.group, view.name_of(it.ifindex));
        removed.extend(left.iter().map(group));
    }
    if removed.is_empty() {
        println!("nothing of Vipward's is pinned under {}", pin_dir.display());
    }
    for what in removed {
        println!("removed {what}");
    }
    Ok(())
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start the runtime")
}
