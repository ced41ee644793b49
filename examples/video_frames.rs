//! A camera sends a frame every 40 ms over a path whose rate falls to a quarter for ten seconds, in virtual
//! time. In the first run it sends every frame. In the second it asks the connection how long the next frame
//! would take, and drops it if that is too long:
//!
//!     cargo run --example video_frames
//!
//! Another path is named by a model of a link or by the file of a trace, for instance of a phone on the move:
//!
//!     cargo run --example video_frames -- model:lte

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use ackclock::{DeliveryInfo, TcpListener, TcpStream};
use ackclock_sim::link_trace::LinkTrace;
use ackclock_sim::scenario::{Change, FollowedTrace};
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, Scenario, VirtualNetwork};
use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, interval};

/// 4 Mbit/s of video for half a minute.
const FRAMES: u32 = 750;
const FRAME_BYTES: usize = 20_000;
const EVERY: Duration = Duration::from_millis(40);
/// The longest that earlier frames may still take when another one is sent, in milliseconds.
const BACKLOG_MAX_MS: u64 = 100;

fn main() -> anyhow::Result<()> {
    let trace = std::env::args().nth(1);
    for drops in [false, true] {
        let seen = watch(&scenario(trace.as_deref())?, drops)?;
        println!(
            "{}: {} of {FRAMES} frames shown, in the middle {} ms after they were made, at worst {} ms",
            if drops { "with feedback" } else { "without" },
            seen.len(),
            seen[seen.len() / 2].as_millis(),
            seen[seen.len() - 1].as_millis(),
        );
    }
    Ok(())
}

// ANCHOR: path
/// A path that follows a trace, or one whose rate falls for ten seconds.
fn scenario(trace: Option<&str>) -> anyhow::Result<Scenario> {
    let hosts = Scenario::new(Span::seconds(3600)).seed(1).host("camera").host("viewer");
    let delay = Span::millis(15);
    if let Some(name) = trace {
        let trace = match name.strip_prefix("model:") {
            Some(model) => LinkTrace::model(model).context("`tcplab model` lists the models")?,
            None => LinkTrace::parse(&fs::read_to_string(name)?)?,
        };
        // Some traces set the delay of their link; the one of the way there is beside it.
        let radio = Direction::following(FollowedTrace::given(name, trace), Span(0)).buffers(40);
        let network = hosts.router("mast").link("camera", "mast", Direction::new(Rate::mbit(1000), delay));
        return Ok(network.link("mast", "viewer", radio));
    }
    let mut scenario = hosts.link("camera", "viewer", Direction::new(Rate::mbit(8), delay).buffers(40));
    for (at, rate) in [(10, 2), (20, 8)] {
        let mut change = Change::new(Span::seconds(at), "camera-viewer");
        change.rate = Some(Rate::mbit(rate));
        scenario = scenario.change(change);
    }
    Ok(scenario)
}
// ANCHOR_END: path

/// Sends the film over the virtual network. Returns how late each frame arrived, the least late first.
fn watch(scenario: &Scenario, drops: bool) -> anyhow::Result<Vec<Duration>> {
    let mut net = VirtualNetwork::new(scenario)?;
    let (camera, viewer) = (net.stack("camera")?, net.stack("viewer")?);
    let addr = SocketAddr::new(net.lookup("viewer")?, 5000);
    net.run(async move {
        let began = Instant::now();
        let viewing = tokio::spawn(view(viewer.listen(addr)?, began));
        film(camera.connect(addr).await?, began, drops).await?;
        let mut late = viewing.await??;
        late.sort();
        Ok(late)
    })?
}

/// Makes frames and sends them.
async fn film(mut stream: TcpStream, began: Instant, drops: bool) -> anyhow::Result<()> {
    // The last segment of a frame does not wait for the acknowledgement of the one before it.
    stream.set_nodelay(true)?;
    let mut camera = interval(EVERY);
    for _ in 0..FRAMES {
        // The time of the making: a camera does not wait for a sender that lags behind.
        let made = camera.tick().await;
        if drops && is_behind(&stream.delivery()?) {
            continue;
        }
        let mut frame = vec![7; FRAME_BYTES];
        frame[..8].copy_from_slice(&u64::try_from((made - began).as_micros())?.to_be_bytes());
        stream.write_all(&frame).await?;
    }
    stream.delivered().await?;
    Ok(())
}

// ANCHOR: feedback
/// Whether another frame would be late, because the unacknowledged data takes long at the latest delivery
/// rate. A sender with nothing outstanding is never behind, whatever it measured last.
fn is_behind(so_far: &DeliveryInfo) -> bool {
    let outstanding = so_far.written - so_far.acked;
    outstanding * 1000 > so_far.delivery_rate * BACKLOG_MAX_MS && so_far.delivery_rate > 0
}
// ANCHOR_END: feedback

/// Shows frames. Returns how late each was.
async fn view(listener: TcpListener, began: Instant) -> anyhow::Result<Vec<Duration>> {
    let (mut stream, _) = listener.accept().await?;
    let (mut late, mut frame) = (Vec::new(), vec![0; FRAME_BYTES]);
    while stream.read_exact(&mut frame).await.is_ok() {
        let made = Duration::from_micros(u64::from_be_bytes(frame[..8].try_into()?));
        late.push(began.elapsed().saturating_sub(made));
    }
    Ok(late)
}
