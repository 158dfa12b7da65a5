//! Responses: their bodies, and the form of a refusal.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt as _};
use http_body_util::{Either, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde_json::Value;

use super::refusal::Refusal;

const JSON: &str = "application/json";

/// The body of a response: all of it at once, or the lines of a watch.
pub(super) type Body = Either<Full<Bytes>, StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>>;

fn with_type(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub(super) fn text(status: StatusCode, json: impl Into<Bytes>) -> Response<Body> {
    with_type(status, JSON, Either::Left(Full::new(json.into())))
}

pub(super) fn json(status: StatusCode, value: &Value) -> Response<Body> {
    text(status, value.to_string())
}

/// Returns a description of types, which is no JSON.
pub(super) fn types(document: Vec<u8>) -> Response<Body> {
    let content_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    with_type(StatusCode::OK, content_type, Either::Left(Full::new(Bytes::from(document))))
}

pub(super) fn stream(lines: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let frames = lines.map(|lines| Ok(Frame::data(lines)));
    with_type(StatusCode::OK, JSON, Either::Right(StreamBody::new(frames.boxed())))
}

pub(super) fn refused(refusal: &Refusal, request: &str) -> Response<Body> {
    let (status, _) = refusal.code();
    if let Refusal::NoSuchPath = refusal {
        let body = Full::new(Bytes::from_static(b"404 page not found\n"));
        return with_type(status, "text/plain; charset=utf-8", Either::Left(body));
    }
    let mut message = refusal.to_string();
    if let Refusal::Unserved(_) = refusal {
        message = format!("{request}: {message}");
        // The agent takes the refusal for an outage, so the test's output must name it.
        eprintln!("{message}");
    }
    let mut response = json(status, &refusal.status(&message));
    if status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
