//! Reads the programs, maps and type information of a BPF object.

use anyhow::{Context as _, Result, bail, ensure};
use object::{Architecture, Object as _, ObjectSection as _, ObjectSymbol, SymbolKind};

/// Size of one instruction slot, in bytes.
const SLOT: usize = 8;
/// Opcode of the only instruction that takes two slots: load a 64-bit immediate.
const LD_IMM64: u8 = 0x18;
/// The first bytes of a little-endian `.BTF` section.
const BTF_MAGIC: [u8; 2] = [0x9f, 0xeb];

/// Content of an object.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Report {
    pub(crate) programs: Vec<Program>,
    pub(crate) maps: Vec<String>,
    pub(crate) bytes: usize,
    pub(crate) has_btf: bool,
}

/// A function: a program, or a function in `.text` that programs call.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) section: String,
    pub(crate) bytes: usize,
    /// Instructions as the kernel counts them: slots of eight bytes.
    pub(crate) instructions: usize,
    /// Instructions that take two slots.
    pub(crate) wide: usize,
}

impl Program {
    fn read(name: &str, section: &str, code: &[u8]) -> Self {
        Self {
            name: name.to_owned(),
            section: section.to_owned(),
            bytes: code.len(),
            instructions: code.len() / SLOT,
            // The second slot of a wide instruction has opcode 0, so it is not counted itself.
            wide: code.chunks_exact(SLOT).filter(|slot| slot[0] == LD_IMM64).count(),
        }
    }

    pub(crate) fn is_called(&self) -> bool {
        self.section == ".text"
    }
}

impl Report {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let file = object::File::parse(bytes).context("it is no object file")?;
        ensure!(
            file.architecture() == Architecture::Bpf && file.is_little_endian(),
            "it is for {:?}, not little-endian BPF",
            file.architecture()
        );
        let mut report = Self { programs: Vec::new(), maps: Vec::new(), bytes: bytes.len(), has_btf: false };
        for symbol in file.symbols().filter(ObjectSymbol::is_definition) {
            let Some(index) = symbol.section_index() else { continue };
            let section = file.section_by_index(index)?;
            let (name, section_name) = (symbol.name()?, section.name()?);
            if symbol.kind() == SymbolKind::Text {
                let code = section.data_range(symbol.address(), symbol.size())?;
                let code =
                    code.with_context(|| format!("{name} reaches beyond its section {section_name}"))?;
                report.programs.push(Program::read(name, section_name, code));
            } else if section_name == ".maps" && symbol.kind() == SymbolKind::Data {
                report.maps.push(name.to_owned());
            }
        }
        if let Some(btf) = file.section_by_name(".BTF") {
            report.has_btf = btf.data()?.starts_with(&BTF_MAGIC);
        }
        report.programs.sort_by(|a, b| (a.is_called(), &a.name).cmp(&(b.is_called(), &b.name)));
        report.maps.sort();
        Ok(report)
    }

    /// Fails if the agent could not use the object, and names every fault.
    pub(crate) fn check(&self, programs: &[&str], maps: &[&str]) -> Result<()> {
        let mut faults = Vec::new();
        if !self.has_btf {
            faults.push("no .BTF section (is `--btf` passed to bpf-linker, and debuginfo on?)".to_owned());
        }
        let has_program = |name: &str| self.programs.iter().any(|p| !p.is_called() && p.name == name);
        faults.extend(
            programs.iter().filter(|name| !has_program(name)).map(|name| format!("no program {name}")),
        );
        let has_map = |name: &str| self.maps.iter().any(|map| map == name);
        faults.extend(maps.iter().filter(|name| !has_map(name)).map(|name| format!("no map {name}")));
        if faults.is_empty() {
            return Ok(());
        }
        bail!("it has {}", faults.join(", "))
    }
}

#[cfg(test)]
mod tests;
