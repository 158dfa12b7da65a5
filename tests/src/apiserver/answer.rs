//! The answer to a request: the user, the trouble, the permission, and the operation.

use std::future::pending;
use std::sync::Arc;

use futures::stream;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use thiserror::Error;
use tokio::time::sleep;

use super::{
    call::Call,
    connections::{ConnectionId, Cut},
    discovery, objects, openapi,
    rbac::{User, allows},
    reading,
    refusal::Refusal,
    registry::builtins::is_builtin_group,
    request::{self, Action, Parameters, Part, Target, Verb},
    response::{self, Body},
    shared::Shared,
    trouble::Effect,
};

/// The connection is closed without an answer.
#[derive(Debug, Error)]
#[error("the connection is dropped on purpose")]
pub(super) struct Dropped;

/// A request of a known user.
struct UserRequest<'a> {
    shared: &'a Arc<Shared>,
    connection: ConnectionId,
    user: Arc<User>,
    parameters: Parameters,
    head: &'a Parts,
}

pub(super) async fn answer(
    shared: Arc<Shared>,
    connection: ConnectionId,
    request: Request<Incoming>,
) -> Result<Response<Body>, Dropped> {
    let (head, body) = request.into_parts();
    let done = match identify(&shared, connection, &head) {
        Ok((request, target)) => {
            request.stop_if_cut_off().await?;
            match target {
                Target::Resource(action) => request.meet_trouble(&action, body).await?,
                Target::Types => Ok(response::types(openapi::document())),
                Target::Discovery(path) => discovery::describe(&shared.cluster.resources, &path)
                    .map(|document| response::json(StatusCode::OK, &document)),
            }
        }
        Err(refusal) => Err(refusal),
    };
    let answer =
        done.unwrap_or_else(|refusal| response::refused(&refusal, &format!("{} {}", head.method, head.uri)));
    shared.counters.answer(answer.status().as_u16());
    Ok(answer)
}

fn identify<'a>(
    shared: &'a Arc<Shared>,
    connection: ConnectionId,
    head: &'a Parts,
) -> Result<(UserRequest<'a>, Target), Refusal> {
    let user = shared.user(request::bearer(&head.headers)).ok_or(Refusal::Unauthorized)?;
    let parameters = Parameters::of(&head.uri)?;
    let target = request::target(&head.method, head.uri.path(), &parameters)?;
    Ok((UserRequest { shared, connection, user, parameters, head }, target))
}

impl UserRequest<'_> {
    /// Returns if the user is not cut off; never returns if the user is cut off silently.
    async fn stop_if_cut_off(&self) -> Result<(), Dropped> {
        match self.shared.connections.used_by(self.connection, &self.user.name) {
            Some(Cut::Closed) => Err(Dropped),
            Some(Cut::Silent) => pending().await,
            None => Ok(()),
        }
    }

    /// Does the request, as far as its trouble allows.
    async fn meet_trouble(
        &self,
        action: &Action,
        body: Incoming,
    ) -> Result<Result<Response<Body>, Refusal>, Dropped> {
        self.shared.counters.request(&self.user.name, action);
        let met = self.shared.troubles.meet(&self.user.name, action);
        if !met.delay.is_zero() {
            sleep(met.delay).await;
        }
        match met.effect {
            None | Some(Effect::Delay(_) | Effect::DropAnswer) => {}
            Some(Effect::Answer(code)) => {
                let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                return Ok(Err(Refusal::Trouble(code)));
            }
            Some(Effect::Drop) => return Err(Dropped),
            Some(Effect::Hang) => return pending().await,
        }
        // The user may have been cut off during the delay, with this request on its way.
        self.stop_if_cut_off().await?;
        let done = self.perform(action, body).await;
        if met.effect == Some(Effect::DropAnswer) { Err(Dropped) } else { Ok(done) }
    }

    async fn perform(&self, action: &Action, body: Incoming) -> Result<Response<Body>, Refusal> {
        let Self { shared, user, parameters, head, .. } = self;
        let resources = &shared.cluster.resources;
        if !allows(resources, user, action) {
            return Err(action.denied_to(&user.name));
        }
        let resource = resources.find(&action.group, &action.version, &action.resource);
        let resource = resource.ok_or_else(|| {
            let is_builtin = is_builtin_group(&action.group);
            if is_builtin { Refusal::Unserved("this resource".into()) } else { Refusal::NoSuchPath }
        })?;
        let is_about_one = !matches!(action.verb, Verb::List | Verb::Watch);
        if (action.part == Part::Status && !resource.has_status)
            || (action.namespace.is_some() && !resource.namespaced)
            || (action.namespace.is_none() && resource.namespaced && is_about_one)
        {
            return Err(Refusal::Unserved("this path".into()));
        }
        let call = Call { shared, user, action, parameters, headers: &head.headers, resource };
        match action.verb {
            Verb::Get => objects::get(&call),
            Verb::List => reading::list(&call),
            Verb::Watch => {
                let lines = stream::unfold(reading::watch(&call)?, async |mut watch| {
                    let lines = watch.next().await?;
                    Some((lines, watch))
                });
                Ok(response::stream(lines))
            }
            Verb::Create | Verb::Patch | Verb::Delete => {
                let body = body.collect().await.map_err(Refusal::Body)?.to_bytes();
                objects::write(&call, &body)
            }
        }
    }
}
