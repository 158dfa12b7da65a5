//! Lists, and the starts of watches.

use std::time::Duration;

use bytes::Bytes;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use super::{
    call::Call,
    refusal::Refusal,
    registry::{
        columns,
        store::{Key, Page, Range},
    },
    response::{self, Body},
    watch::Watch,
};

/// The length of a watch whose client states none.
const LONGEST_WATCH: Duration = Duration::from_hours(1);

/// The place where a paged list continues.
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
        parse().ok_or_else(|| Refusal::Parameter { parameter: "continue", value: text.to_owned() })
    }
}

/// Answers with a list, or with a page of it.
pub(super) fn list(call: &Call<'_>) -> Result<Response<Body>, Refusal> {
    let page = page(call)?;
    let mut metadata = json!({"resourceVersion": page.version.to_string()});
    if let Some(Key { namespace, name }) = &page.next {
        metadata["continue"] = Value::from(format!("{}.{namespace}/{name}", page.version));
    }
    if call.wants_table() {
        let table = columns::table(&call.resource.columns, &page.objects, &metadata);
        return Ok(response::json(StatusCode::OK, &table));
    }
    let (kind, version) = (&call.resource.kind, call.resource.api_version());
    let length: usize = page.objects.iter().map(|object| object.rest.len() + 128).sum();
    let mut text = Vec::with_capacity(length + 256);
    text.extend_from_slice(
        format!("{{\"kind\":\"{kind}List\",\"apiVersion\":{version:?},\"metadata\":{metadata},\"items\":[")
            .as_bytes(),
    );
    // The items of a built-in type lack kind and version.
    let head = if call.resource.is_custom() { call.resource.head() } else { "{".to_owned() };
    for (number, object) in page.objects.iter().enumerate() {
        text.extend_from_slice(if number > 0 { b"," } else { b"" });
        text.extend_from_slice(head.as_bytes());
        text.extend_from_slice(&object.rest);
    }
    text.extend_from_slice(b"]}");
    Ok(response::text(StatusCode::OK, Bytes::from(text)))
}

fn page(call: &Call<'_>) -> Result<Page, Refusal> {
    let parameters = call.parameters;
    if parameters.number("resourceVersion")?.unwrap_or(0) != 0 {
        return Err(Refusal::Unserved("a list at a version".into()));
    }
    let limit = parameters.number("limit")?.unwrap_or(0);
    let at = parameters.get("continue").map(Continuation::parse).transpose()?;
    let range = Range {
        namespace: call.action.namespace.as_deref(),
        name: parameters.selected_name(),
        from: at.as_ref().map(|at| &at.from),
        limit: usize::try_from(limit).unwrap_or(0),
    };
    let page = call.resource.table.list(at.as_ref().map(|at| at.version), &range);
    let mut page = page.map_err(|refusal| match refusal {
        Refusal::VersionExpired { .. } => Refusal::ContinueExpired,
        other => other,
    })?;
    let selected = page.objects.iter().map(|object| parameters.select(&object.value));
    let mut selected = selected.collect::<Result<Vec<_>, _>>()?.into_iter();
    page.objects.retain(|_| selected.next().unwrap_or_default());
    Ok(page)
}

/// Returns a watch, which continues from the version of a list.
pub(super) fn watch(call: &Call<'_>) -> Result<Watch, Refusal> {
    let parameters = call.parameters;
    let from = parameters.number("resourceVersion")?.filter(|version| *version > 0);
    let from = from.ok_or_else(|| Refusal::Unserved("a watch without the version of a list".into()))?;
    let timeout = parameters.number("timeoutSeconds")?.map_or(LONGEST_WATCH, Duration::from_secs);
    let name = parameters.selected_name();
    if parameters.get("labelSelector").is_some()
        || name.is_some() != parameters.get("fieldSelector").is_some()
    {
        return Err(Refusal::Unserved("a watch with a selector of anything but a name".into()));
    }
    let name = name.map(str::to_owned);
    Ok(Watch::new(call, from, name, timeout))
}
