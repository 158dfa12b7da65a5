//! Parsed requests, before any look-up: path, method, parameters, and user.

use std::collections::BTreeMap;

use hyper::{HeaderMap, Method, Uri, header};
use serde_json::Value;

use super::refusal::{Denied, Named, Refusal};

/// An operation on a resource, by the verbs of RBAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    /// Changes an object, by a merge patch or by server-side apply.
    Patch,
    Delete,
}

impl Verb {
    /// Returns the verb's name in RBAC.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }

    /// Returns true if the verb changes an object.
    pub const fn is_write(self) -> bool {
        match self {
            Self::Get | Self::List | Self::Watch => false,
            Self::Create | Self::Patch | Self::Delete => true,
        }
    }
}

/// The part of an object that a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    Status,
    /// The number of replicas.
    Scale,
}

impl Part {
    pub(super) const fn subresource(self) -> Option<&'static str> {
        match self {
            Self::Whole => None,
            Self::Status => Some("status"),
            Self::Scale => Some("scale"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Action {
    pub(super) verb: Verb,
    pub(super) group: String,
    pub(super) version: String,
    pub(super) resource: String,
    pub(super) part: Part,
    pub(super) namespace: Option<String>,
    /// The object's name; empty for a creation. A list and a watch have the name that their field
    /// selector selects, by which RBAC decides.
    pub(super) name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Resource(Action),
    /// The description of the types, `/openapi/v2`.
    Types,
    /// The parts of a path without a resource: `/api`, `/apis/GROUP/VERSION`.
    Discovery(Vec<String>),
}

#[derive(Debug, Default)]
pub(super) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Reads the query of `uri`, and refuses a parameter that the server does not know.
    pub(super) fn of(uri: &Uri) -> Result<Self, Refusal> {
        const SERVED: [&str; 12] = [
            "allowWatchBookmarks",
            "continue",
            "fieldManager",
            "fieldSelector",
            // The server refuses and drops the same fields whatever this is.
            "fieldValidation",
            "force",
            "labelSelector",
            "limit",
            "resourceVersion",
            "timeout",
            "timeoutSeconds",
            "watch",
        ];
        let query = uri.query().unwrap_or_default();
        let parameters: BTreeMap<String, String> =
            form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        match parameters.keys().find(|name| !SERVED.contains(&name.as_str())) {
            Some(name) => Err(Refusal::Unserved(format!("the parameter {name}").into())),
            None => Ok(Self(parameters)),
        }
    }

    /// Returns the value of a parameter. An empty one counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns true if a parameter is set.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| matches!(value.as_str(), "" | "1" | "true"))
    }

    /// Returns the value of a parameter that is a number.
    pub(super) fn number(&self, name: &'static str) -> Result<Option<u64>, Refusal> {
        let parse = |value: &str| {
            value.parse().map_err(|_| Refusal::Parameter { parameter: name, value: value.to_owned() })
        };
        self.get(name).map(parse).transpose()
    }

    /// Returns the name that `fieldSelector` selects; `None`: all objects.
    pub(super) fn selected_name(&self) -> Option<&str> {
        self.get("fieldSelector")?.strip_prefix("metadata.name=")
    }

    /// Returns true if the selectors select `object`. Their conditions have the form `key=value`.
    pub(super) fn select(&self, object: &Value) -> Result<bool, Refusal> {
        for (selector, of_labels) in [("labelSelector", true), ("fieldSelector", false)] {
            for condition in self.get(selector).into_iter().flat_map(|conditions| conditions.split(',')) {
                let parts = condition.split_once('=').filter(|(key, _)| !key.ends_with('!'));
                let unserved = || Refusal::Unserved(format!("the selector {condition}").into());
                let (key, wanted) = parts.ok_or_else(unserved)?;
                let found = if of_labels {
                    &object["metadata"]["labels"][key]
                } else {
                    key.split('.').fold(object, |value, name| &value[name])
                };
                if found != wanted {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl Action {
    /// Returns the plural, with the subresource: `services/status`.
    pub(super) fn qualified_resource(&self) -> String {
        let subresource = self.part.subresource().map(|part| format!("/{part}"));
        format!("{}{}", self.resource, subresource.unwrap_or_default())
    }

    /// Returns the object in the form of messages.
    pub(super) fn object(&self) -> Named {
        let Self { group, resource, name, .. } = self;
        Named { group: group.clone(), resource: resource.clone(), name: name.clone() }
    }

    /// Returns the refusal for `user`, who may not do this.
    pub(super) fn denied_to(&self, user: &str) -> Refusal {
        let denied = Box::new(Denied {
            user: user.to_owned(),
            verb: self.verb.as_str(),
            resource: self.qualified_resource(),
            group: self.group.clone(),
            namespace: self.namespace.clone(),
        });
        Refusal::Denied { object: self.object(), denied }
    }
}

pub(super) fn target(method: &Method, path: &str, parameters: &Parameters) -> Result<Target, Refusal> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        ["api" | "apis"] | ["api", _] | ["apis", _, _] => {
            Ok(Target::Discovery(parts.iter().map(|part| (*part).to_owned()).collect()))
        }
        ["openapi", "v2"] => Ok(Target::Types),
        ["openapi", ..] => Err(Refusal::NoSuchPath),
        ["api", version, rest @ ..] => action(method, "", version, rest, parameters).map(Target::Resource),
        ["apis", group, version, rest @ ..] => {
            action(method, group, version, rest, parameters).map(Target::Resource)
        }
        _ => Err(Refusal::Unserved("this path".into())),
    }
}

fn action(
    method: &Method,
    group: &str,
    version: &str,
    rest: &[&str],
    parameters: &Parameters,
) -> Result<Action, Refusal> {
    let (namespace, rest) = match rest {
        ["namespaces", namespace, inside @ ..] if !inside.is_empty() => (Some(*namespace), inside),
        _ => (None, rest),
    };
    let (resource, name, part) = match rest {
        [resource] => (*resource, "", Part::Whole),
        [resource, name] => (*resource, *name, Part::Whole),
        [resource, name, "status"] => (*resource, *name, Part::Status),
        ["deployments", name, "scale"] => ("deployments", *name, Part::Scale),
        _ => return Err(Refusal::Unserved("this path".into())),
    };
    let verb = match (method, name.is_empty()) {
        (&Method::GET, true) if parameters.flag("watch") => Verb::Watch,
        (&Method::GET, true) => Verb::List,
        (&Method::POST, true) => Verb::Create,
        (&Method::GET, false) if part != Part::Status => Verb::Get,
        (&Method::PATCH, false) => Verb::Patch,
        (&Method::DELETE, false) if part == Part::Whole => Verb::Delete,
        _ => return Err(Refusal::Unserved("this method on this path".into())),
    };
    Ok(Action {
        verb,
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.to_owned(),
        part,
        namespace: namespace.map(str::to_owned),
        name: match verb {
            Verb::List | Verb::Watch => parameters.selected_name().unwrap_or_default().to_owned(),
            Verb::Get | Verb::Create | Verb::Patch | Verb::Delete => name.to_owned(),
        },
    })
}

/// Returns the token of a request, or an empty text without one.
pub(super) fn bearer(headers: &HeaderMap) -> &str {
    let header = headers.get(header::AUTHORIZATION).and_then(|header| header.to_str().ok());
    header.and_then(|header| header.strip_prefix("Bearer ")).unwrap_or_default()
}

/// Returns the manager of the fields that a request writes.
pub(super) fn manager(headers: &HeaderMap, parameters: &Parameters) -> String {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or("unknown");
    let manager = parameters.get("fieldManager").unwrap_or_else(|| agent.split('/').next().unwrap_or(agent));
    manager.to_owned()
}
