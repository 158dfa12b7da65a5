//! The programs of the loaded object.

use super::BpfError;
use aya::{
    Ebpf,
    programs::{Program, ProgramError, SchedClassifier, Xdp},
};

/// The XDP program, for frames of several buffers (Linux 5.18).
pub(super) const XDP: &str = "vipward";
/// The same for kernels before that.
const XDP_PLAIN: &str = "vipward_plain";
/// The XDP program that runs on the ports of a bond.
pub(super) const PORTS: &str = "vipward_ports";
/// The program of traffic control.
pub(super) const TC: &str = "vipward_tc";

/// The programs of the object. Each is loaded when it is needed first: the verifier takes longer for one
/// than everything else at the agent's start.
#[derive(Default)]
pub(super) struct Programs {
    /// The XDP program that the kernel took, with its id.
    xdp: Option<(&'static str, u32)>,
    /// The id of the program for the ports of bonds.
    ports: Option<u32>,
    /// The id of the program of traffic control.
    tc: Option<u32>,
}

impl Programs {
    /// Returns the programs of an object, of which none is loaded.
    pub(super) fn of(ebpf: &mut Ebpf) -> Result<Self, BpfError> {
        for name in [XDP, XDP_PLAIN, PORTS] {
            find::<Xdp>(ebpf, name)?;
        }
        find::<SchedClassifier>(ebpf, TC)?;
        Ok(Self::default())
    }

    /// Returns the XDP program with its id: the one for the ports of a bond, or the other.
    pub(super) fn xdp<'a>(
        &mut self,
        ebpf: &'a mut Ebpf,
        on_ports: bool,
    ) -> Result<(&'a mut Xdp, u32), BpfError> {
        if on_ports {
            let id = self.ports.map_or_else(|| load_xdp(ebpf, PORTS), Ok)?;
            self.ports = Some(id);
            return Ok((find(ebpf, PORTS)?, id));
        }
        let (name, id) = self.xdp.map_or_else(|| load_newest_xdp(ebpf), Ok)?;
        self.xdp = Some((name, id));
        Ok((find(ebpf, name)?, id))
    }

    /// Returns the program of traffic control with its id.
    pub(super) fn tc<'a>(&mut self, ebpf: &'a mut Ebpf) -> Result<(&'a mut SchedClassifier, u32), BpfError> {
        let program = find::<SchedClassifier>(ebpf, TC)?;
        let id = if let Some(loaded) = self.tc {
            loaded
        } else {
            program.load().map_err(refused(TC))?;
            program.info().map_err(refused(TC))?.id()
        };
        self.tc = Some(id);
        Ok((program, id))
    }
}

/// Loads the XDP program that the kernel can take, and returns its name and id.
fn load_newest_xdp(ebpf: &mut Ebpf) -> Result<(&'static str, u32), BpfError> {
    let (name, loaded) = match load_xdp(ebpf, XDP) {
        Err(BpfError::Program { source, .. }) if is_before_the_verifier(&source) => {
            (XDP_PLAIN, load_xdp(ebpf, XDP_PLAIN))
        }
        loaded => (XDP, loaded),
    };
    Ok((name, loaded?))
}

fn load_xdp(ebpf: &mut Ebpf, name: &'static str) -> Result<u32, BpfError> {
    let program = find::<Xdp>(ebpf, name)?;
    program.load().map_err(refused(name))?;
    Ok(program.info().map_err(refused(name))?.id())
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
