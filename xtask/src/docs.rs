//! `docs`: builds a site of the pages with mdBook.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    lint, pages,
    process::{self, Stopwatch},
    setup::{self, Need},
    workspace::Workspace,
};

const CONFIGURATION: &str = "\
[book]
title = \"Vipward\"
language = \"en\"
src = \"src\"

[build]
# README.md would become index.html, and links to it would not.
use-default-preprocessors = false

[output.html]
no-section-label = true
";

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let watch = Stopwatch::start();
    setup::ensure(workspace, &[Need::Docs])?;
    let site = workspace.target.join("docs");
    let sources = site.join("src");
    if sources.exists() {
        fs::remove_dir_all(&sources).with_context(|| format!("failed to remove {}", sources.display()))?;
    }
    let files = files(workspace)?;
    process::step(&format!("copying {} files to {}", files.len(), sources.display()));
    for file in &files {
        copy(workspace, &sources, file)?;
    }
    write(&sources.join("SUMMARY.md"), &summary(workspace)?)?;
    write(&site.join("book.toml"), CONFIGURATION)?;
    process::step("mdbook build");
    process::run(Command::new(setup::mdbook(workspace)).arg("build").arg(&site))?;
    process::step(&format!("built the site ({:.1} s); open", watch.seconds()));
    println!("{}", site.join("book/index.html").display());
    Ok(())
}

/// Returns the pages in the table of contents, and the files to which they link.
fn files(workspace: &Workspace) -> Result<BTreeSet<String>> {
    let all = pages::read(workspace, &lint::tracked(workspace)?)?;
    let linked = |page: &str| -> Vec<String> {
        let links = all.get(page).into_iter().flat_map(|it| &it.links);
        links.filter_map(|link| pages::path_of(page, &link.target)).collect()
    };
    let listed = linked(pages::SUMMARY);
    let mut files: BTreeSet<_> = listed.iter().flat_map(|page| linked(page)).collect();
    files.extend(listed);
    files.retain(|file| workspace.root.join(file).is_file());
    Ok(files)
}

/// Returns the table of contents for a book with the root of the checkout as its root.
fn summary(workspace: &Workspace) -> Result<String> {
    let path = workspace.root.join(pages::SUMMARY);
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(from_root(&text))
}

/// Returns a table of contents in docs/ with its links as from the root.
fn from_root(summary: &str) -> String {
    summary.replace("](", "](docs/").replace("](docs/../", "](")
}

fn copy(workspace: &Workspace, sources: &Path, file: &str) -> Result<()> {
    let from: PathBuf = workspace.root.join(file);
    let text = fs::read(&from).with_context(|| format!("failed to read {}", from.display()))?;
    write(&sources.join(file), text)
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("failed to create {}", parent.display()))?;
    }
    fs::write(path, bytes).with_context(|| format!("failed to write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_of_the_contents_begin_at_the_root() {
        let summary = "[A](kubernetes/README.md)\n- [B](../CHANGELOG.md)\n- [C](../deploy/x/README.md)\n";
        let expected = "[A](docs/kubernetes/README.md)\n- [B](CHANGELOG.md)\n- [C](deploy/x/README.md)\n";
        assert_eq!(from_root(summary), expected);
    }
}
