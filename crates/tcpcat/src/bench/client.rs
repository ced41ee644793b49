//! `tcpcat bench client`.

use std::time::Duration;

use ackclock_cli::{Exit, Failure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::datagrams::{self, Link};
use super::flows::{Carrier, Flows, Settings};
use super::protocol::{Cookie, Object, Params, ProtocolError, Results, State};
use super::{BLOCK_LEN, Figures, STEP_MAX, failure, silent, step};
use crate::args::{BenchClientArgs, PeerArgs, Target};
use crate::net::Stream;
use crate::session::{Kind, Session, TransferResult};

/// Runs a test.
pub(crate) async fn run(args: BenchClientArgs, target: Target) -> Exit {
    let kind = Kind { name: "bench client", data_on_stdout: false, summary: true, file: false };
    let common = args.common.clone();
    let progress = args.progress;
    Session::run(kind, &common, &target.clone(), progress, None, |session| measure(session, args, target))
        .await
}

async fn measure(
    session: &'static Session,
    args: BenchClientArgs,
    target: Target,
) -> Result<TransferResult, Failure> {
    if args.zerocopy && args.common.kernel {
        let failure =
            Failure::usage("--zerocopy needs the stack: the kernel's sockets have no calls for slices here");
        return Err(failure.remedy("leave out --zerocopy or --kernel"));
    }
    let control = session.connect(&target, &PeerArgs::with_retry(args.retry)).await;
    let mut control = control.map_err(|failure| match failure.exit() {
        Exit::Refused => {
            failure.remedy("start the server first, on the peer: tcpcat bench server, or iperf3 -s")
        }
        _ => failure,
    })?;
    // A server that vanishes is noticed.
    control.guard().map_err(|error| session.net.failure("watching the server", &error))?;
    let len =
        if args.udp { datagrams::length(&control, args.length) } else { args.length.unwrap_or(BLOCK_LEN) };
    let mut client = Client { session, args, target, control, len };
    let ended = tokio::select! {
        biased;
        () = session.interrupt.first() => None,
        ended = client.test() => Some(ended),
    };
    let result = match ended {
        Some(result) => result,
        None => {
            let _ = timeout(GOODBYE_MAX, State::ClientTerminate.write(&mut client.control)).await;
            Err(Failure::interrupted("the measurement is incomplete"))
        }
    };
    let mut control = client.control;
    session.observer.ended(&control);
    let _ = control.finish();
    let _ = timeout(GOODBYE_MAX, control.shutdown()).await;
    result
}

/// A client and its server.
struct Client {
    session: &'static Session,
    args: BenchClientArgs,
    target: Target,
    control: Stream,
    /// Bytes of a block.
    len: u64,
}

impl Client {
    async fn test(&mut self) -> Result<TransferResult, Failure> {
        let session = self.session;
        self.check_length().await?;
        let cookie = Cookie::new();
        let wrote = cookie.write(&mut self.control).await;
        wrote.map_err(|error| session.net.failure("sending the cookie", &error))?;
        self.expect(State::ParamExchange).await?;
        let params = self.params();
        step(session, "server", "sending the parameters", params.write(&mut self.control)).await?;
        self.expect(State::CreateStreams).await?;
        let streams = self.streams(cookie, &params).await?;
        self.expect(State::TestStart).await?;
        self.expect(State::TestRunning).await?;

        let settings = self.settings();
        if let Some(bytes) = settings.bytes {
            session.meter.expect(bytes * if self.args.bidir { 2 } else { 1 });
        }
        let mut flows = Flows::start(session, streams, &settings);
        let time = self.args.time.or(settings.bytes.is_none().then_some(TIME));
        let lasts = async {
            match time {
                Some(time) => sleep(time).await,
                None => std::future::pending().await,
            }
        };
        let ran = tokio::select! {
            biased;
            state = State::read(&mut self.control) => Err(self.refused(state).await),
            () = lasts => Ok(()),
            finished = flows.finished() => match finished {
                Ok(()) => Ok(()),
                // The server may say why.
                Err(error) => Err(match timeout(GOODBYE_MAX, State::read(&mut self.control)).await {
                    Ok(Ok(state)) => self.refused(Ok(state)).await,
                    _ => failure(session, "moving data", ProtocolError::Io(error)),
                }),
            },
        };
        ran?;
        flows.stop(settings.counts_late).await;
        let told = State::TestEnd.write(&mut self.control).await;
        told.map_err(|error| session.net.failure("ending the run", &error))?;

        self.expect(State::ExchangeResults).await?;
        let own = flows.results();
        step(session, "server", "sending the results", own.write(&mut self.control)).await?;
        let peers = step(session, "server", "reading the results", Results::read(&mut self.control)).await?;
        self.expect(State::DisplayResults).await?;
        let figures = Figures::new(&flows, &own, &peers);
        let took = Some(flows.took());
        flows.close(session).await;
        // The test is done, whether the server hears it or not.
        let _ = State::Done.write(&mut self.control).await;
        Ok(TransferResult { took, notes: figures.lines(), bench: Some(figures), ..TransferResult::default() })
    }

    fn params(&self) -> Params {
        let args = &self.args;
        let by_amount = args.bytes.is_some() || args.blocks.is_some();
        let time = args
            .time
            .or((!by_amount).then_some(TIME))
            .map_or(0, |time| time.as_secs() + u64::from(time.subsec_nanos() > 0));
        Params {
            tcp: !args.udp,
            udp: args.udp,
            time,
            num: args.bytes.unwrap_or(0),
            blockcount: args.blocks.unwrap_or(0),
            parallel: u64::from(args.streams),
            reverse: args.reverse,
            bidirectional: args.bidir,
            len: self.len,
            bandwidth: self.rate().unwrap_or(0),
            udp_counters_64bit: args.udp_counters_64bit.into(),
            client_version: format!("tcpcat {}", env!("CARGO_PKG_VERSION")),
            ..Params::default()
        }
    }

    /// Bits a second of one stream.
    fn rate(&self) -> Option<u64> {
        let rate = self.args.rate.or(self.args.udp.then_some(UDP_RATE)).filter(|&rate| rate > 0);
        rate.map(|rate| rate.div_ceil(u64::from(self.args.streams)))
    }

    /// Refuses datagrams that no packet to the server takes.
    async fn check_length(&self) -> Result<(), Failure> {
        if !self.args.udp || self.args.reverse {
            return Ok(());
        }
        let max = datagrams::payload_max(self.session, &self.control).await?;
        if self.len <= max {
            return Ok(());
        }
        let what = format!("a datagram of {} bytes does not fit a packet to the server", self.len);
        Err(Failure::usage(what).remedy(format!("choose at most {max} bytes: -l {max}B")))
    }

    fn settings(&self) -> Settings {
        let len = self.len;
        let blocks = self.args.blocks.map(|blocks| blocks.saturating_mul(len));
        Settings {
            len: usize::try_from(len).unwrap_or(usize::MAX),
            rate: self.rate(),
            bytes: self.args.bytes.or(blocks),
            zerocopy: self.args.zerocopy,
            counts_late: false,
        }
    }

    /// Opens the streams.
    async fn streams(&self, cookie: Cookie, params: &Params) -> Result<Vec<(bool, Carrier)>, Failure> {
        let mut streams = Vec::new();
        for sends in params.ways() {
            let carrier = if params.udp {
                Carrier::Datagrams(Link::open(self.session, &self.control, params).await?)
            } else {
                let mut stream = self.session.connect(&self.target, &PeerArgs::default()).await?;
                let wrote = cookie.write(&mut stream).await;
                wrote.map_err(|error| self.session.net.failure("opening a stream", &error))?;
                Carrier::Stream(stream)
            };
            streams.push((sends, carrier));
        }
        Ok(streams)
    }

    /// Waits for the server's next step.
    async fn expect(&mut self, wanted: State) -> Result<(), Failure> {
        match timeout(STEP_MAX, State::read(&mut self.control)).await {
            Ok(Ok(state)) if state == wanted => Ok(()),
            Ok(state) => Err(self.refused(state).await),
            Err(_) => Err(silent("server")),
        }
    }

    /// Why the server does not go on.
    async fn refused(&mut self, said: Result<State, ProtocolError>) -> Failure {
        match said {
            Ok(State::AccessDenied) => Failure::new(Exit::Refused, "the server is busy with another test")
                .remedy("try again when that has ended"),
            Ok(State::ServerTerminate) => Failure::new(Exit::Failed, "the server was ended"),
            Ok(State::ServerError) => {
                let number = timeout(GOODBYE_MAX, self.control.read_u32()).await;
                let number = number.ok().and_then(Result::ok);
                let number = number.map_or_else(String::new, |number| format!(" (iperf3's number {number})"));
                Failure::new(Exit::Failed, format!("the server refused the test{number}"))
                    .remedy("look at its output")
            }
            Ok(state) => Failure::new(Exit::Failed, format!("the server said {state:?} out of turn")),
            Err(error) => failure(self.session, "waiting for the server", error),
        }
    }
}

/// How long a test takes if neither a time nor an amount is given.
const TIME: Duration = Duration::from_secs(10);

/// Bits a second of all streams over UDP together, if no rate is given. Iperf3 has 1 Mbit/s for each.
const UDP_RATE: u64 = 1_000_000;

/// How long a goodbye may take.
const GOODBYE_MAX: Duration = Duration::from_secs(1);
