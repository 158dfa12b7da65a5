//! The Markdown pages: their links, their anchors, and their lines of prose.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::Range,
    path::Path,
};

use anyhow::{Context as _, Result};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::workspace::Workspace;

/// The table of contents, with every page below [`FOLDER`].
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";
pub(crate) const FOLDER: &str = "docs/";
/// Characters of a line of prose.
const COLUMNS: usize = 100;

/// A link to a file of the checkout, or to a heading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    pub(crate) line: usize,
    pub(crate) target: String,
}

#[derive(Default, Debug)]
pub(crate) struct Page {
    pub(crate) links: Vec<Link>,
    /// The anchors of the headings, as GitHub makes them, and those of tags.
    anchors: BTreeSet<String>,
    /// Lines of prose that are too long.
    long: Vec<usize>,
}

/// The pages by their path in the checkout.
pub(crate) type Pages = BTreeMap<String, Page>;

/// Reads the pages among these files.
pub(crate) fn read(workspace: &Workspace, files: &[String]) -> Result<Pages> {
    let is_page = |file: &&String| Path::new(file).extension().is_some_and(|extension| extension == "md");
    let pages = files.iter().filter(is_page).filter(|file| workspace.root.join(file).is_file());
    let page = |file: &String| {
        let text = fs::read_to_string(workspace.root.join(file));
        Ok((file.clone(), Page::of(&text.with_context(|| format!("failed to read {file}"))?)))
    };
    pages.map(page).collect()
}

impl Page {
    pub(crate) fn of(text: &str) -> Self {
        let mut page = Self::default();
        let mut counts = BTreeMap::new();
        let mut heading: Option<String> = None;
        let mut unwrapped = Vec::new();
        let line_at = |offset: usize| text[..offset].matches('\n').count() + 1;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let name = anchor(&heading.take().unwrap_or_default());
                    let count = counts.entry(name.clone()).or_insert(0);
                    page.anchors.insert(if *count == 0 { name } else { format!("{name}-{count}") });
                    *count += 1;
                }
                Event::Text(words) | Event::Code(words) => {
                    if let Some(heading) = &mut heading {
                        *heading += &words;
                    }
                }
                Event::Html(tag) | Event::InlineHtml(tag) => page.anchors.extend(id(&tag)),
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    let is_elsewhere = dest_url.contains("://") || dest_url.starts_with("mailto:");
                    if !is_elsewhere {
                        page.links.push(Link { line: line_at(range.start), target: dest_url.to_string() });
                    }
                }
                Event::Start(Tag::Table(_) | Tag::CodeBlock(_) | Tag::HtmlBlock) => {
                    unwrapped.push(line_at(range.start)..line_at(range.end));
                }
                _ => {}
            }
        }
        page.long = long_lines(text, &unwrapped);
        page
    }
}

/// Returns the lines that are too long, besides those that cannot be wrapped.
fn long_lines(text: &str, unwrapped: &[Range<usize>]) -> Vec<usize> {
    let long = (1..).zip(text.lines()).filter(|(_, line)| line.chars().count() > COLUMNS);
    let long = long.filter(|(number, _)| !unwrapped.iter().any(|lines| lines.contains(number)));
    long.map(|(number, _)| number).collect()
}

/// Returns the anchor that GitHub gives to a heading.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    heading.trim().to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the anchor in a tag, such as `<a id="here">`.
fn id(tag: &str) -> Option<String> {
    Some(tag.split_once("id=\"")?.1.split('"').next()?.to_owned())
}

/// Returns the path in the checkout to which a link of a page leads, without its anchor. Returns
/// `None` if it leads out of the checkout.
pub(crate) fn path_of(page: &str, target: &str) -> Option<String> {
    let path = target.split('#').next().unwrap_or_default();
    if path.is_empty() {
        return Some(page.to_owned());
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            "" => return None,
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns what is wrong with the pages. `exists` returns true if there is such a file or directory.
pub(crate) fn faults(pages: &Pages, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, page) in pages {
        for Link { line, target } in &page.links {
            let path = path_of(name, target).filter(|path| exists(path));
            let Some(path) = path else {
                faults.push(format!("{name}:{line}: there is no {target}"));
                continue;
            };
            let anchor = target.split_once('#').map(|(_, anchor)| anchor);
            if let (Some(anchor), Some(page)) = (anchor, pages.get(&path))
                && !page.anchors.contains(anchor)
            {
                faults.push(format!("{name}:{line}: {path} has no heading #{anchor}"));
            }
        }
        // mdBook wants an entry of the contents on one line.
        let long = page.long.iter().filter(|_| name != SUMMARY);
        faults.extend(
            long.map(|line| format!("{name}:{line}: prose of more than {COLUMNS} characters: wrap it")),
        );
    }
    let listed = pages.get(SUMMARY).into_iter().flat_map(|page| &page.links);
    let listed: BTreeSet<_> = listed.filter_map(|link| path_of(SUMMARY, &link.target)).collect();
    let all = pages.keys().filter(|name| name.starts_with(FOLDER) && *name != SUMMARY);
    faults.extend(all.filter(|name| !listed.contains(*name)).map(|name| format!("{SUMMARY} lacks {name}")));
    faults
}

#[cfg(test)]
mod tests;
