//! hyper-util's pooled client on a TCP in user space: requests share connections, and a cancelled one costs
//! only its own. It stands in for reqwest, whose connector accepts no custom transport. As root, with a
//! server at the kernel's end:
//!
//!     python3 -m http.server --bind 10.9.0.1 8000    # once the device is there
//!     cargo run --example pooled_client -- tun9 http://10.9.0.1:8000/ http://10.9.0.1:8000/slow
//!
//! The example requests the first address twenty times; between these, it requests the second four times and
//! cancels each request.

use std::time::Duration;

use ackclock::{Connector, Stack};
use ackclock_examples::{STACK, tun};
use anyhow::{Context, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::Uri;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::time::{sleep, timeout};

const REQUESTS: u32 = 20;
/// One request in this many is followed by one that is cancelled.
const EVERY: u32 = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = || arguments.next().context("three arguments: DEVICE PAGE SLOW-PAGE");
    let (name, page, slow) = (argument()?, argument()?.parse::<Uri>()?, argument()?.parse::<Uri>()?);
    let stack = Stack::builder().device(tun(&name)?).address(STACK.parse()?).spawn()?;
    let client: Client<_, Empty<Bytes>> =
        Client::builder(TokioExecutor::new()).build(Connector::new(stack.clone()));

    // Until a server listens.
    while client.get(page.clone()).await.is_err() {
        sleep(Duration::from_millis(50)).await;
    }
    let before = stack.counters().opened_actively;
    let (mut bytes, mut given_up) = (0, 0);
    for number in 1..=REQUESTS {
        let answer = client.get(page.clone()).await?;
        ensure!(answer.status().is_success(), "{page}: {}", answer.status());
        bytes += answer.into_body().collect().await?.to_bytes().len();
        if number % EVERY == 0 {
            given_up +=
                u32::from(timeout(Duration::from_millis(100), client.get(slow.clone())).await.is_err());
        }
    }
    let opened = stack.counters().opened_actively - before;
    println!("{REQUESTS} answers of {bytes} bytes, {given_up} requests given up, {opened} more connections");

    drop(client);
    stack.shutdown().await;
    Ok(())
}
