//! The programs of the object.

use std::collections::BTreeMap;

use aya::{
    Ebpf,
    programs::{Program, ProgramError, SchedClassifier, Xdp},
};
use tracing::debug;
use vipward_core::host::attaching::Mode;

use super::error::BpfError;

/// The XDP program, for frames of several buffers (Linux 5.18).
pub(super) const XDP: &str = "vipward";
/// The same for kernels before that.
const XDP_PLAIN: &str = "vipward_plain";
/// The XDP program that runs on the ports of a bond.
pub(super) const PORTS: &str = "vipward_ports";
pub(super) const TC: &str = "vipward_tc";

/// The programs of the object. Each is loaded when it is first needed: verifying one takes longer than
/// the rest of the agent's start. Until then its maps stay open, since its instructions name them by
/// their descriptors.
#[derive(Default)]
pub(super) struct Programs {
    /// The programs that the verifier has refused, with its reason. It would refuse them again.
    refused: BTreeMap<&'static str, String>,
}

impl Programs {
    pub(super) fn of(ebpf: &mut Ebpf) -> Result<Self, BpfError> {
        for name in [XDP, XDP_PLAIN, PORTS] {
            find::<Xdp>(ebpf, name)?;
        }
        find::<SchedClassifier>(ebpf, TC)?;
        Ok(Self::default())
    }

    pub(super) fn load_for(&mut self, ebpf: &mut Ebpf, mode: Mode) -> Result<(), BpfError> {
        match mode {
            Mode::Native | Mode::Generic => self.xdp(ebpf, false).map(drop),
            Mode::Tc => self.tc(ebpf).map(drop),
        }
    }

    /// Returns the XDP program with its id: the one for the ports of a bond, or the other.
    pub(super) fn xdp<'a>(
        &mut self,
        ebpf: &'a mut Ebpf,
        on_ports: bool,
    ) -> Result<(&'a mut Xdp, u32), BpfError> {
        let wanted = if on_ports { PORTS } else { XDP };
        let (name, id) = match self.load_xdp(ebpf, wanted) {
            Err(BpfError::Program { source, .. }) if !on_ports && is_before_the_verifier(&source) => {
                (XDP_PLAIN, self.load_xdp(ebpf, XDP_PLAIN)?)
            }
            loaded => (wanted, loaded?),
        };
        Ok((find(ebpf, name)?, id))
    }

    fn load_xdp(&mut self, ebpf: &mut Ebpf, name: &'static str) -> Result<u32, BpfError> {
        let program = find::<Xdp>(ebpf, name)?;
        if program.fd().is_err() {
            self.load(name, || program.load())?;
        }
        Ok(program.info().map_err(refused(name))?.id())
    }

    pub(super) fn tc<'a>(&mut self, ebpf: &'a mut Ebpf) -> Result<(&'a mut SchedClassifier, u32), BpfError> {
        let program = find::<SchedClassifier>(ebpf, TC)?;
        if program.fd().is_err() {
            self.load(TC, || program.load())?;
        }
        let id = program.info().map_err(refused(TC))?.id();
        Ok((program, id))
    }

    fn load(
        &mut self,
        program: &'static str,
        load: impl FnOnce() -> Result<(), ProgramError>,
    ) -> Result<(), BpfError> {
        if let Some(why) = self.refused.get(program) {
            return Err(BpfError::Refused { program, why: why.clone() });
        }
        load().map_err(|error| match &error {
            ProgramError::LoadError { io_error, verifier_log } if !verifier_log.to_string().is_empty() => {
                let log = verifier_log.to_string();
                debug!(program, log, "the verifier has refused a program");
                let why = format!("{} ({io_error})", reason(&log));
                self.refused.insert(program, why.clone());
                BpfError::Refused { program, why }
            }
            _ => refused(program)(error),
        })
    }
}

/// Returns the reason in a verifier's log: its last line that is no statistics.
fn reason(log: &str) -> &str {
    const STATISTICS: [&str; 3] = ["processed ", "stack depth ", "verification time "];
    let is_about_the_check = |line: &str| STATISTICS.iter().any(|begin| line.starts_with(begin));
    let mut lines = log.lines().rev().map(str::trim);
    lines.find(|line| !line.is_empty() && !is_about_the_check(line)).unwrap_or("it gives no reason")
}

fn find<'a, P>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut P, BpfError>
where
    &'a mut P: TryFrom<&'a mut Program>,
{
    let program = ebpf.program_mut(name).and_then(|program| program.try_into().ok());
    program.ok_or(BpfError::Missing { kind: "program", name })
}

/// Returns true if the kernel refused a program for a flag that it does not know: it did not come to
/// the verifier, which would have left a log.
fn is_before_the_verifier(error: &ProgramError) -> bool {
    matches!(
        error,
        ProgramError::LoadError { io_error, verifier_log }
            if io_error.raw_os_error() == Some(libc::EINVAL) && verifier_log.to_string().is_empty()
    )
}

pub(super) fn refused(program: &'static str) -> impl FnOnce(ProgramError) -> BpfError {
    move |source| BpfError::Program { program, source: Box::new(source) }
}
