//! gRPC by tonic on a TCP in user space, streaming both ways. Without arguments two stacks talk over a cable
//! in memory; with a TUN device the stack serves, or calls a server at the kernel's end (as root):
//!
//!     cargo run --example grpc
//!     cargo run --example grpc -- serve tun9
//!     cargo run --example grpc -- call tun9 http://10.9.0.1:50051

use std::time::Duration;

use ackclock::device::memory;
use ackclock::{Connector, Stack, TcpListenerStream};
use ackclock_examples::sums::{Number, Sums, add};
use ackclock_examples::{STACK, stack_addr, tun};
use anyhow::{Context, bail, ensure};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Endpoint, Server};

const PORT: u16 = 50_051;
const NUMBERS: u64 = 1000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => alone().await,
        ["serve", name] => serve(on(name)?).await,
        ["call", name, uri] => call(on(name)?, uri).await,
        _ => bail!("arguments: none, `serve DEVICE` or `call DEVICE URI`"),
    }
}

fn on(name: &str) -> anyhow::Result<Stack> {
    Ok(Stack::builder().device(tun(name)?).address(STACK.parse()?).spawn()?)
}

async fn alone() -> anyhow::Result<()> {
    let (left, right) = memory::pair(memory::Config::default());
    let client = Stack::builder().device(left).address("10.9.0.1/24".parse()?).spawn()?;
    let server = Stack::builder().device(right).address(STACK.parse()?).spawn()?;
    let serving = tokio::spawn(serve(server.clone()));
    call(client.clone(), &format!("http://{}:{PORT}", stack_addr())).await?;
    // Ends the service, and the task with it.
    let reset = server.drain(Duration::from_secs(10)).await?;
    serving.await??;
    println!("drained: {reset} connections were reset");
    client.shutdown().await;
    Ok(())
}

/// Serves until the stack drains.
async fn serve(stack: Stack) -> anyhow::Result<()> {
    let incoming = TcpListenerStream::new(stack.listen((stack_addr(), PORT).into())?);
    println!("serving at http://{}:{PORT}", stack_addr());
    let closing = async move { stack.closing().await };
    Ok(Server::builder().serve_with_incoming_shutdown(Sums, incoming, closing).await?)
}

/// Sends each number once the sum before it has arrived: neither direction waits for the end of the other.
async fn call(stack: Stack, uri: &str) -> anyhow::Result<()> {
    let endpoint = Endpoint::from_shared(uri.to_owned())?;
    let channel = loop {
        match endpoint.connect_with_connector(Connector::new(stack.clone())).await {
            Ok(channel) => break channel,
            // Until a server listens.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    };
    let (numbers, sent) = mpsc::channel(1);
    numbers.send(Number { value: 1 }).await?;
    let mut sums = add(channel, ReceiverStream::new(sent)).await?;
    let (mut expected, mut last) = (0, 0);
    for number in 1..=NUMBERS {
        expected += number;
        last = sums.next().await.context("the sums end early")??.value;
        ensure!(last == expected, "{last} instead of {expected}");
        if number < NUMBERS {
            numbers.send(Number { value: number + 1 }).await?;
        }
    }
    drop(numbers);
    ensure!(sums.next().await.is_none(), "sums of nothing");
    println!("{NUMBERS} numbers one after the other: {last}");
    Ok(())
}
