//! What a request asks for: the path, the method and the parameters, before anything is looked up.

use std::collections::BTreeMap;
use std::fmt;

use hyper::{HeaderMap, Method, Uri, header};

use super::refusal::{Denied, GroupResource, Named, Refusal};
use super::selector::Selector;

/// What is done to a resource; the words of RBAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many.
    List,
    /// Be told of changes.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH, server-side apply included.
    Patch,
    /// Delete one object.
    Delete,
    /// Delete many.
    DeleteCollection,
}

impl Verb {
    /// As RBAC writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Whether it changes something.
    pub const fn is_write(self) -> bool {
        match self {
            Self::Get | Self::List | Self::Watch => false,
            Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection => true,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is asked of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Action {
    pub(super) verb: Verb,
    pub(super) group: String,
    pub(super) version: String,
    pub(super) resource: String,
    pub(super) subresource: Option<String>,
    pub(super) namespace: Option<String>,
    /// Empty when it is about many.
    pub(super) name: String,
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Resource(Action),
    /// `/healthz` and its like.
    Health,
    Version,
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/GROUP`.
    Group(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`.
    Resources {
        group: String,
        version: String,
    },
}

/// The parameters of a request.
#[derive(Debug, Default)]
pub(super) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    pub(super) fn of(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// The value of a parameter; an empty one counts as none.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether a parameter says yes.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| matches!(value.as_str(), "" | "1" | "true"))
    }

    /// Whether a parameter says yes or no, if it is there.
    pub(super) fn flag_if_given(&self, name: &str) -> Option<bool> {
        self.0.contains_key(name).then(|| self.flag(name))
    }

    /// A parameter that is a number.
    pub(super) fn number(&self, name: &'static str) -> Result<Option<u64>, Refusal> {
        let parse = |value: &str| {
            value.parse().map_err(|_| Refusal::Parameter { parameter: name, value: value.to_owned() })
        };
        self.get(name).map(parse).transpose()
    }

    /// Which objects are selected.
    pub(super) fn selector(&self, fields: &[&str]) -> Result<Selector, Refusal> {
        Selector::parse(
            self.get("labelSelector").unwrap_or_default(),
            self.get("fieldSelector").unwrap_or_default(),
            fields,
        )
    }
}

impl Action {
    /// With its subresource: `services/status`.
    pub(super) fn qualified_resource(&self) -> String {
        match &self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.resource),
            None => self.resource.clone(),
        }
    }

    /// What it is about, as messages name it.
    pub(super) fn object(&self) -> Named {
        let resource = GroupResource { group: self.group.clone(), plural: self.resource.clone() };
        Named { resource, name: self.name.clone() }
    }

    /// That `user` may not do it.
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

/// What `method` on `uri` asks for.
pub(super) fn target(method: &Method, uri: &Uri, parameters: &Parameters) -> Result<Target, Refusal> {
    let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => Ok(Target::Health),
        ["version"] => Ok(Target::Version),
        ["api"] => Ok(Target::CoreVersions),
        ["apis"] => Ok(Target::Groups),
        ["apis", group] => Ok(Target::Group((*group).to_owned())),
        ["api", version] => Ok(Target::Resources { group: String::new(), version: (*version).to_owned() }),
        ["apis", group, version] => {
            Ok(Target::Resources { group: (*group).to_owned(), version: (*version).to_owned() })
        }
        ["api", version, rest @ ..] => action(method, "", version, rest, parameters).map(Target::Resource),
        ["apis", group, version, rest @ ..] => {
            action(method, group, version, rest, parameters).map(Target::Resource)
        }
        _ => Err(Refusal::NoSuchPath),
    }
}

fn action(
    method: &Method,
    group: &str,
    version: &str,
    rest: &[&str],
    parameters: &Parameters,
) -> Result<Action, Refusal> {
    // `namespaces/NAME/status` is about a namespace, `namespaces/NAME/PLURAL` about what is in it.
    let (namespace, rest) = match rest {
        ["namespaces", name, "status" | "finalize"] => (Some(*name), rest),
        ["namespaces", namespace, inner @ ..] if !inner.is_empty() => (Some(*namespace), inner),
        ["namespaces", name] => (Some(*name), rest),
        _ => (None, rest),
    };
    let (resource, name, subresource) = match rest {
        [resource] => (*resource, "", None),
        [resource, name] => (*resource, *name, None),
        [resource, name, subresource] => (*resource, *name, Some((*subresource).to_owned())),
        _ => return Err(Refusal::NoSuchPath),
    };
    let many = name.is_empty();
    let verb = match *method {
        Method::GET | Method::HEAD if parameters.flag("watch") => Verb::Watch,
        Method::GET | Method::HEAD if many => Verb::List,
        Method::GET | Method::HEAD => Verb::Get,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if many => Verb::DeleteCollection,
        Method::DELETE => Verb::Delete,
        _ => return Err(Refusal::Method),
    };
    let mut action = Action {
        verb,
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.to_owned(),
        subresource,
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    };
    // Whoever lists or watches one name is asked whether that name is allowed.
    if many
        && !verb.is_write()
        && let Some(fields) = parameters.get("fieldSelector")
        && let Some(name) = fields.split(',').find_map(|term| term.strip_prefix("metadata.name="))
    {
        name.trim_start_matches('=').clone_into(&mut action.name);
    }
    Ok(action)
}

/// The token of a request; empty when it shows none.
pub(super) fn bearer(headers: &HeaderMap) -> &str {
    let header = headers.get(header::AUTHORIZATION).and_then(|header| header.to_str().ok());
    header.and_then(|header| header.strip_prefix("Bearer ")).unwrap_or_default()
}

/// Who manages the fields that a request writes.
pub(super) fn manager(headers: &HeaderMap, parameters: &Parameters) -> String {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or("unknown");
    let manager = parameters.get("fieldManager").unwrap_or_else(|| agent.split('/').next().unwrap_or(agent));
    manager.to_owned()
}
