//! One request and its answer: who asks, what trouble it meets, whether it is allowed, and then what is done.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http_body_util::{BodyExt as _, Either, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{HeaderMap, Request, Response, StatusCode, header};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::sleep;

use super::apply::{Author, Operation};
use super::cluster::Change;
use super::connections::{ConnectionId, Cut};
use super::patch::PatchKind;
use super::rbac::{User, allows};
use super::refusal::Refusal;
use super::request::{self, Action, Parameters, Target, Verb};
use super::resource::Resource;
use super::shared::Shared;
use super::store::{Key, Object, Written};
use super::trouble::Effect;
use super::watch::Watch;
use super::write::{Part, Preconditions, is_ending, metadata_text};
use super::{discovery, reading};

/// What an answer carries: all of it at once, or the lines of a watch.
pub(super) type Body = Either<Full<Bytes>, StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>>;

/// The connection is closed without an answer.
#[derive(Debug, Error)]
#[error("the connection is dropped on purpose")]
pub(super) struct Dropped;

/// Somebody's request for a resource that exists.
pub(super) struct Call<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) user: &'a User,
    pub(super) action: &'a Action,
    pub(super) parameters: &'a Parameters,
    pub(super) headers: &'a HeaderMap,
    pub(super) resource: Arc<Resource>,
}

/// Answers a request.
pub(super) async fn answer(
    shared: Arc<Shared>,
    connection: ConnectionId,
    request: Request<Incoming>,
) -> Result<Response<Body>, Dropped> {
    let answer = match answer_or_refuse(&shared, connection, request).await? {
        Ok(response) => response,
        Err(refusal) => refuse(&refusal),
    };
    shared.counters.answer(answer.status().as_u16());
    Ok(answer)
}

async fn answer_or_refuse(
    shared: &Arc<Shared>,
    connection: ConnectionId,
    request: Request<Incoming>,
) -> Result<Result<Response<Body>, Refusal>, Dropped> {
    let (head, body) = request.into_parts();
    let parameters = Parameters::of(&head.uri);
    let target = match request::target(&head.method, &head.uri, &parameters) {
        Ok(target) => target,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let Some(user) = shared.user(request::bearer(&head.headers)) else {
        return Ok(match target {
            Target::Health => Ok(text(StatusCode::OK, "ok")),
            Target::Resource(_)
            | Target::Version
            | Target::CoreVersions
            | Target::Groups
            | Target::Group(_)
            | Target::Resources { .. } => Err(Refusal::Unauthorized),
        });
    };
    match shared.connections.used_by(connection, &user.name) {
        Some(Cut::Closed) => return Err(Dropped),
        Some(Cut::Silent) => return pending().await,
        None => {}
    }
    let action = match target {
        Target::Resource(action) => action,
        Target::Health => return Ok(Ok(text(StatusCode::OK, "ok"))),
        Target::Version
        | Target::CoreVersions
        | Target::Groups
        | Target::Group(_)
        | Target::Resources { .. } => {
            return Ok(discovery::describe(&shared.cluster.resources, &target)
                .map(|value| json_answer(StatusCode::OK, &value)));
        }
    };
    shared.counters.request(&user.name, &action);
    let met = shared.troubles.meet(&user.name, &action);
    if !met.delay.is_zero() {
        sleep(met.delay).await;
    }
    match met.effect {
        None | Some(Effect::Delay(_) | Effect::DropAnswer | Effect::DelayAnswer(_)) => {}
        Some(Effect::Answer(code)) => {
            let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            return Ok(Err(Refusal::Trouble(code)));
        }
        Some(Effect::Drop) => return Err(Dropped),
        Some(Effect::Hang) => return pending().await,
    }
    // Whoever is cut off while waiting is cut off all the same: its request is on the way.
    match shared.connections.used_by(connection, &user.name) {
        Some(Cut::Closed) => return Err(Dropped),
        Some(Cut::Silent) => return pending().await,
        None => {}
    }
    let done = perform(shared, &user, &action, &parameters, &head.headers, body).await;
    match met.effect {
        Some(Effect::DropAnswer) => return Err(Dropped),
        Some(Effect::DelayAnswer(delay)) => sleep(delay).await,
        Some(Effect::Delay(_) | Effect::Answer(_) | Effect::Drop | Effect::Hang) | None => {}
    }
    Ok(done)
}

async fn perform(
    shared: &Arc<Shared>,
    user: &User,
    action: &Action,
    parameters: &Parameters,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Response<Body>, Refusal> {
    if !allows(&shared.cluster.resources, user, action) {
        return Err(action.denied_to(&user.name));
    }
    let resource = shared
        .cluster
        .resources
        .find(&action.group, &action.version, &action.resource)
        .ok_or(Refusal::NoSuchPath)?;
    let call = Call { shared, user, action, parameters, headers, resource };
    call.check_path()?;
    if action.verb.is_write() && parameters.get("dryRun").is_some() {
        return Err(Refusal::DryRun);
    }
    match action.verb {
        Verb::Get => call.get(),
        Verb::List => reading::list(&call),
        Verb::Watch => Ok(stream_answer(reading::watch(&call)?)),
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => {
            let body = body.collect().await.map_err(Refusal::Body)?.to_bytes();
            call.write(&body)
        }
    }
}

impl Call<'_> {
    fn check_path(&self) -> Result<(), Refusal> {
        match self.action.subresource.as_deref() {
            None => {}
            Some("status") if self.resource.has_status => match self.action.verb {
                Verb::Get | Verb::Update | Verb::Patch => {}
                Verb::List | Verb::Watch | Verb::Create | Verb::Delete | Verb::DeleteCollection => {
                    return Err(Refusal::Method);
                }
            },
            Some(_) => return Err(Refusal::NoSuchPath),
        }
        let is_namespaces = self.resource.plural == "namespaces";
        if !self.resource.namespaced && self.action.namespace.is_some() && !is_namespaces {
            return Err(Refusal::NoSuchPath);
        }
        let needs_namespace = !self.action.name.is_empty() || self.action.verb.is_write();
        let is_collection_read = matches!(self.action.verb, Verb::List | Verb::Watch);
        if self.resource.namespaced
            && self.action.namespace.is_none()
            && needs_namespace
            && !is_collection_read
        {
            return Err(Refusal::NoSuchPath);
        }
        Ok(())
    }

    /// Where the object of this call is.
    fn key(&self) -> Key {
        let namespace = if self.resource.namespaced { self.action.namespace.clone() } else { None };
        Key { namespace: namespace.unwrap_or_default(), name: self.action.name.clone() }
    }

    /// Whether the answer is to be a table.
    pub(super) fn wants_table(&self) -> bool {
        let accept =
            self.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        accept.contains("as=Table")
    }

    /// The name in the path or the selector of a watch.
    pub(super) fn watched_name(&self) -> Option<&str> {
        Some(self.action.name.as_str()).filter(|name| !name.is_empty())
    }

    fn get(&self) -> Result<Response<Body>, Refusal> {
        let object =
            self.resource.table.get(&self.key()).ok_or_else(|| Refusal::NotFound(self.action.object()))?;
        if self.wants_table() {
            let metadata = json!({"resourceVersion": object.version.to_string()});
            let table = super::columns::table(&self.resource, &[object], &metadata);
            return Ok(json_answer(StatusCode::OK, &table));
        }
        Ok(self.object_answer(StatusCode::OK, &object))
    }

    fn change(&self, operation: Operation) -> Change<'_> {
        let create = Action { verb: Verb::Create, ..self.action.clone() };
        let may_create = allows(&self.shared.cluster.resources, self.user, &create);
        let (part, subresource) = match self.action.subresource {
            Some(_) => (Part::Status, Some("status")),
            None => (Part::Whole, None),
        };
        Change {
            resource: &self.resource,
            key: self.key(),
            part,
            author: Author {
                manager: request::manager(self.headers, self.parameters),
                operation,
                api_version: self.resource.api_version(),
                subresource,
            },
            strict: self.parameters.get("fieldValidation") == Some("Strict"),
            create_refused: (!may_create).then(|| create.denied_to(&self.user.name)),
        }
    }

    fn write(&self, body: &[u8]) -> Result<Response<Body>, Refusal> {
        let cluster = &self.shared.cluster;
        match self.action.verb {
            Verb::Create => {
                if !self.action.name.is_empty() {
                    return Err(Refusal::Method);
                }
                let value = self.decode(body)?;
                let written = cluster.create(self.change(Operation::Update), value)?;
                Ok(self.object_answer(StatusCode::CREATED, &written.object))
            }
            Verb::Update => {
                let value = self.decode(body)?;
                let written = cluster.update(self.change(Operation::Update), value)?;
                Ok(self.written_answer(&written))
            }
            Verb::Patch => self.patch(body),
            Verb::Delete => {
                let preconditions = preconditions(body)?;
                let written = cluster.delete(&self.change(Operation::Update), &preconditions)?;
                Ok(self.deleted_answer(&written))
            }
            Verb::DeleteCollection => self.delete_collection(),
            Verb::Get | Verb::List | Verb::Watch => Err(Refusal::Method),
        }
    }

    fn patch(&self, body: &[u8]) -> Result<Response<Body>, Refusal> {
        let content_type = self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = PatchKind::of(content_type.unwrap_or_default(), self.resource.is_custom())?;
        let (operation, patch) = match kind {
            PatchKind::Apply => {
                self.parameters.get("fieldManager").ok_or(Refusal::NoManager)?;
                (Operation::Apply, decode_any(body)?)
            }
            PatchKind::Json | PatchKind::Merge | PatchKind::Strategic => {
                (Operation::Update, serde_json::from_slice(body).map_err(Refusal::UndecodablePatch)?)
            }
        };
        let force = self.parameters.flag("force");
        let written = self.shared.cluster.patch(self.change(operation), kind, patch, force)?;
        Ok(self.written_answer(&written))
    }

    fn delete_collection(&self) -> Result<Response<Body>, Refusal> {
        let selector = self.parameters.selector(self.resource.selectable_fields())?;
        let namespace = self.key().namespace;
        let all = self.resource.table.all(self.resource.namespaced.then_some(namespace.as_str()));
        for object in all.iter().filter(|object| selector.matches(&object.value)) {
            let mut change = self.change(Operation::Update);
            metadata_text(&object.value, "name").unwrap_or_default().clone_into(&mut change.key.name);
            match self.shared.cluster.delete(&change, &Preconditions::default()) {
                Ok(_) | Err(Refusal::NotFound(_)) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(json_answer(
            StatusCode::OK,
            &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}),
        ))
    }

    fn decode(&self, body: &[u8]) -> Result<Value, Refusal> {
        let content_type = self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if content_type.is_some_and(|kind| kind.contains("yaml")) {
            return decode_any(body);
        }
        serde_json::from_slice(body)
            .map_err(|source| Refusal::Undecodable { kind: self.resource.kind.clone(), source })
    }

    fn object_answer(&self, status: StatusCode, object: &Object) -> Response<Body> {
        let head = self.resource.head();
        let mut text = Vec::with_capacity(head.len() + object.rest.len());
        text.extend_from_slice(head.as_bytes());
        text.extend_from_slice(&object.rest);
        with_type(status, "application/json", Bytes::from(text))
    }

    fn written_answer(&self, written: &Written) -> Response<Body> {
        let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        self.object_answer(status, &written.object)
    }

    fn deleted_answer(&self, written: &Written) -> Response<Body> {
        if is_ending(&written.object.value) && !written.gone {
            return self.object_answer(StatusCode::OK, &written.object);
        }
        let status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {
                "name": self.action.name,
                "group": self.resource.group,
                "kind": self.resource.plural,
                "uid": metadata_text(&written.object.value, "uid"),
            },
        });
        json_answer(StatusCode::OK, &status)
    }
}

/// JSON, or YAML.
fn decode_any(body: &[u8]) -> Result<Value, Refusal> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_slice_with_options(body, options)
        .map_err(|error| Refusal::UndecodableYaml(Box::new(error)))
}

fn preconditions(body: &[u8]) -> Result<Preconditions, Refusal> {
    if body.is_empty() {
        return Ok(Preconditions::default());
    }
    let options: Value = serde_json::from_slice(body)
        .map_err(|source| Refusal::Undecodable { kind: "DeleteOptions".to_owned(), source })?;
    if options["dryRun"].as_array().is_some_and(|runs| !runs.is_empty()) {
        return Err(Refusal::DryRun);
    }
    let text = |name: &str| options["preconditions"][name].as_str().map(str::to_owned);
    Ok(Preconditions { uid: text("uid"), version: text("resourceVersion") })
}

/// An answer in JSON.
pub(super) fn json_answer(status: StatusCode, value: &Value) -> Response<Body> {
    with_type(status, "application/json", Bytes::from(value.to_string()))
}

fn text(status: StatusCode, text: &'static str) -> Response<Body> {
    with_type(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

/// An answer of this type.
pub(super) fn with_type(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::new(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}

fn refuse(refusal: &Refusal) -> Response<Body> {
    let (status, _) = refusal.code();
    if let Refusal::NoSuchPath = refusal {
        return text(status, "404 page not found\n");
    }
    let mut response = json_answer(status, &refusal.status());
    if status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    }
    response
}

fn stream_answer(watch: Watch) -> Response<Body> {
    let lines = stream::unfold(watch, async |mut watch| {
        let lines = watch.next().await?;
        Some((Ok(Frame::data(lines)), watch))
    });
    let mut response = Response::new(Either::Right(StreamBody::new(lines.boxed())));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
