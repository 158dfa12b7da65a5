//! Every shell block of the pages runs in a test, with the oldest `kubectl` at hand and the one of PATH.
//!
//! `homes.rs` is the table of all blocks. What a block needs and this machine lacks, such as systemd
//! or a kubelet, has a stand-in, or the table has the reason why the block does not run.

mod agents;
mod helm;
mod homes;
mod host;
mod markdown;
mod operator;
mod sandbox;

use anyhow::{Result, ensure};
use serde_json::Value;
use vipward_tests::kit::tools;

use self::{
    homes::{HOMES, Home},
    markdown::Block,
    sandbox::{Kubectl, home_of},
};
use crate::deploy::{find, parse, skipped};

/// Returns the oldest `kubectl` at hand, and the one of PATH.
fn kubectls() -> Vec<Kubectl> {
    let Some(newest) = find("kubectl") else {
        skipped("kubectl is not installed, so that the pages' blocks cannot be run");
        return Vec::new();
    };
    let oldest = tools::kubectl().unwrap_or_else(|missing| {
        skipped(&format!("{missing:#}, so that the pages' blocks run with the kubectl of PATH alone"));
        newest.clone()
    });
    let mut paths = vec![oldest, newest.clone()];
    paths.dedup();
    paths.into_iter().map(|path| Kubectl { path, for_kustomizations: newest.clone() }).collect()
}

#[test]
fn every_block_has_a_language_and_every_shell_block_one_home() -> Result<()> {
    let blocks = markdown::all()?;
    let mut faults = Vec::new();
    for Block { page, line, .. } in blocks.iter().filter(|block| block.language.is_empty()) {
        faults.push(format!("{page}:{line}: the block has no language (sh, console, yaml, text)"));
    }
    let is_in = |block: &Block, (page, begins, _): &(&str, &str, Home)| {
        block.is_shell() && block.page == *page && block.text.starts_with(begins)
    };
    for block in blocks.iter().filter(|block| block.is_shell()) {
        if home_of(block).is_none() {
            faults
                .push(format!("{}:{}: no test runs this block: add it to homes.rs", block.page, block.line));
        }
    }
    for row in HOMES {
        let count = blocks.iter().filter(|block| is_in(block, row)).count();
        if count != 1 {
            faults.push(format!("{}: {count} blocks begin `{}`", row.0, row.1));
        }
        if let Home::By(file) = row.2
            && !tools::in_checkout("tests/tests/api").join(file).is_file()
        {
            faults.push(format!("{}: `{}` runs in {file}, which is not there", row.0, row.1));
        }
    }
    ensure!(faults.is_empty(), "{faults:#?}");
    Ok(())
}

/// Returns the documents in a block: all of it in YAML, or the here-documents of commands.
fn documents_in(block: &Block) -> Vec<String> {
    if block.language == "yaml" {
        return block.text.split("\n---\n").map(str::to_owned).collect();
    }
    let mut lines = block.text.lines();
    let mut documents = Vec::new();
    while let Some(line) = lines.next() {
        if let Some((_, end)) = line.split_once("<<") {
            let end = end.trim_matches(['\'', '"', '-']);
            let document: Vec<_> = lines.by_ref().take_while(|line| *line != end).collect();
            documents.extend(document.join("\n").split("\n---\n").map(str::to_owned));
        }
    }
    documents
}

/// Returns what is wrong with a document. Up to 1.32, `kubectl` takes one that begins with a brace for JSON.
fn fault_of(document: &str) -> Option<&'static str> {
    let mut content =
        document.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let is_json = || serde_json::from_str::<Value>(document).is_ok();
    if parse(document).is_err() {
        return Some("it is no YAML");
    }
    (content.next()?.starts_with('{') && !is_json()).then_some("it begins with `{` and is no JSON")
}

#[test]
fn a_document_that_begins_with_a_brace_is_json() {
    for (document, fault) in [
        ("a: 1", None),
        ("# a pool\na: {b: 1}", None),
        ("{\"a\": 1}", None),
        ("# a pool\n\n{a: 1}", Some("it begins with `{` and is no JSON")),
        ("a: [", Some("it is no YAML")),
    ] {
        assert_eq!(fault_of(document), fault, "{document}");
    }
}

#[test]
fn the_oldest_kubectl_parses_each_manifest_of_pages_and_deploy() -> Result<()> {
    let blocks = markdown::all()?;
    let of_pages = blocks.iter().filter(|block| block.language == "yaml" || block.is_shell());
    let mut documents: Vec<_> = of_pages
        .flat_map(|block| documents_in(block).into_iter().map(move |document| (block.page.clone(), document)))
        .collect();
    let of_pages = documents.len();
    for path in manifests(&tools::in_checkout("deploy"))? {
        let text = super::deploy::read(&path)?;
        documents
            .extend(text.split("\n---\n").map(|document| (path.display().to_string(), document.to_owned())));
    }
    ensure!(of_pages > 5 && documents.len() > of_pages + 30, "{of_pages} of {}", documents.len());
    let faults =
        documents.iter().filter_map(|(place, document)| Some((place, fault_of(document)?, document)));
    let faults: Vec<_> = faults.collect();
    ensure!(faults.is_empty(), "{faults:#?}");
    Ok(())
}

/// Returns the YAML files of a folder, without the chart's templates.
fn manifests(folder: &std::path::Path) -> Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "templates") {
            found.extend(manifests(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
    Ok(found)
}
