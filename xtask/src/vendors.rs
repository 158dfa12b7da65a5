//! `vendors`: makes the table of MAC address prefixes from the IEEE's listings in a crate.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::{process, workspace::Workspace};

/// Crate that packs the listings. Only its data is used: compiled, it is 6 MB that the loader must
/// relocate.
const CRATE: &str = "oui-data";
/// Version of the crate. Change [`PUBLISHED`] with it.
const VERSION: &str = "0.2.4";
const PUBLISHED: &str = "2026-10-17";

/// Listings of MAC address blocks; company ids (CID) are no addresses.
const LISTINGS: &[&str] = &["oui.csv", "oui28.csv", "oui36.csv", "iab.csv"];
pub(crate) const TABLE: &str = "vendors/prefixes.txt";
/// Owner of blocks that the registry divides; their parts have lines of their own.
const DIVIDED: &str = "IEEE Registration Authority";

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let data = fetch(workspace)?.join("data");
    let mut vendors = BTreeMap::new();
    for listing in LISTINGS {
        let path = data.join(listing);
        let mut reader =
            csv::Reader::from_path(&path).with_context(|| format!("failed to read {}", path.display()))?;
        for record in reader.records() {
            let record = record.with_context(|| format!("failed to parse {}", path.display()))?;
            let (prefix, name) = (record.get(1).unwrap_or_default(), record.get(2).unwrap_or_default());
            if let Some((prefix, name)) = entry(prefix, name).with_context(|| path.display().to_string())? {
                vendors.entry(prefix).or_insert(name);
            }
        }
    }
    let table = render(&vendors);
    let path = workspace.root.join(TABLE);
    fs::write(&path, &table).with_context(|| format!("failed to write {}", path.display()))?;
    println!("{TABLE}: {} prefixes, {} bytes", vendors.len(), table.len());
    Ok(())
}

/// Returns a prefix of six, seven or nine digits and its owner, or `None` for a line that does not
/// identify a sender.
fn entry(prefix: &str, name: &str) -> Result<Option<(String, String)>> {
    let prefix = prefix.trim().to_ascii_uppercase();
    let is_prefix = matches!(prefix.len(), 6 | 7 | 9) && prefix.bytes().all(|byte| byte.is_ascii_hexdigit());
    ensure!(is_prefix, "{prefix:?} is no prefix of 24, 28 or 36 bits");
    let name = name.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let name = name.collect::<Vec<_>>().join(" ");
    // Assignments with the bit for local use are older than the meaning of that bit.
    let local = u8::from_str_radix(&prefix[..2], 16)? & 2 != 0;
    Ok((!local && !name.is_empty() && name != DIVIDED).then_some((prefix, name)))
}

fn render(vendors: &BTreeMap<String, String>) -> String {
    let mut table = format!(
        "# Prefixes of MAC addresses, and to whom the IEEE Registration Authority has assigned them.\n\
         # Origin: {CRATE} {VERSION} on crates.io (MIT), which packs the authority's public listings.\n\
         # Date: {PUBLISHED}\n\
         # Made by `cargo xtask vendors`. The lines are sorted: the agent searches them where they are.\n"
    );
    for (prefix, name) in vendors {
        writeln!(table, "{prefix}\t{name}").expect("invariant: a String takes everything");
    }
    table
}

/// Fetches the crate for a temporary package, and returns the directory where cargo unpacked it.
fn fetch(workspace: &Workspace) -> Result<PathBuf> {
    let package = workspace.target.join("vendors");
    let manifest = package.join("Cargo.toml");
    fs::create_dir_all(package.join("src")).context("failed to make a package")?;
    fs::write(package.join("src/lib.rs"), "").context("failed to make a package")?;
    let text = format!(
        "[package]\nname = \"vendors\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n{CRATE} = \"={VERSION}\"\n"
    );
    fs::write(&manifest, text).context("failed to make a package")?;
    let mut metadata = process::cargo();
    metadata.args(["metadata", "--format-version=1", "--manifest-path"]).arg(&manifest);
    let metadata: Value =
        serde_json::from_str(&process::output(&mut metadata)?).context("failed to parse `cargo metadata`")?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` names no packages")?;
    let found = packages.iter().find(|package| package["name"] == CRATE);
    let manifest = found.and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.with_context(|| format!("`cargo metadata` has no {CRATE}"))?;
    Ok(Path::new(manifest).parent().context("invariant: a manifest is in a directory")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_gives_what_a_frame_can_have_come_from() {
        for (prefix, name, expected) in [
            ("08001E", "HIGH \u{a0} LEVEL\n HARDWARE ", Some("HIGH LEVEL HARDWARE")),
            ("c85ce27", "SYNERGY", Some("SYNERGY")),
            ("C85CE2", DIVIDED, None),
            ("020701", "RACAL-DATACOM", None),
            ("08001F", " ", None),
        ] {
            let expected = expected.map(|name| (prefix.to_ascii_uppercase(), name.to_owned()));
            assert_eq!(entry(prefix, name).expect("a prefix"), expected, "{prefix}");
        }
        assert!(entry("08001", "X").is_err());
        assert!(entry("08001G", "X").is_err());
    }
}
