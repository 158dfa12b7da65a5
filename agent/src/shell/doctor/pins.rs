//! The pins of a data plane, and the names of loaded programs.

use std::{collections::BTreeMap, io, path::Path};

use aya::programs::loaded_programs;
use vipward_common::{ABI_VERSION, Fence, maps as names};

use crate::{
    core::doctor::{Contents, Fact, FenceFact, PinnedLink, Plane, Unread, Vip},
    shell::{
        bpf::{BpfError, Maps, Mode, Pins},
        clock,
    },
};

/// What is pinned under `dir`; none when nothing is.
pub(super) fn read(dir: &Path) -> Fact<Option<Plane>> {
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
        None => contents(&pins),
    };
    Ok(Some(Plane { missing, links, contents }))
}

fn contents(pins: &Pins) -> Fact<Contents> {
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
        fence: fence(&maps.fence().map_err(failed)?, now_ns),
    })
}

fn fence(fence: &Fence, now_ns: u64) -> FenceFact {
    // Both are less than 2^63 ns, which is 292 years, after the machine's start.
    let left = |until_ns: u64| until_ns.cast_signed().saturating_sub(now_ns.cast_signed());
    FenceFact {
        state: fence.state(now_ns),
        policy: fence.policy,
        left_ns: left(fence.deadline_ns),
        hold_left_ns: left(fence.hold_until_ns),
    }
}

/// The names of loaded programs by their ids; none without `CAP_SYS_ADMIN`.
pub(super) fn program_names() -> BTreeMap<u32, String> {
    let named = |program: aya::programs::ProgramInfo| Some((program.id(), program.name_as_str()?.to_owned()));
    loaded_programs().filter_map(Result::ok).filter_map(named).collect()
}
