//! The memory cost of an idle connection, sockets included: two stacks joined in memory, in one process.
//!
//! It opens connections and holds the streams of both ends, then sends some bytes and an answer over each and
//! waits until their buffers have been given back. After both steps it prints, per end, what the allocator
//! has handed out (its own overhead included) and the resident memory of the process, holes in the heap
//! included; buffers that were given back leave such holes, and the next buffers fill them. It fails if more
//! than 1,536 bytes per end are handed out.

use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ackclock::{Stack, TcpListener, TcpStream};
use ackclock_device::memory;
use clap::Parser;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Measures what idle connections cost in memory, sockets and all.
#[derive(Parser)]
struct Options {
    /// Connections to open.
    #[arg(long, default_value_t = 100_000)]
    connections: usize,
    /// Bytes to send over each.
    #[arg(long, default_value_t = ANSWER)]
    bytes: usize,
}

/// Both ends of the connections opened.
type Ends = Vec<(TcpStream, TcpStream)>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<ExitCode> {
    let Options { connections, bytes } = Options::parse();
    let message = vec![0x5a; bytes];
    let mut read = message.clone();
    let (left, right) = memory::pair(memory::Config::default());
    let client = Stack::builder().device(left).address(cidr("10.0.0.1/24")).spawn()?;
    let server = Stack::builder().device(right).address(cidr("10.0.0.2/24")).spawn()?;

    let before = Memory::now()?;
    let began = Instant::now();
    let mut ends = open(&client, &server, connections).await?;
    let opened = began.elapsed().as_secs_f64();
    let fresh = Memory::now()?.since(before, connections);
    println!("{connections} connections, opened in {opened:.1} s: {fresh}");

    let began = Instant::now();
    for (near, far) in &mut ends {
        exchange(near, far, &message, &mut read).await?;
    }
    let used = began.elapsed().as_secs_f64();
    tokio::time::sleep(SETTLE).await;
    let rested = Memory::now()?.since(before, connections);
    let held = client.info().memory_used + server.info().memory_used;
    println!(
        "{bytes} bytes over each in {used:.1} s, then idle for {SETTLE:?}: {rested}; buffers hold {held} \
         bytes"
    );
    let most = fresh.handed_out.max(rested.handed_out);
    Ok(if most <= PER_END_MAX { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Opens connections one after the other; one port of the server takes as many as the client has ports for.
async fn open(client: &Stack, server: &Stack, connections: usize) -> io::Result<Ends> {
    let mut ends = Ends::with_capacity(connections);
    let mut port = 7;
    while ends.len() < connections {
        let addr = SocketAddr::new(cidr("10.0.0.2/24").addr(), port);
        let listener = server.listen(addr)?;
        for _ in 0..PER_PORT.min(connections - ends.len()) {
            ends.push(join(client, &listener, addr).await?);
        }
        port += 1;
    }
    Ok(ends)
}

async fn join(
    client: &Stack,
    listener: &TcpListener,
    addr: SocketAddr,
) -> io::Result<(TcpStream, TcpStream)> {
    let (near, far) = tokio::join!(client.connect(addr), listener.accept());
    Ok((near?, far?.0))
}

async fn exchange(
    near: &mut TcpStream,
    far: &mut TcpStream,
    message: &[u8],
    read: &mut [u8],
) -> io::Result<()> {
    let mut answer = [0; ANSWER];
    tokio::try_join!(near.write_all(message), far.read_exact(read))?;
    far.write_all(&answer).await?;
    near.read_exact(&mut answer).await.map(drop)
}

fn cidr(text: &str) -> ackclock::Cidr {
    text.parse().expect("an address with a prefix")
}

/// Memory of the process in bytes.
#[derive(Clone, Copy)]
struct Memory {
    handed_out: usize,
    resident: usize,
}

impl Memory {
    #[expect(unsafe_code, reason = "the allocator is asked")]
    fn now() -> io::Result<Self> {
        // SAFETY: malloc_trim(3) may be called at any time and takes a number of bytes to keep.
        unsafe { libc::malloc_trim(0) };
        // SAFETY: mallinfo2(3) takes nothing and returns a structure of numbers.
        let heap = unsafe { libc::mallinfo2() };
        let status = fs::read_to_string("/proc/self/status")?;
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB")?.trim().parse().ok());
        let kib: usize = kib.ok_or_else(|| io::Error::other("/proc/self/status has no VmRSS"))?;
        Ok(Self { handed_out: heap.uordblks + heap.hblkhd, resident: kib * 1024 })
    }

    /// The growth since `before`, per end of a connection.
    fn since(self, before: Self, connections: usize) -> Self {
        let ends = 2 * connections.max(1);
        Self {
            handed_out: self.handed_out.saturating_sub(before.handed_out) / ends,
            resident: self.resident.saturating_sub(before.resident) / ends,
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes per end, {} resident", self.handed_out, self.resident)
    }
}

const PER_PORT: usize = 50_000;
/// Bytes of an answer, and of a message by default.
const ANSWER: usize = 64;
/// Longer than an unused buffer is kept.
const SETTLE: Duration = Duration::from_secs(3);
const PER_END_MAX: usize = 1536;
