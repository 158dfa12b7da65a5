//! The programs of the loaded object.

use aya::{
    Ebpf,
    programs::{Program, ProgramError, SchedClassifier, Xdp},
};
use vipward_core::attaching::Mode;

use super::BpfError;

/// The XDP program, for frames of several buffers (Linux 5.18).
pub(super) const XDP: &str = "vipward";
/// The same for kernels before that.
const XDP_PLAIN: &str = "vipward_plain";
/// The XDP program that runs on the ports of a bond.
pub(super) const PORTS: &str = "vipward_ports";
/// The program of traffic control.
pub(super) const TC: &str = "vipward_tc";

/// The loaded programs.
pub(super) struct Programs {
    /// The XDP program that the kernel took.
    xdp: &'static str,
    xdp_id: u32,
    tc_id: u32,
    /// The program for the ports of bonds, once it is needed.
    ports_id: Option<u32>,
}

impl Programs {
    /// Loads the programs into the kernel.
    pub(super) fn load(ebpf: &mut Ebpf) -> Result<Self, BpfError> {
        let xdp = match find::<Xdp>(ebpf, XDP)?.load() {
            Ok(()) => XDP,
            Err(error) if is_before_the_verifier(&error) => {
                find::<Xdp>(ebpf, XDP_PLAIN)?.load().map_err(refused(XDP_PLAIN))?;
                XDP_PLAIN
            }
            Err(error) => return Err(refused(XDP)(error)),
        };
        let xdp_id = find::<Xdp>(ebpf, xdp)?.info().map_err(refused(xdp))?.id();
        let tc = tc(ebpf)?;
        tc.load().map_err(refused(TC))?;
        let tc_id = tc.info().map_err(refused(TC))?.id();
        Ok(Self { xdp, xdp_id, tc_id, ports_id: None })
    }

    /// Returns the id of the program that runs in a mode.
    pub(super) fn id(&self, mode: Mode) -> u32 {
        match mode {
            Mode::Native | Mode::Generic => self.xdp_id,
            Mode::Tc => self.tc_id,
        }
    }

    /// Returns the XDP program with its id: the one for the ports of a bond, or the other.
    pub(super) fn xdp<'a>(
        &mut self,
        ebpf: &'a mut Ebpf,
        on_ports: bool,
    ) -> Result<(&'a mut Xdp, u32), BpfError> {
        if !on_ports {
            return Ok((find(ebpf, self.xdp)?, self.xdp_id));
        }
        let program = find::<Xdp>(ebpf, PORTS)?;
        if self.ports_id.is_none() {
            program.load().map_err(refused(PORTS))?;
        }
        let id = program.info().map_err(refused(PORTS))?.id();
        self.ports_id = Some(id);
        Ok((program, id))
    }
}

/// Returns the program of traffic control.
pub(super) fn tc(ebpf: &mut Ebpf) -> Result<&mut SchedClassifier, BpfError> {
    find(ebpf, TC)
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

/// Returns the error of an operation on a program that the kernel refused.
pub(super) fn refused(program: &'static str) -> impl FnOnce(ProgramError) -> BpfError {
    move |source| BpfError::Program { program, source: Box::new(source) }
}
