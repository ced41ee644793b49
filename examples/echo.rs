//! An echo server on a TCP in user space.
//!
//! Without an argument, server and client talk over a cable in memory; no privilege is needed:
//!
//!     cargo run --example echo
//!
//! With the name of a TUN device the kernel is the client (as root):
//!
//!     cargo run --example echo -- tun9
//!     nc 10.9.0.2 7

use ackclock::{Stack, TcpListener};
use ackclock_device::memory;
use ackclock_examples::{STACK, stack_addr, tun};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1) {
        Some(name) => {
            let stack = Stack::builder().device(tun(&name)?).address(STACK.parse()?).spawn()?;
            let listener = stack.listen((stack_addr(), 7).into())?;
            println!("echoing on {}; try: nc {} 7", listener.local_addr()?, stack_addr());
            serve(listener).await
        }
        None => in_memory().await,
    }
}

async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    loop {
        let (mut stream, peer) = listener.accept().await?;
        tokio::spawn(async move {
            let (mut reader, mut writer) = stream.split();
            let echoed = tokio::io::copy(&mut reader, &mut writer).await;
            println!("{peer}: {echoed:?}");
        });
    }
}

async fn in_memory() -> anyhow::Result<()> {
    let (left, right) = memory::pair(memory::Config::default());
    let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
    let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
    let serving = tokio::spawn(serve(server.listen("10.0.0.2:7".parse()?)?));

    let mut stream = client.connect("10.0.0.2:7".parse()?).await?;
    stream.write_all(b"hello, user space").await?;
    stream.shutdown().await?;
    let mut echoed = String::new();
    stream.read_to_string(&mut echoed).await?;
    let info = stream.info()?;
    println!("echoed: {echoed:?}; round trip {:?}, cwnd {} bytes, {}", info.srtt, info.cwnd, info.congestion);

    serving.abort();
    client.shutdown().await;
    Ok(())
}
