use object::{
    BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolScope,
    write::{Object, Symbol, SymbolSection},
};

use super::*;

const WIDE: [u8; 16] = [LD_IMM64, 1, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0];
const EXIT: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];

struct Fixture(Object<'static>);

impl Fixture {
    fn new(architecture: Architecture) -> Self {
        Self(Object::new(BinaryFormat::Elf, architecture, Endianness::Little))
    }

    fn with(mut self, section: &str, kind: SectionKind, symbol: &str, data: &[u8]) -> Self {
        let existing = self.0.section_id(object::write::StandardSection::Text);
        let id = if section == ".text" {
            existing
        } else {
            self.0.add_section(Vec::new(), section.as_bytes().to_vec(), kind)
        };
        let value = self.0.append_section_data(id, data, 8);
        self.0.add_symbol(Symbol {
            name: symbol.as_bytes().to_vec(),
            value,
            size: data.len() as u64,
            kind: if kind == SectionKind::Text { SymbolKind::Text } else { SymbolKind::Data },
            scope: SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Section(id),
            flags: SymbolFlags::None,
        });
        self
    }

    fn with_btf(mut self) -> Self {
        let id = self.0.add_section(Vec::new(), b".BTF".to_vec(), SectionKind::Other);
        self.0.append_section_data(id, &[0x9f, 0xeb, 1, 0], 4);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.write().expect("a valid object")
    }
}

fn complete() -> Fixture {
    let code = [&WIDE[..], &EXIT].concat();
    Fixture::new(Architecture::Bpf)
        .with("xdp", SectionKind::Text, "vipward", &code)
        .with(".text", SectionKind::Text, "memcpy", &EXIT)
        .with(".maps", SectionKind::Data, "vips_v4", &[0; 40])
        .with_btf()
}

#[test]
fn programs_are_measured_and_called_functions_distinguished() {
    let report = Report::read(&complete().bytes()).expect("a BPF object");
    let vipward =
        Program { name: "vipward".into(), section: "xdp".into(), bytes: 24, instructions: 3, wide: 1 };
    let memcpy =
        Program { name: "memcpy".into(), section: ".text".into(), bytes: 8, instructions: 1, wide: 0 };
    assert_eq!(report.programs, [vipward, memcpy]);
    assert_eq!(report.maps, ["vips_v4"]);
    report.check(&["vipward"], &["vips_v4"]).expect("nothing is missing");
}

#[test]
fn everything_that_is_missing_is_named() {
    let report = Report::read(&complete().bytes()).expect("a BPF object");
    let error = report
        .check(&["vipward", "other"], &["vips_v4", "lease_deadline", "links"])
        .expect_err("three are missing");
    assert_eq!(error.to_string(), "it has no program other, no map lease_deadline, no map links");
}

#[test]
fn a_function_that_is_only_called_is_no_program() {
    let report = Report::read(&complete().bytes()).expect("a BPF object");
    let error = report.check(&["memcpy"], &[]).expect_err("memcpy is in .text");
    assert_eq!(error.to_string(), "it has no program memcpy");
}

#[test]
fn an_object_without_btf_is_refused() {
    let fixture = Fixture::new(Architecture::Bpf).with("xdp", SectionKind::Text, "vipward", &EXIT);
    let report = Report::read(&fixture.bytes()).expect("a BPF object");
    let error = report.check(&["vipward"], &[]).expect_err("no BTF");
    assert!(error.to_string().contains("no .BTF section"), "{error}");
}

#[test]
fn an_object_for_another_machine_is_refused() {
    let error = Report::read(&Fixture::new(Architecture::X86_64).bytes()).expect_err("not BPF");
    assert_eq!(error.to_string(), "it is for X86_64, not little-endian BPF");
}

#[test]
fn a_truncated_object_never_passes_for_a_whole_one() {
    let whole = complete().bytes();
    for length in 0..whole.len() {
        let passed =
            Report::read(&whole[..length]).and_then(|report| report.check(&["vipward"], &["vips_v4"]));
        assert!(passed.is_err(), "the first {length} of {} bytes pass", whole.len());
    }
}
