//! The kernel's TCP as the client of a program.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{CpuTime, OWN, Running, Service};

/// A client of one service.
#[derive(Debug)]
pub struct Client {
    service: Service,
    /// Its connections; none if each is closed at once.
    flows: Vec<Flow>,
}

/// A connection of a service that keeps one.
#[derive(Debug)]
pub(super) struct Flow {
    service: Service,
    stream: TcpStream,
    chunk: Box<[u8]>,
}

/// The result of a measurement.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Measured {
    /// Seconds measured.
    pub seconds: f64,
    /// Bytes carried, round trips, or connections.
    pub count: u64,
    /// The program's processor time, in seconds.
    pub user: f64,
    /// The kernel's for the program.
    pub system: f64,
    /// The client's, user and kernel time together.
    pub client: f64,
}

impl Client {
    /// Connects as soon as the program listens, `flows` times if the service keeps connections.
    ///
    /// # Errors
    /// It does not listen in time.
    pub fn connect(service: Service, flows: usize) -> io::Result<Self> {
        let first = Flow::connect(service, Instant::now() + PATIENCE)?;
        if service == Service::Close {
            return Ok(Self { service, flows: Vec::new() });
        }
        let others = (1..flows).map(|_| Flow::connect(service, Instant::now()));
        Ok(Self { service, flows: std::iter::once(Ok(first)).chain(others).collect::<io::Result<_>>()? })
    }

    /// Has each flow carry `count` bytes or make as many round trips, or opens and closes as many
    /// connections.
    ///
    /// # Errors
    /// The program does not do its part.
    pub fn run(&mut self, count: u64) -> io::Result<()> {
        match &mut *self.flows {
            [] => connections(count),
            flows => each(flows, |flow| flow.run(count)).map(drop),
        }
    }

    /// Measures for `time`, after a warm-up in which windows reach their size.
    ///
    /// # Errors
    /// The program does not do its part.
    pub fn measure(&mut self, program: &Running, time: Duration) -> io::Result<Measured> {
        self.run_for(WARM_UP)?;
        let (before, began) = (Cpu::now(program)?, Instant::now());
        let count = self.run_for(time)?;
        let seconds = began.elapsed().as_secs_f64();
        Ok(Measured::of(seconds, count, Cpu::now(program)?.since(before)))
    }

    /// Runs for `time` and returns the count of all flows together.
    fn run_for(&mut self, time: Duration) -> io::Result<u64> {
        match &mut *self.flows {
            // Each step starts the clients.
            [] => repeat(time, 1024, connections),
            flows => {
                let step = if self.service == Service::Echo { 64 } else { 1 << 20 };
                Ok(each(flows, |flow| repeat(time, step, |count| flow.run(count)))?.into_iter().sum())
            }
        }
    }
}

/// Processor time of a program and of this process, its client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cpu {
    program: CpuTime,
    client: CpuTime,
}

impl Cpu {
    pub(super) fn now(program: &Running) -> io::Result<Self> {
        Ok(Self { program: program.cpu_time()?, client: CpuTime::of(std::process::id())? })
    }

    pub(super) fn since(self, before: Self) -> Self {
        let Self { program, client } = self;
        Self { program: program.since(before.program), client: client.since(before.client) }
    }
}

impl Measured {
    pub(super) fn of(seconds: f64, count: u64, cpu: Cpu) -> Self {
        let CpuTime { user, system } = cpu.program;
        Self { seconds, count, user, system, client: cpu.client.total() }
    }
}

impl Flow {
    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    pub(super) fn connect(service: Service, deadline: Instant) -> io::Result<Self> {
        let stream = loop {
            match TcpStream::connect_timeout(&addr(service), STEP_MAX) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        };
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(STEP_MAX))?;
        stream.set_write_timeout(Some(STEP_MAX))?;
        Ok(Self { service, stream, chunk: vec![0x5a; CHUNK].into() })
    }

    /// Each read and write fails after this time.
    pub(super) fn with_patience(self, time: Duration) -> io::Result<Self> {
        self.stream.set_read_timeout(Some(time))?;
        self.stream.set_write_timeout(Some(time))?;
        Ok(self)
    }

    /// Carries `count` bytes, or makes as many round trips.
    pub(super) fn run(&mut self, count: u64) -> io::Result<()> {
        let Self { service, stream, chunk } = self;
        let mut byte = [1];
        let mut left = count;
        while left > 0 {
            left -= match service {
                Service::Sink => stream.write(chunk.get(..up_to(left)).unwrap_or_default())? as u64,
                Service::Source => match stream.read(chunk.get_mut(..up_to(left)).unwrap_or_default())? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    len => len as u64,
                },
                Service::Echo | Service::Close => {
                    stream.write_all(&byte)?;
                    stream.read_exact(&mut byte)?;
                    1
                }
            };
        }
        Ok(())
    }
}

/// Runs this for all flows at the same time, each but the first on its own thread.
fn each<T: Send>(flows: &mut [Flow], run: impl Fn(&mut Flow) -> io::Result<T> + Sync) -> io::Result<Vec<T>> {
    let Some((first, others)) = flows.split_first_mut() else { return Ok(Vec::new()) };
    thread::scope(|scope| {
        let others: Vec<_> = others.iter_mut().map(|flow| scope.spawn(|| run(flow))).collect();
        let first = run(first);
        let others = others.into_iter().map(|flow| flow.join().expect("a client does not panic"));
        std::iter::once(first).chain(others).collect()
    })
}

/// Runs for `time` in steps and returns the count.
fn repeat(time: Duration, step: u64, mut run: impl FnMut(u64) -> io::Result<()>) -> io::Result<u64> {
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < time {
        run(step)?;
        count += step;
    }
    Ok(count)
}

/// Opens connections, closes each, and waits for its end; several threads share them.
fn connections(count: u64) -> io::Result<()> {
    let begun = AtomicU64::new(0);
    let open = || -> io::Result<()> {
        while begun.fetch_add(1, Ordering::Relaxed) < count {
            let mut stream = TcpStream::connect_timeout(&addr(Service::Close), STEP_MAX)?;
            stream.set_read_timeout(Some(STEP_MAX))?;
            stream.shutdown(Shutdown::Write)?;
            if stream.read(&mut [0; 8])? != 0 {
                return Err(io::Error::other("the program has sent something"));
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE.min(count)).map(|_| scope.spawn(open)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a client does not panic"))
    })
}

fn addr(service: Service) -> SocketAddr {
    SocketAddr::new(OWN, service.port())
}

fn up_to(left: u64) -> usize {
    usize::try_from(left).unwrap_or(CHUNK).min(CHUNK)
}

pub(super) const CHUNK: usize = 256 << 10;
/// Clients that connect at the same time.
const AT_ONCE: u64 = 8;
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// No single call takes longer.
const STEP_MAX: Duration = Duration::from_secs(2);
pub(super) const WARM_UP: Duration = Duration::from_millis(500);
