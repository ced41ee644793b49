//! The control: HTTP, with the words of scenarios.

use std::sync::Arc;

use ackclock_cli::output::Described;
use ackclock_sim::{Change, Faults};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use tokio::net::TcpListener;

use super::outcome::{Outcome, Tally};
use crate::http::{self, Answer, Refusal, json};

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, faults: Faults, tally: Arc<Tally>) {
    let answer = move |request| {
        let (faults, tally) = (faults.clone(), Arc::clone(&tally));
        async move { answer(request, &faults, &tally).await }
    };
    http::serve(listener, answer).await;
}

async fn answer(request: Request<Incoming>, faults: &Faults, tally: &Tally) -> Result<Answer, Refusal> {
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
            json(&Described::new(Outcome::new(tally, faults.lateness().unwrap_or_default(), report)))
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

/// The longest body.
const BODY_MAX: usize = 64 << 10;
