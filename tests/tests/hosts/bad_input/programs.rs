//! Programs that the kernel's verifier refuses.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSection, ObjectSymbol};
use vipward_tests::{
    agent::{Attachment, HOLDS_ONE, NODE, Node, PATIENCE, VIP},
    oracle::kernel::object_path,
};

/// `r0 = *(u64 *)(r10 + 8)`: no program may read above its stack.
const READS_ABOVE_ITS_STACK: [u8; 8] = [0x79, 0xa0, 0x08, 0, 0, 0, 0, 0];

/// Writes an object in which the verifier refuses one program.
fn broken(directory: &Path, program: &str) -> Result<PathBuf> {
    let mut bytes = fs::read(object_path())?;
    let file = object::File::parse(&*bytes)?;
    let symbol = file.symbol_by_name(program).with_context(|| format!("there is no {program}"))?;
    let section = file.section_by_index(symbol.section_index().context("it is in no section")?)?;
    let (start, _) = section.file_range().context("its section has no bytes")?;
    let begin = usize::try_from(start + symbol.address())?;
    bytes[begin..begin + READS_ABOVE_ITS_STACK.len()].copy_from_slice(&READS_ABOVE_ITS_STACK);
    let path = directory.join("broken.o");
    fs::write(&path, bytes)?;
    Ok(path)
}

fn option(object: &Path) -> Vec<String> {
    vec!["--ebpf-object".to_owned(), object.display().to_string()]
}

#[test]
fn an_interface_whose_program_the_verifier_refuses_is_left_alone_until_another_mode_is_set() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let object = broken(directory.path(), "vipward")?;
    let mut node = Node::start_with("refused", Attachment::Native, HOLDS_ONE, |options| {
        options.args = option(&object);
    })?;
    let problem = "the kernel's verifier refuses program vipward: invalid read from stack";
    node.wait_for_problem(0, &["no program for interface eth0", problem])?;
    assert_eq!(node.ask(VIP)?, None);
    node.agent.write_config(&format!("attach: tc\n{HOLDS_ONE}"))?;
    node.wait_until_answered(VIP, NODE)
}

#[test]
fn an_upgrade_whose_program_the_verifier_refuses_replaces_nothing() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let object = broken(directory.path(), "vipward_tc")?;
    let mut node = Node::start_with("refused-upgrade", Attachment::Auto, HOLDS_ONE, |_| {})?;
    node.wait_until_answered(VIP, NODE)?;
    let programs = node.programs()?;

    node.agent.kill9()?;
    node.agent.options.args = option(&object);
    node.agent.restart()?;
    let status = node.agent.wait(PATIENCE)?;
    ensure!(!status.success(), "the agent ends with an error");
    let transcript = node.agent.transcript();
    assert!(transcript.contains("the kernel's verifier refuses program vipward_tc"), "{transcript}");
    assert_eq!(node.programs()?, programs);

    node.agent.options.args.clear();
    node.restart_agent()?;
    node.wait_until_answered(VIP, NODE)
}
