//! The pins of a data plane, and the names of loaded programs.

use std::{collections::BTreeMap, io, path::Path, time::Duration};

use aya::programs::loaded_programs;
use vipward_common::{ABI_VERSION, maps as names};

use super::fence;
use crate::{
    core::doctor::{Contents, Fact, PinnedLink, Plane, Unread, Vip},
    shell::{
        bpf::{BpfError, Maps, Mode, Pins},
        clock,
    },
};

/// What is pinned under `dir`; none when nothing is. `watched` is told for how long the fence has been watched.
pub(super) async fn read(dir: &Path, watched: impl FnMut(Duration)) -> Fact<Option<Plane>> {
    let pins = Pins::new(dir);
    let mut missing = Vec::new();
    for name in names::ALL {
        let path = pins.map(name);
        match path.try_exists() {
            Ok(true) => {}
            Ok(false) => missing.push(*name),
            Err(error) => {
                return Err(Unread {
                    reason: format!("failed to look for {}: {error}", path.display()),
                    denied: error.kind() == io::ErrorKind::PermissionDenied,
                });
            }
        }
    }
    let links = pins.links().map_err(|error| super::unread(&error))?;
    if missing.len() == names::ALL.len() && links.is_empty() {
        return Ok(None);
    }
    let links = links
        .iter()
        .map(|link| PinnedLink {
            ifindex: link.ifindex,
            native: link.mode == Mode::Native,
            program: link.ids().map(|(_, program)| program).map_err(|error| super::unread(&error)),
        })
        .collect();
    let contents = match missing.first() {
        Some(map) => Err(Unread { reason: format!("the pin of {map} is missing"), denied: false }),
        None => contents(&pins, watched).await,
    };
    Ok(Some(Plane { missing, links, contents }))
}

async fn contents(pins: &Pins, watched: impl FnMut(Duration)) -> Fact<Contents> {
    let failed = |error: BpfError| super::unread(&error);
    let maps = Maps::open(pins).map_err(failed)?;
    let version = maps.meta().map_err(failed)?.abi_version;
    if version != ABI_VERSION {
        let reason =
            format!("the pins have layout {version}, and this vipward reads layout {ABI_VERSION} only");
        return Err(Unread { reason, denied: false });
    }
    let now_ns = clock::coarse_ns().map_err(|errno| super::unread(&errno))?;
    let mut vips = Vec::new();
    for (key, entry) in maps.entries().map_err(failed)? {
        let seen = entry.as_seen(maps.state(entry.slot).map_err(failed)?.yielded, now_ns);
        vips.push(Vip { address: key.addr.into(), role: seen.role, mac: seen.mac });
    }
    Ok(Contents {
        vips,
        max_vips: maps.max_vips(),
        peers: maps.peers().map_err(failed)?.len(),
        events_lost: maps.counters().map_err(failed)?.events_lost,
        fence: fence::read(&maps, watched).await?,
    })
}

/// The names of loaded programs by their ids; none without `CAP_SYS_ADMIN`.
pub(super) fn program_names() -> BTreeMap<u32, String> {
    let named = |program: aya::programs::ProgramInfo| Some((program.id(), program.name_as_str()?.to_owned()));
    loaded_programs().filter_map(Result::ok).filter_map(named).collect()
}
