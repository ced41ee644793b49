//! An axum service on a TCP in user space, which finishes the requests it has begun before it ends (as root):
//!
//!     cargo run --example serve_axum -- tun9
//!     curl http://10.9.0.2/
//!     curl --http2-prior-knowledge http://10.9.0.2/
//!     curl http://10.9.0.2/slow & curl -X POST http://10.9.0.2/drain

use std::sync::Arc;
use std::time::Duration;

use ackclock::{Addresses, Stack};
use ackclock_examples::{STACK, stack_addr, tun};
use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::{get, post};
use tokio::sync::Notify;
use tokio::time::sleep;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "tun9".to_owned());
    let stack = Stack::builder().device(tun(&name)?).address(STACK.parse()?).spawn()?;
    let listener = stack.listen((stack_addr(), 80).into())?;
    println!("serving; try: curl http://{}/", stack_addr());

    let asked = Arc::new(Notify::new());
    let app = service(Arc::clone(&asked), stack.clone()).into_make_service_with_connect_info::<Addresses>();
    let closing = stack.clone();
    let serving = tokio::spawn(async move {
        axum::serve(listener, app).with_graceful_shutdown(async move { closing.closing().await }).await
    });

    asked.notified().await;
    let reset = stack.drain(Duration::from_secs(30)).await?;
    serving.await??;
    println!("drained: {reset} connections were reset");
    Ok(())
}

fn service(asked: Arc<Notify>, stack: Stack) -> Router {
    let hello = |ConnectInfo(ends): ConnectInfo<Addresses>| async move {
        format!("hello {}, you called {}\n", ends.peer.ip(), ends.local)
    };
    let slow = || async {
        sleep(Duration::from_secs(2)).await;
        "at last\n"
    };
    let drain = move || async move {
        asked.notify_one();
        // A client with this answer can rely on it: no new connection is accepted.
        stack.closing().await;
        "draining\n"
    };
    Router::new().route("/", get(hello)).route("/slow", get(slow)).route("/drain", post(drain))
}
