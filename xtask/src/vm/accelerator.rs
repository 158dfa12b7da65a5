//! Finds out whether this machine can virtualise: `/dev/kvm` alone is no proof.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result};

use super::{
    guest::{self, Root},
    initramfs::Initramfs,
    kernels::{Arch, Unpacked},
    modules,
    qemu::{Accelerator, Machine, Nic},
};
use crate::process;

const DEVICE: &str = "/dev/kvm";
/// Most time of the trial, in which emulation would have booted too.
const LIMIT: Duration = Duration::from_secs(20);

/// Returns KVM if a machine has booted with it, else emulation. Tries once per boot of this
/// machine.
pub(super) fn choose(arch: Arch, kernel: &Unpacked, busybox: &Path, dir: &Path) -> Result<Accelerator> {
    if arch != Arch::Amd64 || fs::File::options().read(true).write(true).open(DEVICE).is_err() {
        return Ok(Accelerator::Tcg);
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").context("failed to read boot_id")?;
    let remembered = dir.join("kvm");
    let line = |works: bool| format!("{} {works}\n", boot.trim());
    let known = fs::read_to_string(&remembered).unwrap_or_default();
    let works = if known == line(true) || known == line(false) {
        known == line(true)
    } else {
        process::step("trying a boot with KVM");
        let works = boots(arch, kernel, busybox, dir);
        process::write_if_changed(&remembered, line(works).as_bytes())?;
        works
    };
    Ok(if works { Accelerator::Kvm } else { Accelerator::Tcg })
}

fn boots(arch: Arch, kernel: &Unpacked, busybox: &Path, dir: &Path) -> bool {
    let booted = || -> Result<i32> {
        let mut initramfs = Initramfs::new(busybox, &modules::load_order(&kernel.modules)?)?;
        initramfs.script("init", &guest::init(Root::Initramfs));
        initramfs.script("tests", "true\n");
        let (path, console) = (dir.join("kvm.cpio"), dir.join("kvm.console"));
        initramfs.write(&path)?;
        let machine = Machine {
            arch,
            accelerator: Accelerator::Kvm,
            kernel,
            initramfs: &path,
            root: Root::Initramfs,
            nic: Nic::VirtioNet,
            console: &console,
        };
        machine.run(LIMIT, |_| {})
    };
    match booted() {
        Ok(code) => code == 0,
        Err(error) => {
            process::step(&format!("KVM does not work here, so QEMU emulates: {error:#}"));
            false
        }
    }
}
