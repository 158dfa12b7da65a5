//! The fenced blocks of the pages.

use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use vipward_tests::kit::tools::in_checkout;

/// Folders with pages, beside the checkout's own.
const FOLDERS: [&str; 2] = ["docs", "deploy"];

#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Path of the page, from the checkout.
    pub(super) page: String,
    pub(super) line: usize,
    /// Word behind the opening fence.
    pub(super) language: String,
    pub(super) text: String,
}

impl Block {
    pub(super) fn is_shell(&self) -> bool {
        ["sh", "bash", "console"].contains(&self.language.as_str())
    }

    /// Returns the commands. In a `console` block they follow a prompt.
    pub(super) fn script(&self) -> String {
        if self.language != "console" {
            return self.text.clone();
        }
        self.text.lines().filter_map(command_of).collect::<Vec<_>>().join("\n")
    }

    /// Returns what the commands of a `console` block print.
    pub(super) fn output(&self) -> Vec<&str> {
        let is_output = |line: &&str| self.language == "console" && command_of(line).is_none();
        self.text.lines().filter(is_output).collect()
    }
}

/// Returns the command behind a user's or root's prompt.
fn command_of(line: &str) -> Option<&str> {
    ["$ ", "# "].iter().find_map(|prompt| line.strip_prefix(prompt))
}

/// Returns the blocks of all pages.
pub(super) fn all() -> Result<Vec<Block>> {
    let mut pages = markdown_in(Path::new(""), false)?;
    for folder in FOLDERS {
        pages.extend(markdown_in(Path::new(folder), true)?);
    }
    pages.sort();
    let blocks = pages.into_iter().map(|page| {
        let path = in_checkout(&page);
        let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        Ok(blocks(&page, &text))
    });
    Ok(blocks.collect::<Result<Vec<_>>>()?.concat())
}

fn markdown_in(folder: &Path, with_inner: bool) -> Result<Vec<String>> {
    let mut pages = Vec::new();
    let path = in_checkout(folder);
    for entry in fs::read_dir(&path).with_context(|| format!("failed to list {}", path.display()))? {
        let entry = entry?;
        let inner = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() && with_inner {
            pages.extend(markdown_in(&inner, with_inner)?);
        } else if inner.extension().is_some_and(|extension| extension == "md") {
            pages.push(inner.display().to_string());
        }
    }
    Ok(pages)
}

pub(super) fn blocks(page: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut inside = false;
    for (event, Range { start, .. }) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                inside = true;
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                let line = text[..start].lines().count() + 1;
                blocks.push(Block { page: page.to_owned(), line, language, text: String::new() });
            }
            Event::End(TagEnd::CodeBlock) => inside = false,
            Event::Text(part) if inside => {
                if let Some(block) = blocks.last_mut() {
                    block.text.push_str(&part);
                }
            }
            _ => {}
        }
    }
    blocks
}
