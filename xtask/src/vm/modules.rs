//! Kernel modules for a machine, in the order in which they load.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use object::{Object as _, ObjectSection as _};

use crate::process;

/// Modules that a machine needs: for its output, its files, and the links of the tests.
pub(super) const WANTED: [&str; 21] = [
    "virtio_pci",
    "virtio_console",
    "9pnet_virtio",
    "9p",
    "overlay",
    "virtio_net",
    "e1000e",
    "vmxnet3",
    "veth",
    "bridge",
    "8021q",
    "bonding",
    "team",
    "team_mode_activebackup",
    "team_mode_roundrobin",
    "macvlan",
    "dummy",
    "sch_ingress",
    "cls_bpf",
    "cls_matchall",
    "act_gact",
];

/// Module, ready to load.
pub(super) struct Module {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// Returns the wanted modules of a kernel, each after those that it depends on. Leaves out what the
/// kernel has built in.
pub(super) fn load_order(dir: &Path) -> Result<Vec<Module>> {
    let mut available = Available { files: BTreeMap::new(), built_in: built_in(dir)? };
    available.list(&dir.join("kernel"))?;
    let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
    for name in WANTED {
        available.add(name, &mut order, &mut seen)?;
    }
    Ok(order)
}

struct Available {
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
}

impl Available {
    fn list(&mut self, dir: &Path) -> Result<()> {
        let entries = fs::read_dir(dir).with_context(|| format!("failed to list {}", dir.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                self.list(&path)?;
            } else if let Some(name) = name_of(&path) {
                self.files.insert(name, path);
            }
        }
        Ok(())
    }

    fn add(&self, name: &str, order: &mut Vec<Module>, seen: &mut BTreeSet<String>) -> Result<()> {
        if self.built_in.contains(name) || !seen.insert(name.to_owned()) {
            return Ok(());
        }
        let Some(path) = self.files.get(name) else { bail!("the kernel has no module {name}") };
        let bytes = read(path)?;
        for needed in dependencies(&bytes).with_context(|| format!("failed to read {}", path.display()))? {
            self.add(&needed, order, seen)?;
        }
        order.push(Module { name: name.to_owned(), bytes });
        Ok(())
    }
}

/// Returns the name of the module in a file such as `virtio-rng.ko.xz`: the kernel writes `_`.
fn name_of(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let stem = file.strip_suffix(".ko").or_else(|| file.strip_suffix(".ko.xz"))?;
    Some(stem.replace('-', "_"))
}

fn built_in(dir: &Path) -> Result<BTreeSet<String>> {
    let path = dir.join("modules.builtin");
    let list = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(list.lines().filter_map(|line| name_of(Path::new(line))).collect())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    if path.extension().is_some_and(|extension| extension == "xz") {
        let mut xz = Command::new("xz");
        let output = xz.arg("-dc").arg(path).output().context("failed to start xz")?;
        if !output.status.success() {
            bail!("`{}` failed: {}", process::command_line(&xz), output.status);
        }
        return Ok(output.stdout);
    }
    fs::read(path).with_context(|| format!("failed to read {}", path.display()))
}

/// Returns the modules that a module depends on: `depends=a,b` in its section `.modinfo`.
fn dependencies(module: &[u8]) -> Result<Vec<String>> {
    let file = object::File::parse(module).context("it is no object file")?;
    let section = file.section_by_name(".modinfo").context("it has no section .modinfo")?;
    Ok(depends(section.data()?))
}

fn depends(modinfo: &[u8]) -> Vec<String> {
    let fields = modinfo.split(|byte| *byte == 0).filter_map(|field| field.strip_prefix(b"depends="));
    let names = fields.flat_map(|list| list.split(|byte| *byte == b','));
    let names = names.map(|name| String::from_utf8_lossy(name).replace('-', "_"));
    names.filter(|name| !name.is_empty()).collect()
}
