//! The features for frameworks, over two stacks on a cable of memory.

mod quic;

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use ackclock::device::memory;
use ackclock::{Addresses, Connector, Stack, TcpListenerStream};
use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use futures_core::Stream;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;
use tower_service::Service;

const SERVER: &str = "10.0.0.2:80";
const SOON: Duration = Duration::from_secs(20);

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A client and a server.
fn hosts() -> (Stack, Stack) {
    let (left, right) = memory::pair(memory::Config::default());
    let host = |address: &str, device| {
        Stack::builder().device(device).address(address.parse().unwrap()).spawn().unwrap()
    };
    (host("10.0.0.1/24", left), host("10.0.0.2/24", right))
}

#[tokio::test]
async fn axum_serves_hypers_pool_until_the_stack_drains() {
    let (client_stack, server) = hosts();
    let app = Router::new()
        .route("/", get(|ConnectInfo(ends): ConnectInfo<Addresses>| async move { ends.local.to_string() }));
    let (listener, closing) = (server.listen(addr(SERVER)).unwrap(), server.clone());
    let serving = tokio::spawn(async move {
        axum::serve(listener, app.into_make_service_with_connect_info::<Addresses>())
            .with_graceful_shutdown(async move { closing.closing().await })
            .await
    });

    let client: Client<_, String> =
        Client::builder(TokioExecutor::new()).build(Connector::new(client_stack.clone()));
    for _ in 0..3 {
        let answer = client.get("http://10.0.0.2/".parse().unwrap()).await.unwrap();
        assert_eq!(answer.status(), 200);
        let ends = *answer.extensions().get::<Addresses>().unwrap();
        assert_eq!(ends.peer, addr(SERVER));
        let body = axum::body::to_bytes(axum::body::Body::new(answer.into_body()), 100).await.unwrap();
        assert_eq!(body, SERVER);
    }
    let opened = client_stack.counters().opened_actively;
    assert!((1..=3).contains(&opened), "{opened} connections");

    // The pool keeps its connection open; the server closes it.
    assert_eq!(timeout(SOON, server.drain(Duration::from_secs(10))).await.unwrap().unwrap(), 0);
    timeout(SOON, serving).await.unwrap().unwrap().unwrap();
    assert!(client.get("http://10.0.0.2/".parse().unwrap()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn axums_accept_waits_for_ever_once_the_stack_is_gone() {
    let (_client, server) = hosts();
    let mut listener = server.listen(addr(SERVER)).unwrap();
    server.shutdown().await;
    let accepting = axum::serve::Listener::accept(&mut listener);
    assert!(timeout(SOON, accepting).await.is_err());
}

#[tokio::test]
async fn a_listeners_stream_gives_connections_and_ends_with_the_drain() {
    let (client, server) = hosts();
    let mut incoming = TcpListenerStream::new(server.listen(addr(SERVER)).unwrap());
    let stream = client.connect(addr(SERVER)).await.unwrap();
    let accepted = next(&mut incoming).await.unwrap().unwrap();
    assert_eq!(accepted.peer_addr().unwrap(), stream.local_addr().unwrap());
    drop((stream, accepted));
    let draining = tokio::spawn(async move { server.drain(SOON).await });
    assert!(timeout(SOON, next(&mut incoming)).await.unwrap().is_none());
    assert!(next(&mut incoming).await.is_none());
    assert_eq!(draining.await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_stream_of_a_failed_stack_gives_the_error_once() {
    let (left, right) = memory::pair(memory::Config::default());
    let server = Stack::builder().device(left).address("10.0.0.2/24".parse().unwrap()).spawn().unwrap();
    let mut incoming = TcpListenerStream::new(server.listen(addr(SERVER)).unwrap());
    drop(right);
    let error = timeout(SOON, next(&mut incoming)).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NetworkDown);
    assert!(next(&mut incoming).await.is_none());
}

#[tokio::test]
async fn the_connector_takes_addresses_and_gives_up_with_its_future() {
    let (client, server) = hosts();
    let listener = server.listen(addr(SERVER)).unwrap();
    let mut connector = Connector::new(client.clone());
    let stream = Service::<SocketAddr>::call(&mut connector, addr(SERVER)).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), addr(SERVER));
    drop((stream, listener.accept().await.unwrap()));

    // No host answers there.
    let lost = Service::<SocketAddr>::call(&mut connector, addr("10.0.0.9:80"));
    assert!(timeout(Duration::from_millis(20), lost).await.is_err());
    let unfinished =
        client.connections().into_iter().filter(|(tuple, _)| tuple.remote() == addr("10.0.0.9:80"));
    assert_eq!(unfinished.count(), 0);
}

#[tokio::test]
async fn what_a_connection_knows_is_serialised_with_names_and_maps() {
    let (client, server) = hosts();
    let listener = server.listen(addr(SERVER)).unwrap();
    let stream = client.connect(addr(SERVER)).await.unwrap();
    let _accepted = listener.accept().await.unwrap();
    let info = serde_json::to_value(stream.info().unwrap()).unwrap();
    assert_eq!(info["state"], "established");
    assert_eq!((&info["recovery"], &info["acks"]), (&"rack-tlp".into(), &"every-second:40ms".into()));
    assert_eq!(info["congestion"], "cubic");
    assert_eq!(info["losses"]["later-delivered"], 0);
    assert_eq!(info["undone"]["frto"], 0);
    assert!(info["controller"].is_object(), "{info}");
    assert!(info["srtt_us"].is_u64(), "{info}");

    let (tuple, _) = client.connections().remove(0);
    assert_eq!(serde_json::to_value(tuple).unwrap()["remote_port"], 80);
    assert_eq!(serde_json::to_value(client.counters()).unwrap()["opened_actively"], 1);

    let stack = serde_json::to_value(client.info()).unwrap();
    assert_eq!((&stack["addresses"][0], &stack["routes"]), (&"10.0.0.1/24".into(), &serde_json::Value::Null));
    assert_eq!((&stack["connections"], &stack["mtu"]), (&1.into(), &1500.into()));
    client.add_route("10.0.0.0/8".parse().unwrap());
    assert_eq!(serde_json::to_value(client.info()).unwrap()["routes"][0], "10.0.0.0/8");
    let metrics = serde_json::to_value(client.metrics()).unwrap();
    assert_eq!((&metrics["connections_established"], &metrics["opened_actively"]), (&1.into(), &1.into()));
}

async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    std::future::poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
}
