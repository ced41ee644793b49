//! The control: HTTP, with the words of scenarios.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ackclock_sim::{Change, Faults};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::time::sleep;

use super::outcome::{Outcome, Tally};

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, faults: Faults, tally: Arc<Tally>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // Out of descriptors, most likely.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (faults, tally) = (faults.clone(), Arc::clone(&tally));
        let service = service_fn(move |request| {
            let (faults, tally) = (faults.clone(), Arc::clone(&tally));
            async move { Ok::<_, Infallible>(answer(request, &faults, &tally).await.unwrap_or_else(refuse)) }
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME_MAX);
        tokio::spawn(async move {
            // A client that goes away is not an error of ours.
            server.serve_connection(TokioIo::new(client), service).await.ok();
        });
    }
}

type Answer = Response<Full<Bytes>>;
/// A status that is an error, and a sentence.
type Refusal = (StatusCode, String);

async fn answer(request: Request<Incoming>, faults: &Faults, tally: &Tally) -> Result<Answer, Refusal> {
    // A page in a browser must not change the network behind its user's back. Programs do not send this.
    if request.headers().contains_key(ORIGIN) {
        return Err((StatusCode::FORBIDDEN, "requests of web pages are refused".to_owned()));
    }
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let link = path.strip_prefix("/links/").filter(|link| !link.is_empty());
    match (method, path.as_str(), link) {
        (Method::GET, "/links", _) => json(&faults.look(|network| network.links()).await),
        (Method::POST, _, Some(link)) => {
            let link = percent_decode_str(link).decode_utf8_lossy().into_owned();
            let mut words = words(request).await?;
            words.insert("link".to_owned(), link.clone().into());
            change(words, faults)?;
            json(&faults.look(|network| network.links()).await)
        }
        (Method::POST, "/changes", _) => {
            change(words(request).await?, faults)?;
            json(&faults.look(|network| network.links()).await)
        }
        (Method::GET, "/report", _) => {
            let report = faults.look(|network| network.report()).await;
            json(&Outcome::new(tally, faults.lateness().unwrap_or_default(), report))
        }
        (_, "/links" | "/report", _) => Err((StatusCode::METHOD_NOT_ALLOWED, format!("{path} answers GET"))),
        (_, "/changes", _) | (_, _, Some(_)) => {
            Err((StatusCode::METHOD_NOT_ALLOWED, format!("{path} answers POST")))
        }
        _ => {
            let paths = "GET /links, POST /links/NAME, POST /changes and GET /report";
            Err((StatusCode::NOT_FOUND, format!("found `{path}`; allowed are {paths}")))
        }
    }
}

/// The object in the body.
async fn words(request: Request<Incoming>) -> Result<Map<String, Value>, Refusal> {
    let body = Limited::new(request.into_body(), BODY_MAX).collect().await;
    let too_long = |_| (StatusCode::PAYLOAD_TOO_LARGE, format!("a change has at most {BODY_MAX} bytes"));
    let body = body.map_err(too_long)?.to_bytes();
    serde_json::from_slice(&body)
        .map_err(|error| bad(format!("found no JSON object, as in {{\"loss\": \"2%\"}}: {error}")))
}

/// Makes a change, now unless it has a time.
fn change(mut words: Map<String, Value>, faults: &Faults) -> Result<(), Refusal> {
    words.entry("at").or_insert_with(|| "0s".into());
    let change = Change::read(Value::Object(words)).map_err(|problem| bad(problem.to_string()))?;
    faults.change(change).map_err(|problem| bad(problem.to_string()))
}

fn bad(what: String) -> Refusal {
    (StatusCode::BAD_REQUEST, what)
}

fn json(value: &impl serde::Serialize) -> Result<Answer, Refusal> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(response(StatusCode::OK, "application/json", text))
}

fn refuse((status, what): Refusal) -> Answer {
    response(status, "text/plain; charset=utf-8", what)
}

fn response(status: StatusCode, kind: &'static str, text: String) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(text + "\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The longest body.
const BODY_MAX: usize = 64 << 10;
/// How long a client may take to ask.
const HEADER_TIME_MAX: Duration = Duration::from_secs(10);
