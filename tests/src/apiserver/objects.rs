//! Requests about one object: reading, creating, patching and deleting it.

use bytes::Bytes;
use hyper::{Response, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    call::Call,
    refusal::Refusal,
    registry::{
        cluster::Patch,
        owners::{Author, Operation},
        store::Object,
        write::{DeleteOptions, Write, is_ending, metadata_text},
    },
    request::{self, Part, Verb},
    response::{self, Body},
};

pub(super) fn get(call: &Call<'_>) -> Result<Response<Body>, Refusal> {
    let object = call.resource.table.get(&call.key());
    let object = object.ok_or_else(|| Refusal::NotFound(call.action.object()))?;
    Ok(answer(call, StatusCode::OK, &object))
}

/// Creates, patches or deletes an object.
pub(super) fn write(call: &Call<'_>, body: &[u8]) -> Result<Response<Body>, Refusal> {
    let cluster = &call.shared.cluster;
    match call.action.verb {
        Verb::Create => {
            let value = decode(body, &call.resource.kind)?;
            let written = cluster.create(to_write(call, Operation::Update), value)?;
            Ok(answer(call, StatusCode::CREATED, &written.object))
        }
        Verb::Patch => {
            let value = decode(body, &call.resource.kind)?;
            let (operation, patch) = match call.header(&header::CONTENT_TYPE) {
                "application/merge-patch+json" => (Operation::Update, Patch::Merge(value)),
                "application/strategic-merge-patch+json" if !call.resource.is_custom() => {
                    (Operation::Update, Patch::Strategic(value))
                }
                "application/apply-patch+yaml" => {
                    (Operation::Apply, Patch::Apply { config: value, force: call.parameters.flag("force") })
                }
                other => return Err(Refusal::Unserved(format!("a patch of the type {other:?}").into())),
            };
            let written = cluster.patch(&to_write(call, operation), patch)?;
            Ok(answer(call, StatusCode::OK, &written.object))
        }
        Verb::Delete => {
            let options =
                if body.is_empty() { DeleteOptions::default() } else { decode(body, "DeleteOptions")? };
            let written = cluster.delete(&to_write(call, Operation::Update), &options)?;
            if is_ending(&written.object.value) && !written.gone {
                return Ok(answer(call, StatusCode::OK, &written.object));
            }
            Ok(response::json(StatusCode::OK, &deleted(call, &written.object)))
        }
        Verb::Get | Verb::List | Verb::Watch => Err(Refusal::NoSuchPath),
    }
}

fn to_write<'a>(call: &'a Call<'_>, operation: Operation) -> Write<'a> {
    Write {
        resource: &call.resource,
        key: call.key(),
        author: Author {
            manager: request::manager(call.headers, call.parameters),
            operation,
            api_version: call.resource.api_version(),
            subresource: call.action.part.subresource().map(str::to_owned),
        },
    }
}

/// Reads a body in JSON, which is also YAML.
fn decode<T: DeserializeOwned>(body: &[u8], kind: &str) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|source| Refusal::Undecodable { kind: kind.to_owned(), source })
}

fn answer(call: &Call<'_>, status: StatusCode, object: &Object) -> Response<Body> {
    if call.action.part == Part::Scale {
        return response::json(status, &scale(&object.value));
    }
    let text = [call.resource.head().as_bytes(), &object.rest].concat();
    response::text(status, Bytes::from(text))
}

/// Returns the subresource `scale` of a Deployment.
fn scale(deployment: &Value) -> Value {
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": deployment["metadata"],
        "spec": {"replicas": deployment["spec"]["replicas"]},
        "status": {"replicas": deployment["status"]["replicas"]},
    })
}

/// Returns the `Status` for an `object` that is gone.
fn deleted(call: &Call<'_>, object: &Object) -> Value {
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {
            "name": call.action.name,
            "group": call.resource.group,
            "kind": call.resource.plural,
            "uid": metadata_text(&object.value, "uid"),
        },
    })
}
