//! HTTP for the user of this machine: which requests are answered, and in what form.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{
    CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::time::sleep;

pub(crate) type Answer = Response<BoxBody<Bytes, Infallible>>;
/// A status that is an error, and a sentence.
pub(crate) type Refusal = (StatusCode, String);

/// Serves until it is dropped.
pub(crate) async fn serve<F>(
    listener: TcpListener,
    answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
) where
    F: Future<Output = Result<Answer, Refusal>> + Send + 'static,
{
    let exposed = !listener.local_addr().is_ok_and(|addr| is_here(addr.ip()));
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // Out of descriptors, most likely.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let answer = answer.clone();
        let service = service_fn(move |request| {
            let answered = check(&request, exposed).map(|()| answer(request));
            async move {
                let answered = match answered {
                    Ok(answer) => answer.await,
                    Err(refusal) => Err(refusal),
                };
                Ok::<_, Infallible>(answered.unwrap_or_else(refuse))
            }
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME_MAX);
        tokio::spawn(async move {
            // A client that goes away is not an error of ours.
            server.serve_connection(TokioIo::new(client), service).await.ok();
        });
    }
}

/// Refuses what the pages of others ask for behind the user's back. A name that leads here, such as a page's
/// own, must not make this server part of that page. Programs send no `Origin`.
fn check(request: &Request<Incoming>, exposed: bool) -> Result<(), Refusal> {
    let header = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    let host = header(HOST);
    if !exposed && !host.is_none_or(names_this_machine) {
        let what = "this server answers to localhost and to loopback addresses only";
        return Err((StatusCode::FORBIDDEN, what.to_owned()));
    }
    let own = |origin: &HeaderValue| {
        let page = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
        !exposed && page.is_some() && page == host
    };
    match request.headers().get(ORIGIN) {
        Some(origin) if !own(origin) => {
            Err((StatusCode::FORBIDDEN, "requests of web pages are refused".to_owned()))
        }
        _ => Ok(()),
    }
}

fn names_this_machine(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_matches(['[', ']']);
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_here)
}

/// Whether only this machine reaches the address.
pub(crate) fn is_here(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

pub(crate) fn json(value: &impl serde::Serialize) -> Result<Answer, Refusal> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(whole(StatusCode::OK, "application/json", text + "\n"))
}

fn refuse((status, what): Refusal) -> Answer {
    whole(status, "text/plain; charset=utf-8", what + "\n")
}

pub(crate) fn whole(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Answer {
    response(status, kind, Full::new(text.into()).boxed())
}

pub(crate) fn response(status: StatusCode, kind: &'static str, body: BoxBody<Bytes, Infallible>) -> Answer {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// How long a client may take to ask.
const HEADER_TIME_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        for own in
            ["localhost", "LOCALHOST:80", "127.0.0.1:8474", "127.9.9.9", "[::1]:80", "[::ffff:127.0.0.1]"]
        {
            assert!(names_this_machine(own), "{own}");
        }
        for other in [
            "example.org",
            "localhost.example.org:80",
            "192.0.2.1",
            "[::2]:80",
            "",
            "a b",
            "127.0.0.1.example.org",
        ] {
            assert!(!names_this_machine(other), "{other}");
        }
    }
}
