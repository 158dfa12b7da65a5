//! Annotations that have no effect on a Service: unknown ones of Vipward, those of its other objects,
//! and those of other balancers.

use thiserror::Error;

#[cfg(test)]
mod tests;

/// The prefix of Vipward's annotations. The API server takes it in capitals too.
const PREFIX: &str = "vipward.io/";
/// An annotation that only Services have.
const OF_SERVICES: &str = "vipward.io/addresses";
/// Largest number of such annotations of a Service that are recorded: the first by name.
const MOST: usize = 8;
/// Largest number of bytes of a recorded name.
const LONGEST: usize = 128;

/// The annotations of other objects, and the class, each with its place.
const ELSEWHERE: [(&str, &str); 5] = [
    (
        "vipward.io/force",
        "it takes addresses from other hosts, so an admin sets it on the VirtualIP: kubectl annotate \
         virtualip NAME vipward.io/force=true",
    ),
    (
        "vipward.io/move-to",
        "it is for the VirtualIP: kubectl annotate virtualip NAME vipward.io/move-to=NODE",
    ),
    (
        "vipward.io/release",
        "it is for the VirtualIP: kubectl annotate virtualip NAME vipward.io/release=true",
    ),
    (
        "vipward.io/share-with",
        "it is for the Namespace of the VIP's owner: kubectl annotate namespace NAME \
         vipward.io/share-with=OTHER",
    ),
    ("vipward.io/l2", "it is a class, for spec.loadBalancerClass"),
];

/// An annotation of another balancer that Vipward does not read.
struct Foreign {
    annotation: &'static str,
    controller: &'static str,
    instead: Instead,
}

/// The remedy for an annotation of another balancer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instead {
    /// Vipward's annotation of the same meaning.
    Ours(&'static str),
    /// The same. With `--metallb`, Vipward reads the foreign one.
    OursOrMetallb(&'static str),
    /// Vipward has nothing of the same meaning.
    Nothing,
}

macro_rules! foreign {
    ($($controller:literal { $($annotation:literal => $instead:expr,)* })*) => {
        /// The annotations by which users of other balancers request something. Those that a controller
        /// writes itself are not listed.
        const FOREIGN: &[Foreign] =
            &[$($(Foreign { annotation: $annotation, controller: $controller, instead: $instead },)*)*];
    };
}

foreign! {
    "MetalLB" {
        "metallb.universe.tf/loadBalancerIPs" => Instead::OursOrMetallb("vipward.io/addresses"),
        "metallb.universe.tf/address-pool" => Instead::OursOrMetallb("vipward.io/pool"),
        "metallb.universe.tf/allow-shared-ip" => Instead::OursOrMetallb("vipward.io/share"),
        "metallb.io/allow-shared-ip" => Instead::OursOrMetallb("vipward.io/share"),
    }
    "Cilium" {
        "lbipam.cilium.io/ips" => Instead::Ours("vipward.io/addresses"),
        "io.cilium/lb-ipam-ips" => Instead::Ours("vipward.io/addresses"),
        "lbipam.cilium.io/sharing-key" => Instead::Ours("vipward.io/share"),
        "io.cilium/lb-ipam-sharing-key" => Instead::Ours("vipward.io/share"),
        "lbipam.cilium.io/sharing-cross-namespace" => Instead::Ours("vipward.io/share"),
        "io.cilium/lb-ipam-sharing-cross-namespace" => Instead::Ours("vipward.io/share"),
    }
    "kube-vip" {
        "kube-vip.io/serviceInterface" => Instead::Ours("vipward.io/interface"),
        "kube-vip.io/loadbalancerHostname" => Instead::Nothing,
        "kube-vip.io/egress" => Instead::Nothing,
        "kube-vip.io/forwardUPNP" => Instead::Nothing,
    }
    "PureLB" {
        "purelb.io/addresses" => Instead::Ours("vipward.io/addresses"),
        "purelb.io/service-group" => Instead::Ours("vipward.io/pool"),
        "purelb.io/allow-shared-ip" => Instead::Ours("vipward.io/share"),
    }
    "OpenELB" {
        "eip.openelb.kubesphere.io/v1alpha1" => Instead::Ours("vipward.io/pool"),
        "eip.openelb.kubesphere.io/v1alpha2" => Instead::Ours("vipward.io/pool"),
    }
}

/// The reason why an annotation has no effect, and the remedy.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Ineffective {
    #[error("it is unknown; {}", remedy(nearest.as_ref().copied(), known))]
    Unknown { nearest: Option<&'static str>, known: &'static [&'static str] },
    #[error("{0}")]
    Elsewhere(&'static str),
    #[error(
        "it is the former name of {by}, which the Service has too, with another value, and which comes first; remove it"
    )]
    Former { by: Box<str> },
    #[error("it is {controller}'s, and Vipward does not read it; {}", in_its_place(*instead))]
    Foreign { controller: &'static str, instead: Instead },
}

/// Returns the names of the annotations that have no effect, or may have none, by the settings.
/// `known` has those that are read.
pub(super) fn recorded<'a>(names: impl Iterator<Item = &'a str>, known: &[&str]) -> Vec<Box<str>> {
    let is_one = |name: &&str| stem(name).is_some() && !known.contains(name) || foreign(name).is_some();
    let mut recorded: Vec<_> = names.filter(is_one).take(MOST).map(cut).collect();
    recorded.shrink_to_fit();
    recorded
}

impl Ineffective {
    /// Returns why a recorded annotation has no effect. None if it has one, because `MetalLB`'s
    /// annotations are read.
    pub(super) fn of(name: &str, known: &'static [&'static str], metallb: bool) -> Option<Self> {
        if let Some(Foreign { controller, instead, .. }) = foreign(name) {
            let is_read = metallb && matches!(instead, Instead::OursOrMetallb(_));
            return (!is_read).then_some(Self::Foreign { controller, instead: *instead });
        }
        let elsewhere = ELSEWHERE.iter().find(|(annotation, _)| *annotation == name);
        Some(match elsewhere {
            Some((_, why)) => Self::Elsewhere(why),
            None => Self::Unknown { nearest: stem(name).and_then(|stem| nearest(&stem, known)), known },
        })
    }

    /// Returns true if an annotation is below Vipward's prefix.
    pub(super) fn is_ours(name: &str) -> bool {
        stem(name).is_some()
    }

    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign { .. })
    }
}

fn foreign(name: &str) -> Option<&'static Foreign> {
    FOREIGN.iter().find(|foreign| foreign.annotation == name)
}

fn cut(name: &str) -> Box<str> {
    name[..name.floor_char_boundary(LONGEST)].into()
}

/// Returns the small letters and digits of an annotation's name after Vipward's prefix.
fn stem(name: &str) -> Option<String> {
    let (prefix, rest) = name.split_at_checked(PREFIX.len())?;
    let letters = rest.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase());
    prefix.eq_ignore_ascii_case(PREFIX).then(|| letters.collect())
}

/// Returns the annotation that the author of an unknown one most likely means: the one with the fewest
/// typing errors between, or else the one that begins, ends or means the same.
fn nearest(wrong: &str, known: &[&'static str]) -> Option<&'static str> {
    // A Service's author may mean another object. Of other objects, only their own are likely.
    let is_service = known.contains(&OF_SERVICES);
    let elsewhere = ELSEWHERE.iter().map(|(annotation, _)| *annotation).filter(|_| is_service);
    let all = known.iter().copied().chain(elsewhere);
    let all = all.filter_map(|annotation| Some((annotation, stem(annotation)?)));
    let is_part = |one: &str, of: &str| one.len() >= 4 && (of.starts_with(one) || of.ends_with(one));
    let likely = all.filter_map(|(annotation, right)| {
        let errors = strsim::osa_distance(wrong, &right);
        let is_near = errors <= wrong.len().max(right.len()) / 3;
        let is_alike = is_part(&right, wrong) || is_part(wrong, &right);
        (is_near || is_alike).then_some((!is_near, errors, annotation))
    });
    let alike = likely.min().map(|(.., annotation)| annotation);
    alike.or_else(|| by_meaning(wrong).filter(|annotation| known.contains(annotation)))
}

fn by_meaning(wrong: &str) -> Option<&'static str> {
    if wrong.contains("shar") {
        Some("vipward.io/share")
    } else if ["ip", "ips", "addr"].iter().any(|end| wrong.ends_with(end)) {
        Some("vipward.io/addresses")
    } else {
        None
    }
}

fn remedy(nearest: Option<&str>, known: &[&str]) -> String {
    nearest.map_or_else(
        || {
            let ours: Vec<_> = known.iter().filter(|name| name.starts_with(PREFIX)).copied().collect();
            if ours.is_empty() {
                return "remove it".to_owned();
            }
            format!("remove it, or take one of {}", ours.join(", "))
        },
        |nearest| format!("the nearest known one is {nearest}"),
    )
}

fn in_its_place(instead: Instead) -> String {
    match instead {
        Instead::Ours(ours) => format!("set {ours} instead, or remove it"),
        Instead::OursOrMetallb(ours) => {
            format!("set {ours} instead, or start agents and controller with --metallb")
        }
        Instead::Nothing => "remove it: Vipward has nothing like it".to_owned(),
    }
}
