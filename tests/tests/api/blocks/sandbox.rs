//! A folder in which blocks run: the programs that they call, a kubeconfig, and a view of the checkout.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use vipward_tests::{
    agent::Agent,
    kit::{Process, SpawnOptions, tools::in_checkout},
};

use super::{
    helm,
    homes::{HOMES, Home},
    markdown::{self, Block},
};

/// A time longer than any block takes.
const PATIENCE: Duration = Duration::from_mins(1);
/// Programs without effect here: they would change this machine.
const WITHOUT_EFFECT: [&str; 3] = ["sudoedit", "systemctl", "sysctl"];

/// Programs that may write in the sandbox alone, to their last argument.
const WRITING: [&str; 2] = ["install", "ln"];

/// A `kubectl`, and the one for kustomizations, which kubectl 1.20 cannot build.
#[derive(Clone, Debug)]
pub(super) struct Kubectl {
    pub(super) path: PathBuf,
    pub(super) for_kustomizations: PathBuf,
}

impl Kubectl {
    pub(super) fn is_newest(&self) -> bool {
        self.path == self.for_kustomizations
    }
}

pub(super) struct Sandbox {
    root: TempDir,
    /// The blocks of one home that have not run yet.
    waiting: Vec<Block>,
    home: Home,
}

impl Sandbox {
    pub(super) fn new(home: Home) -> Result<Self> {
        let waiting = markdown::all()?.into_iter().filter(|block| home_of(block) == Some(home)).collect();
        let sandbox = Self { root: TempDir::new()?, waiting, home };
        for folder in ["bin", "beside", "vipward/target/release"] {
            fs::create_dir_all(sandbox.path(folder))?;
        }
        symlink(in_checkout("deploy"), sandbox.path("vipward/deploy"))?;
        symlink(fs::canonicalize(Agent::default_binary())?, sandbox.path("vipward/target/release/vipward"))?;
        sandbox.stand_in("sudo", "exec \"$@\"")?;
        for program in WITHOUT_EFFECT {
            sandbox.stand_in(program, "")?;
        }
        for program in WRITING {
            let root = sandbox.root.path().display();
            sandbox.stand_in(
                program,
                &format!(
                    "for last; do :; done\ncase $last in {root}/*) exec /usr/bin/{program} \"$@\";; esac\n\
                     echo \"$last is outside of the sandbox\" >&2; exit 1"
                ),
            )?;
        }
        sandbox.stand_in("vipward", &format!("exec {} \"$@\"", Agent::default_binary().display()))?;
        Ok(sandbox)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Makes a shell script that stands in for a program.
    pub(super) fn stand_in(&self, program: &str, script: &str) -> Result<()> {
        let path = self.path("bin").join(program);
        fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
        Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
    }

    /// Gives the blocks a `kubectl` and an API server. `exec` is a script with the arguments behind `--`.
    ///
    /// Objects of command lines are sent as JSON: newer versions use protocol buffers, which the API
    /// server of the tests does not read.
    pub(super) fn use_cluster(&self, kubectl: &Kubectl, server: &str, exec: &str) -> Result<()> {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
        });
        fs::write(self.path("kubeconfig"), kubeconfig.to_string())?;
        let Kubectl { path, for_kustomizations } = kubectl;
        let (path, kustomizing) = (path.display(), for_kustomizations.display());
        self.stand_in(
            "kubectl",
            &format!(
                r#"case " $* " in
*" exec "*) while [ "$1" != -- ]; do shift; done; shift
{exec}
exit;;
*" -k "*) exec {kustomizing} "$@";;
" create deployment "*|" create namespace "*)
{path} "$@" --dry-run=client -o json | {path} create -f -
exit;;
esac
exec {path} "$@""#
            ),
        )
    }

    /// Runs the block of `page` that begins so, in the checkout. Returns its stdout.
    pub(super) fn run(&mut self, page: &str, begins: &str, with: &[(&str, &str)]) -> Result<String> {
        self.run_in("vipward", page, begins, with)
    }

    /// Runs a block in a folder, with other texts for some of its own.
    pub(super) fn run_in(
        &mut self,
        folder: &str,
        page: &str,
        begins: &str,
        with: &[(&str, &str)],
    ) -> Result<String> {
        let is_it = |block: &Block| block.page == page && block.text.starts_with(begins);
        let place = self.waiting.iter().position(is_it);
        let place = place.with_context(|| format!("{page} has no block `{begins}` of {:?}", self.home))?;
        let block = self.waiting.remove(place);
        let mut script = block.script();
        for (from, to) in with {
            ensure!(script.contains(from), "{page}: `{begins}` has no `{from}`");
            script = script.replace(from, to);
        }
        helm::check(&script).with_context(|| format!("{page}:{}", block.line))?;
        let printed = self.shell(folder, &script).with_context(|| format!("{page}:{}", block.line))?;
        ensure_same_head(&block, &printed)?;
        Ok(printed)
    }

    /// Runs a script of a test. Returns its stdout.
    pub(super) fn shell(&self, folder: &str, script: &str) -> Result<String> {
        let mut command = Command::new("sh");
        let path = std::env::var("PATH").context("there is no PATH")?;
        command.args(["-euc", script]).current_dir(self.path(folder));
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command.env("HOME", self.root.path()).env("KUBECONFIG", self.path("kubeconfig"));
        let mut process = Process::spawn(command, &SpawnOptions::default())?;
        let ended = process.wait(PATIENCE).with_context(|| format!("`{script}`"))?;
        ensure!(ended.success(), "`{script}` ended with {ended}: {}", process.transcript());
        Ok(process.stdout())
    }

    /// Fails if a block of this home has not run.
    pub(super) fn finish(self) -> Result<()> {
        let left: Vec<_> = self.waiting.iter().map(|block| (&block.page, block.line)).collect();
        ensure!(left.is_empty(), "{:?} does not run {left:?}", self.home);
        Ok(())
    }
}

pub(super) fn home_of(block: &Block) -> Option<Home> {
    let is_it =
        |(page, begins, _): &&(&str, &str, Home)| block.page == *page && block.text.starts_with(begins);
    HOMES.iter().find(is_it).map(|(_, _, home)| *home)
}

/// Fails if a page shows a table with another head than the commands print.
fn ensure_same_head(block: &Block, printed: &str) -> Result<()> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let is_head =
        |line: &str| words(line).len() > 2 && !line.chars().any(|c| c.is_lowercase() || c.is_ascii_digit());
    for head in block.output().into_iter().filter(|line| is_head(line)) {
        let same = printed.lines().any(|line| words(line) == words(head));
        ensure!(same, "{}:{} shows the head `{head}`, which is not in:\n{printed}", block.page, block.line);
    }
    Ok(())
}

/// Returns the objects that let a user without a token do everything.
pub(super) fn rights() -> [Value; 2] {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let (version, metadata) = (format!("{GROUP}/v1"), json!({"name": "operator"}));
    [
        json!({
            "apiVersion": version, "kind": "ClusterRole", "metadata": metadata,
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
        }),
        json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "operator"},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "operator"}],
        }),
    ]
}

pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
}
