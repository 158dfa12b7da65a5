//! Opens the data plane: continues from the pins, takes over those of another layout, or makes new
//! ones.

use std::path::PathBuf;

use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use vipward_common::{LeaseDeadline, PINNED, maps as names};
use vipward_core::host::{
    attaching::Attachments,
    layout::{Change, Description},
};

use super::{
    data_plane::DataPlane,
    description::Records,
    error::BpfError,
    held::Held,
    maps::Maps,
    migrate::Old,
    pins::{Pins, Set},
    programs::Programs,
    sets::Found,
};

/// The object that `cargo xtask build-ebpf` builds, with the layout of this version.
static OBJECT: &[u8] = include_bytes_aligned!(env!("VIPWARD_EBPF_OBJECT"));

#[derive(Clone, Debug)]
pub struct Options {
    /// The pin directory, on a bpffs.
    pub pin_dir: PathBuf,
    pub max_vips: u32,
    /// True if the program logs claims through aya-log. Off, that costs nothing.
    pub log: bool,
    /// An object to load instead of the embedded one.
    pub object: Option<PathBuf>,
    /// The first lease deadline of new maps.
    pub lease_deadline: LeaseDeadline,
}

/// A loader. It is made while the agent has little else in memory: aya reads the kernel's BTF for
/// it, which takes 15 MiB for a moment. The program reads no kernel structure and needs no BTF.
pub struct Loader(EbpfLoader<'static>);

impl Loader {
    pub fn new() -> Self {
        let mut loader = EbpfLoader::new();
        loader.btf(None);
        Self(loader)
    }
}

impl Default for Loader {
    fn default() -> Self {
        Self::new()
    }
}

/// The pinned state that was found when the data plane was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Opening {
    /// New maps: nothing was pinned.
    Fresh,
    /// Maps of this layout and size were pinned, and go on.
    Reused,
    /// Maps of another size were pinned. Their entries were taken over.
    Resized {
        from: u32,
        to: u32,
        /// Entries that did not fit.
        dropped: usize,
    },
    /// Maps of another layout were pinned. Their contents were taken over.
    Migrated {
        change: Change,
        /// Elements that did not fit or could not be read.
        dropped: usize,
    },
    /// A set of maps was pinned that an agent had not put in force when it was killed. The contents
    /// of the set in force were taken over, with the yields of both.
    Repeated {
        /// Elements that did not fit.
        dropped: usize,
    },
}

impl DataPlane {
    /// Opens the pinned data plane, or makes one. A program that is attached already is replaced
    /// atomically.
    pub fn open(loader: Loader, options: &Options) -> Result<(Self, Opening), BpfError> {
        if options.object.is_none() {
            check_embedded(OBJECT)?;
        }
        let pins = Pins::new(&options.pin_dir);
        pins.finish_publishing()?;
        let found = pins.inspect(Set::InForce)?;
        let interrupted = pins.inspect(Set::New)?;
        let (mut plane, opening) = match found {
            Some(Found { comparison, .. })
                if interrupted.is_none()
                    && comparison.changed.is_none()
                    && comparison.max_vips.is_none_or(|found| found == options.max_vips) =>
            {
                Self::reuse(loader, options, pins, &comparison.missing)?
            }
            found => Self::replace(loader, options, pins, found, interrupted.as_ref())?,
        };
        plane.held = Held::all(&plane.pins)?;
        Ok((plane, opening))
    }

    /// Returns a data plane that is attached nowhere.
    fn detached(ebpf: Ebpf, programs: Programs, maps: Maps, pins: Pins) -> Self {
        let (attachments, held) = (Attachments::default(), Held::default());
        Self { ebpf, programs, maps, pins, attachments, held }
    }

    /// Opens the pinned maps. Makes those that are missing beside them.
    fn reuse(
        loader: Loader,
        options: &Options,
        pins: Pins,
        missing: &[&'static str],
    ) -> Result<(Self, Opening), BpfError> {
        // A map is described before it is pinned, so that no pin is without a description.
        if let Some(mut records) = Records::open(&pins, Set::InForce)? {
            let missing = PINNED.iter().filter(|map| missing.contains(&map.name));
            records.write(&Description::of(missing))?;
        }
        let (mut ebpf, programs) = load(loader, options, &pins, true)?;
        let mut maps = Maps::take(&mut ebpf)?;
        if missing.contains(&names::LEASE_DEADLINE) {
            maps.set_deadline(&options.lease_deadline)?;
        }
        if missing.iter().any(|name| names::WIRE.contains(name)) {
            // A node without records of received frames is another monitor.
            maps.wire_mut().set_wid(None)?;
        }
        maps.set_defence(options.lease_deadline.defence)?;
        maps.repair_filter()?;
        let mut plane = Self::detached(ebpf, programs, maps, pins);
        plane.take_over()?;
        // An agent may have been killed before its new set was whole.
        plane.pins.clear_new()?;
        Ok((plane, Opening::Reused))
    }

    /// Makes a new set of maps, takes over the contents of the old one, and puts it in force.
    fn replace(
        loader: Loader,
        options: &Options,
        pins: Pins,
        found: Option<Found>,
        interrupted: Option<&Found>,
    ) -> Result<(Self, Opening), BpfError> {
        let old = |set, found: Option<&Found>| {
            found.map(|found| Old::open(&pins, set, &found.description)).transpose()
        };
        let (former, interrupted) = (old(Set::InForce, found.as_ref())?, old(Set::New, interrupted)?);
        pins.clear_new()?;
        let (mut ebpf, programs) = load(loader, options, &pins, false)?;
        pins.pin_new(&ebpf)?;
        let (mut maps, mut records) = (Maps::take(&mut ebpf)?, Records::take(&mut ebpf)?);
        maps.set_deadline(&options.lease_deadline)?;
        records.write(&Description::of(PINNED))?;
        let (Some(found), Some(former)) = (found, former) else {
            records.pin(&pins, Set::New)?;
            pins.remove_links()?;
            pins.publish()?;
            return Ok((Self::detached(ebpf, programs, maps, pins), Opening::Fresh));
        };
        // Maps that this version does not know stay, with their description.
        records.write(&found.description.unknown())?;
        let dropped = former.copy(&pins, &mut maps)?;
        maps.set_defence(options.lease_deadline.defence)?;
        let old: Vec<_> = [Some(former), interrupted].into_iter().flatten().collect();
        old.iter().try_for_each(|old| old.copy_yields(&mut maps))?;
        records.pin(&pins, Set::New)?;
        let mut plane = Self::detached(ebpf, programs, maps, pins);
        plane.take_over()?;
        // From here on nothing writes the old maps.
        old.iter().try_for_each(|old| old.copy_yields(&mut plane.maps))?;
        plane.pins.publish()?;
        let opening = match (found.comparison.changed, found.comparison.max_vips) {
            (Some(change), _) => Opening::Migrated { change, dropped },
            (None, Some(from)) if from != options.max_vips => {
                Opening::Resized { from, to: options.max_vips, dropped }
            }
            (None, _) => Opening::Repeated { dropped },
        };
        Ok((plane, opening))
    }
}

/// Fails if the build script had to embed an empty object.
const fn check_embedded(object: &[u8]) -> Result<(), BpfError> {
    if object.is_empty() { Err(BpfError::Stub) } else { Ok(()) }
}

/// Loads the object and the programs that will replace those that run. Opens the pinned maps, or creates
/// new ones.
fn load(
    loader: Loader,
    options: &Options,
    pins: &Pins,
    reuses_maps: bool,
) -> Result<(Ebpf, Programs), BpfError> {
    const OFF: &u8 = &0;
    const ON: &u8 = &u8::MAX;
    let Loader(mut loader) = loader;
    loader
        .map_max_entries(names::VIPS_V4, options.max_vips)
        .map_max_entries(names::VIPS_V6, options.max_vips)
        .map_max_entries(names::VIP_STATE, options.max_vips)
        // An object that was built without log lines has no log level.
        .override_global("AYA_LOG_LEVEL", if options.log { ON } else { OFF }, false);
    if reuses_maps {
        // This also pins those that it makes.
        for name in names::all() {
            loader.map_pin_path(name, pins.map(name));
        }
    }
    let (loaded, object) = match &options.object {
        Some(path) => (loader.load_file(path), path.display().to_string()),
        None => (loader.load(OBJECT), "the object in this binary".to_owned()),
    };
    let mut ebpf = loaded.map_err(|source| BpfError::Load { object, source: Box::new(source) })?;
    if let Some(name) = names::all().find(|name| ebpf.map(name).is_none()) {
        return Err(BpfError::Missing { kind: "map", name });
    }
    let mut programs = Programs::of(&mut ebpf)?;
    // A program that the kernel refuses replaces none.
    pins.links()?.iter().try_for_each(|pin| programs.load_for(&mut ebpf, pin.mode))?;
    Ok((ebpf, programs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_object_is_refused_and_only_a_stub_build_has_one() {
        let error = check_embedded(&[]).expect_err("an empty object has no program").to_string();
        assert!(error.starts_with("this vipward was built without its XDP object: "), "{error}");
        let is_stub = option_env!("VIPWARD_EBPF_STUB") == Some("1");
        assert_eq!(check_embedded(OBJECT).is_err(), is_stub);
    }
}
