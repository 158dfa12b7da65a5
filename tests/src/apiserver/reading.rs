//! Lists and the beginnings of watches.

use std::time::Duration;

use bytes::Bytes;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use super::answer::{Body, Call, json_answer, with_type};
use super::columns;
use super::refusal::Refusal;
use super::store::{Key, Page};
use super::watch::{Beginning, Watch};

/// How long a watch lasts when its client does not say.
const LONGEST_WATCH: Duration = Duration::from_hours(1);

/// Where a paged list goes on: at which version, and from where.
struct Continuation {
    version: u64,
    from: Key,
}

impl Continuation {
    fn parse(text: &str) -> Result<Self, Refusal> {
        let parse = || {
            let (version, key) = text.split_once('.')?;
            let (namespace, name) = key.split_once('/')?;
            let from = Key { namespace: namespace.to_owned(), name: name.to_owned() };
            Some(Self { version: version.parse().ok()?, from })
        };
        parse().ok_or_else(|| Refusal::Continue(text.to_owned()))
    }

    fn text(&self) -> String {
        format!("{}.{}/{}", self.version, self.from.namespace, self.from.name)
    }
}

/// A list.
pub(super) fn list(call: &Call<'_>) -> Result<Response<Body>, Refusal> {
    let page = page(call)?;
    let mut metadata = json!({"resourceVersion": page.version.to_string()});
    if let Some((from, left)) = &page.next {
        let continuation = Continuation { version: page.version, from: from.clone() };
        metadata["continue"] = Value::from(continuation.text());
        // Nobody counts what a selector would leave out.
        if call.parameters.get("labelSelector").is_none() && call.parameters.get("fieldSelector").is_none() {
            metadata["remainingItemCount"] = Value::from(*left);
        }
    }
    if call.wants_table() {
        let table = columns::table(&call.resource, &page.objects, &metadata);
        return Ok(json_answer(StatusCode::OK, &table));
    }
    let head = call.resource.head();
    let length: usize = page.objects.iter().map(|object| head.len() + object.rest.len() + 1).sum();
    let mut text = Vec::with_capacity(length + 256);
    let (kind, version) = (&call.resource.list_kind, call.resource.api_version());
    text.extend_from_slice(
        format!("{{\"kind\":{kind:?},\"apiVersion\":{version:?},\"metadata\":{metadata},\"items\":[")
            .as_bytes(),
    );
    // The items of a built-in type do not repeat what they are.
    let head = if call.resource.is_custom() { head.as_str() } else { "{" };
    for (number, object) in page.objects.iter().enumerate() {
        if number > 0 {
            text.push(b',');
        }
        text.extend_from_slice(head.as_bytes());
        text.extend_from_slice(&object.rest);
    }
    text.extend_from_slice(b"]}");
    Ok(with_type(StatusCode::OK, "application/json", Bytes::from(text)))
}

fn page(call: &Call<'_>) -> Result<Page, Refusal> {
    let parameters = call.parameters;
    let selector = parameters.selector(call.resource.selectable_fields())?;
    let namespace = namespace(call);
    let limit = parameters.number("limit")?.unwrap_or(0);
    let limit = usize::try_from(limit).unwrap_or(0);
    let wanted = |object: &Value| selector.is_everything() || selector.matches(object);
    let table = &call.resource.table;
    if let Some(text) = parameters.get("continue") {
        let at = Continuation::parse(text)?;
        let page = table.list(Some(at.version), namespace.as_deref(), Some(&at.from), limit, wanted);
        return page.map_err(|refusal| match refusal {
            Refusal::VersionExpired { .. } => Refusal::ContinueExpired,
            other => other,
        });
    }
    let version = parameters.number("resourceVersion")?.unwrap_or(0);
    let exact = parameters.get("resourceVersionMatch") == Some("Exact");
    let current = call.shared.cluster.resources.current_version();
    if version > current {
        return Err(Refusal::VersionAhead { wanted: version, current });
    }
    let at = (exact && version > 0).then_some(version);
    table.list(at, namespace.as_deref(), None, limit, wanted)
}

/// The beginning of a watch.
pub(super) fn watch(call: &Call<'_>) -> Result<Watch, Refusal> {
    let parameters = call.parameters;
    let mut selector = parameters.selector(call.resource.selectable_fields())?;
    if let Some(name) = call.watched_name() {
        selector = selector.and_name(name);
    }
    let namespace = namespace(call);
    let version = parameters.number("resourceVersion")?.unwrap_or(0);
    let sends_initial = parameters.flag_if_given("sendInitialEvents");
    if sends_initial.is_some() && parameters.get("resourceVersionMatch") != Some("NotOlderThan") {
        return Err(Refusal::Parameter {
            parameter: "resourceVersionMatch",
            value: parameters.get("resourceVersionMatch").unwrap_or_default().to_owned(),
        });
    }
    let initial = match sends_initial {
        Some(sends) => sends,
        None => version == 0,
    };
    let table = &call.resource.table;
    let (from, objects) = if initial {
        let wanted = |object: &Value| selector.matches(object);
        let page = table.list(None, namespace.as_deref(), None, 0, wanted)?;
        (page.version, page.objects)
    } else {
        (if version == 0 { table.version() } else { version }, Vec::new())
    };
    let timeout = parameters.number("timeoutSeconds")?.map_or(LONGEST_WATCH, Duration::from_secs);
    let mut watch = Watch::new(
        call,
        Beginning {
            namespace,
            selector,
            from,
            initial: objects,
            marks_initial: sends_initial == Some(true) && parameters.flag("allowWatchBookmarks"),
            bookmarks: parameters.flag("allowWatchBookmarks"),
            timeout,
        },
    );
    // It is in the stream, not in the answer, that a watch is told that it comes too late.
    if let Err(refusal) = table.check_start(from) {
        watch.refuse(refusal);
    }
    Ok(watch)
}

fn namespace(call: &Call<'_>) -> Option<String> {
    if call.resource.namespaced { call.action.namespace.clone() } else { None }
}
