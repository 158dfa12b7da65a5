//! Requests in vain: annotations that have no effect, and a place that another one overrides.

use std::collections::BTreeSet;

use super::{
    super::{Annotations, Ineffective, Place, Problem, ServiceRecord, Settings},
    fields::{address_places, addresses, pool_key, pool_places},
};
use crate::base::legible::{Excerpt, named_within};

/// Largest number of annotations of one object that are named.
const MOST_NAMED: usize = 8;
/// Largest length of what is said of one object's annotations, in bytes: an Event takes 1,024.
const MOST_BYTES: usize = 960;

/// Returns the problems of a served Service. If another controller's status binds (`is_elsewhere`), its
/// own annotations are for it.
pub(crate) fn oversights(record: &ServiceRecord, is_elsewhere: bool, settings: &Settings) -> Vec<Problem> {
    let ineffective = record.annotations.ineffective.iter().filter_map(|name| {
        let why = Ineffective::of(name, Annotations::NAMES, settings.metallb)?;
        let is_others = is_elsewhere && why.is_foreign();
        (!is_others).then(|| Problem::Ineffective { annotation: (&**name).into(), why })
    });
    let former = record.annotations.former.iter().map(|(former, by)| Problem::Ineffective {
        annotation: (&**former).into(),
        why: Ineffective::Former { by: by.clone() },
    });
    let mut problems: Vec<_> = ineffective.chain(former.filter(|_| !is_elsewhere)).collect();
    if !is_elsewhere {
        problems.extend(contradictions(address_places(record), |_, used, _, ignored| {
            names_others(used, ignored)
        }));
        let pool = |place, name| pool_key(place, name, settings.metallb);
        let differ = |at, used, other, ignored| pool(at, used) != pool(other, ignored);
        problems.extend(contradictions(pool_places(record), differ));
    }
    problems
}

/// Returns the annotations below Vipward's prefix that have no effect on an object which is no Service, with the
/// reasons. `known` has those that have one.
pub fn oversights_on<'a>(
    kind: &str,
    names: impl Iterator<Item = &'a str>,
    known: &'static [&'static str],
) -> String {
    let unknown = names.filter(|name| Ineffective::is_ours(name) && !known.contains(name));
    let text = |name: &str| {
        let why = if Annotations::NAMES.contains(&name) {
            "it is for Services".to_owned()
        } else {
            Ineffective::of(name, known, false).map(|why| why.to_string()).unwrap_or_default()
        };
        format!("annotation {} has no effect on a {kind}: {why}", Excerpt::from(name))
    };
    let unknown: Vec<_> = unknown.collect();
    let mut texts: Vec<_> = unknown.iter().take(MOST_NAMED).map(|name| text(name)).collect();
    texts.truncate(named_within(&texts, MOST_BYTES));
    let more = unknown.len() - texts.len();
    texts.extend((more > 0).then(|| format!("And {more} more")));
    texts.join(". ")
}

/// Returns the places after the first that request what the first does not.
fn contradictions<'a>(
    mut places: impl Iterator<Item = (Place, &'a str)>,
    contradicts: impl Fn(Place, &'a str, Place, &'a str) -> bool,
) -> Vec<Problem> {
    let Some((used, in_effect)) = places.next() else { return Vec::new() };
    let ignored = places.filter(|(ignored, value)| contradicts(used, in_effect, *ignored, value));
    let problem = |(ignored, value): (Place, &str)| Problem::Contradiction {
        used,
        in_effect: in_effect.into(),
        ignored,
        value: value.into(),
    };
    ignored.map(problem).collect()
}

/// Returns true if a text names addresses that the one before it does not. The address 0.0.0.0 leaves
/// the choice to the controller. A text that counts and cannot be read is a problem of its own.
fn names_others(in_effect: &str, ignored: &str) -> bool {
    let set = |text| addresses(text).map(|all| all.into_iter().collect::<BTreeSet<_>>());
    match (set(in_effect), set(ignored)) {
        (Err(_), _) => false,
        (Ok(_), Err(_)) => true,
        (Ok(used), Ok(ignored)) => ignored.iter().any(|vip| !vip.is_unspecified() && !used.contains(vip)),
    }
}
