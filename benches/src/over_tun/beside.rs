//! One-byte round trips beside connections that carry as much as they can: how long a small message waits for
//! the large ones of others.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::Service;
use super::client::{Flow, PATIENCE, WARM_UP};
use super::crowd::Crowd;

/// A connection that echoes, and others beside it.
#[derive(Debug)]
pub struct Beside {
    echo: Flow,
    bulk: Crowd,
}

/// How long round trips took, and what was carried beside them.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Latencies {
    /// Seconds measured.
    pub seconds: f64,
    /// Round trips.
    pub count: u64,
    /// Microseconds that half of the round trips took at most.
    pub p50_us: f64,
    /// Microseconds that 99 of 100 took at most.
    pub p99_us: f64,
    /// Microseconds of the longest.
    pub max_us: f64,
    /// Bytes a second of the other connections together.
    pub bulk_rate: f64,
}

impl Beside {
    /// Connects as soon as the program listens: an echo, and `flows` connections of `service`.
    ///
    /// # Errors
    /// It does not listen in time.
    pub fn connect(service: Service, flows: usize) -> io::Result<Self> {
        let bulk = Crowd::connect(service, flows)?;
        let echo = Flow::connect(Service::Echo, Instant::now() + PATIENCE)?;
        Ok(Self { echo: echo.with_patience(TRIP_MAX)?, bulk })
    }

    /// Measures for `time`, after a warm-up in which windows reach their size.
    ///
    /// # Errors
    /// The program does not do its part.
    pub fn measure(mut self, time: Duration) -> io::Result<Latencies> {
        let progress = self.bulk.progress();
        let others = thread::spawn(move || self.bulk.carry());
        let warm = trips(&mut self.echo, WARM_UP);
        let (before, began) = (progress.total(), Instant::now());
        let measured = warm.and_then(|_| trips(&mut self.echo, time));
        let (bytes, seconds) = (progress.total() - before, began.elapsed().as_secs_f64());
        progress.end();
        others.join().expect("a client does not panic")?;
        Ok(Latencies::of(measured?, seconds, bytes))
    }
}

impl Latencies {
    fn of(mut trips: Vec<Duration>, seconds: f64, bytes: u64) -> Self {
        trips.sort_unstable();
        let micros = |trip: Option<&Duration>| trip.map_or(0.0, |trip| trip.as_secs_f64() * 1e6);
        Self {
            seconds,
            count: trips.len() as u64,
            p50_us: micros(trips.get(trips.len() / 2)),
            p99_us: micros(trips.get(trips.len() * 99 / 100)),
            max_us: micros(trips.last()),
            bulk_rate: bytes as f64 / seconds,
        }
    }
}

/// Makes round trips for `time`, one after the other.
fn trips(echo: &mut Flow, time: Duration) -> io::Result<Vec<Duration>> {
    let began = Instant::now();
    let mut trips = Vec::new();
    while began.elapsed() < time {
        let sent = Instant::now();
        echo.run(1)?;
        trips.push(sent.elapsed());
    }
    Ok(trips)
}

/// A longer round trip is an error. The kernel's program has taken 5.5 s beside 1,000 flows that it sends on.
const TRIP_MAX: Duration = Duration::from_secs(20);
