//! Many connections on one thread of the client, as a server has them.

use std::cell::RefCell;
use std::io;
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet};

use super::client::{CHUNK, Cpu, Flow, PATIENCE, WARM_UP};
use super::{Measured, Running, Service};

/// The connections of one service.
#[derive(Debug)]
pub struct Crowd {
    service: Service,
    streams: Vec<TcpStream>,
    progress: Arc<CrowdProgress>,
}

/// The bytes that the connections carried, and how evenly.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct CrowdMeasured {
    /// The total.
    #[serde(flatten)]
    pub measured: Measured,
    /// Jain's index of fairness: 1 if all carried the same, 1/n if one of n carried everything.
    pub jain: f64,
    /// Of the round trips of an echo, microseconds that half of them took at most; otherwise 0.
    pub p50_us: f64,
    /// Microseconds that 99 of 100 took at most.
    pub p99_us: f64,
}

/// The bytes that each connection has carried, and whether the client should stop.
#[derive(Debug)]
pub(super) struct CrowdProgress {
    carried: Box<[AtomicU64]>,
    over: AtomicBool,
}

/// When a round trip began, and how long it took.
type RoundTrip = (Instant, Duration);

impl Crowd {
    /// Connects `flows` times as soon as the program listens.
    ///
    /// # Errors
    /// It does not listen in time, or the service ends its connections at once.
    pub fn connect(service: Service, flows: usize) -> io::Result<Self> {
        if service == Service::Close {
            let why = "its connections end at once; choose sink, source or echo";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let deadline = Instant::now() + PATIENCE;
        let connect = |_| {
            let stream = Flow::connect(service, deadline)?.into_stream();
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        let streams = (0..flows).map(connect).collect::<io::Result<_>>()?;
        let carried = (0..flows).map(|_| AtomicU64::new(0)).collect();
        Ok(Self {
            service,
            streams,
            progress: Arc::new(CrowdProgress { carried, over: AtomicBool::new(false) }),
        })
    }

    /// Measures for `time`, after a warm-up in which windows reach their size.
    ///
    /// # Errors
    /// The program does not do its part.
    pub fn measure(self, program: &Running, time: Duration) -> io::Result<CrowdMeasured> {
        let progress = self.progress();
        let client = thread::spawn(move || self.carry());
        thread::sleep(WARM_UP);
        let (cpu, before, began) = (Cpu::now(program)?, progress.each(), Instant::now());
        thread::sleep(time);
        let (after, seconds) = (progress.each(), began.elapsed().as_secs_f64());
        let cpu = Cpu::now(program)?.since(cpu);
        let ended = Instant::now();
        progress.end();
        let trips = client.join().expect("a client does not panic")?;
        let each: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        let mut trips: Vec<f64> = trips
            .iter()
            .filter(|&&(sent, took)| sent >= began && sent + took <= ended)
            .map(|(_, took)| took.as_secs_f64() * 1e6)
            .collect();
        trips.sort_unstable_by(f64::total_cmp);
        let most = |share: usize| trips.get(trips.len() * share / 100).copied().unwrap_or(0.0);
        Ok(CrowdMeasured {
            measured: Measured::of(seconds, each.iter().sum(), cpu),
            jain: jain(&each),
            p50_us: most(50),
            p99_us: most(99),
        })
    }

    /// A view of the transfer while it runs.
    pub(super) fn progress(&self) -> Arc<CrowdProgress> {
        Arc::clone(&self.progress)
    }

    /// Carries as much as possible until [`CrowdProgress::end`]. Returns the round trips of an echo.
    pub(super) fn carry(self) -> io::Result<Vec<RoundTrip>> {
        let Self { service, streams, progress } = self;
        // All connections share the buffer. None holds it across an await.
        let chunk = Rc::new(RefCell::new(vec![0x5a; CHUNK]));
        let trips = Rc::new(RefCell::new(Vec::new()));
        let local = LocalSet::new();
        let mut flows = JoinSet::new();
        for (number, stream) in streams.into_iter().enumerate() {
            let (chunk, trips, progress) = (Rc::clone(&chunk), Rc::clone(&trips), Arc::clone(&progress));
            let flow = async move {
                let mut stream = tokio::net::TcpStream::from_std(stream)?;
                loop {
                    let count = match service {
                        Service::Sink => {
                            stream.writable().await?;
                            ready(stream.try_write(&chunk.borrow()))?
                        }
                        Service::Source => {
                            stream.readable().await?;
                            ready(stream.try_read(&mut chunk.borrow_mut()))?
                        }
                        Service::Echo | Service::Close => {
                            let sent = Instant::now();
                            stream.write_all(&[1]).await?;
                            stream.read_exact(&mut [0]).await?;
                            trips.borrow_mut().push((sent, sent.elapsed()));
                            1
                        }
                    };
                    if let Some(carried) = progress.carried.get(number) {
                        carried.fetch_add(count as u64, Ordering::Relaxed);
                    }
                    // A socket that is always ready would keep the thread, since `try_write` has no budget.
                    tokio::task::yield_now().await;
                }
            };
            flows.spawn_local_on(flow, &local);
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(local.run_until(async {
            while !progress.over.load(Ordering::Relaxed) {
                tokio::select! {
                    Some(ended) = flows.join_next() => {
                        let failed: io::Result<()> = ended.expect("a flow does not panic");
                        failed?;
                    }
                    () = tokio::time::sleep(LOOK) => {}
                }
            }
            io::Result::Ok(())
        }))?;
        Ok(trips.take())
    }
}

impl CrowdProgress {
    /// The bytes that each connection has carried so far.
    fn each(&self) -> Vec<u64> {
        self.carried.iter().map(|carried| carried.load(Ordering::Relaxed)).collect()
    }

    /// The bytes of all connections together.
    pub(super) fn total(&self) -> u64 {
        self.each().iter().sum()
    }

    /// Tells the client to stop.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// The bytes that a socket took or had: none if it was not ready after all, an error at the end of a stream.
fn ready(tried: io::Result<usize>) -> io::Result<usize> {
    match tried {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        tried => tried,
    }
}

/// R. Jain, D. Chiu and W. Hawe, "A Quantitative Measure of Fairness", 1984: (Σx)² / (n·Σx²).
fn jain(each: &[u64]) -> f64 {
    let (mut sum, mut squares) = (0.0, 0.0);
    for &one in each {
        sum += one as f64;
        squares += (one as f64).powi(2);
    }
    if squares > 0.0 { sum * sum / (each.len() as f64 * squares) } else { 0.0 }
}

/// How often the client checks whether to stop.
const LOOK: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_one_for_equals_and_a_share_for_one_of_many() {
        for (each, index) in
            [(vec![5; 8], 1.0), (vec![0, 0, 0, 9], 0.25), (vec![1, 3], 0.8), (vec![0; 3], 0.0)]
        {
            assert!((jain(&each) - index).abs() < 1e-12, "{each:?}");
        }
    }

    #[test]
    fn a_socket_that_was_not_ready_carries_nothing_and_an_end_is_an_error() {
        let not_ready = ready(Err(io::ErrorKind::WouldBlock.into()));
        assert_eq!((not_ready.unwrap(), ready(Ok(7)).unwrap()), (0, 7));
        assert_eq!(ready(Ok(0)).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
