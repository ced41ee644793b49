//! `tcpcat bench server`: one test after the other.

use std::io;
use std::time::Duration;

use ackclock_cli::{Exit, Failure};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::datagrams::{DATAGRAM_LEN, DATAGRAM_MIN, Port};
use super::flows::{Carrier, Flows, Settings};
use super::protocol::{Cookie, Object, Params, ProtocolError, Results, State};
use super::{BLOCK_LEN, BLOCK_MAX, Figures, STEP_MAX, failure, silent, step};
use crate::args::{BenchServerArgs, PeerArgs, STREAMS_MAX, Target};
use crate::net::{DATAGRAM_MAX, Listener, Stream};
use crate::session::{Kind, Session, TransferResult};

/// Serves tests until interrupted.
pub(crate) async fn run(args: BenchServerArgs, target: Target) -> Exit {
    let kind = Kind { name: "bench server", data_on_stdout: false, summary: false, file: false };
    let common = args.common.clone();
    Session::run(kind, &common, &target.clone(), false, None, |session| serve(session, args, target)).await
}

async fn serve(
    session: &'static Session,
    args: BenchServerArgs,
    target: Target,
) -> Result<TransferResult, Failure> {
    let listener = session.listen(&target, &PeerArgs::default()).await?;
    session.observer.say(&format!("serving measurements on port {}; Ctrl-C ends", args.port));
    let mut lobby = Lobby { session, listener, entering: JoinSet::new(), came: 0 };
    loop {
        let Some(Entered { stream: control, cookie, .. }) = lobby.next().await? else {
            return Ok(TransferResult::default());
        };
        let client = control.peer_addr().map_or_else(|_| "a client".to_owned(), |peer| peer.to_string());
        let mut server = Server { session, zerocopy: args.zerocopy, control };
        let ended = tokio::select! {
            biased;
            () = session.interrupt.first() => None,
            ended = server.test(&mut lobby, cookie) => Some(ended),
        };
        let result = match ended {
            Some(result) => result,
            None => {
                let _ = timeout(GOODBYE_MAX, State::ServerTerminate.write(&mut server.control)).await;
                server.leave().await;
                return Ok(TransferResult::default());
            }
        };
        server.leave().await;
        match result {
            Ok(figures) => {
                for line in figures.lines() {
                    session.observer.say(&format!("{client}: {line}"));
                }
                if args.one_off {
                    return Ok(TransferResult { bench: Some(figures), ..TransferResult::default() });
                }
            }
            Err(failure) if args.one_off => return Err(failure),
            Err(failure) => session.observer.say(&format!("{client}: {failure}")),
        }
    }
}

/// The connections that have come, each with the cookie that it began with. One that says nothing holds up no
/// other.
struct Lobby {
    session: &'static Session,
    listener: Listener,
    entering: JoinSet<Option<Entered>>,
    /// How many have come.
    came: u64,
}

/// A connection and the cookie that it began with.
struct Entered {
    /// Its place in the order in which they came.
    number: u64,
    stream: Stream,
    cookie: Cookie,
}

impl Lobby {
    /// The next that has said its cookie; `None` when the user interrupts. It may be cancelled.
    async fn next(&mut self) -> Result<Option<Entered>, Failure> {
        loop {
            tokio::select! {
                biased;
                Some(entered) = self.entering.join_next() => {
                    if let Ok(Some(entered)) = entered {
                        return Ok(Some(entered));
                    }
                }
                accepted = self.session.accept(&self.listener), if self.entering.len() < LOBBY_MAX => {
                    let Some(mut stream) = accepted? else { return Ok(None) };
                    self.came += 1;
                    let number = self.came;
                    self.entering.spawn(async move {
                        let cookie = timeout(COOKIE_MAX, Cookie::read(&mut stream)).await.ok()?.ok()?;
                        Some(Entered { number, stream, cookie })
                    });
                }
            }
        }
    }

    /// Takes the test's streams as they come, those that the client sends on first; turns others away.
    async fn streams(&mut self, cookie: Cookie, params: &Params) -> Result<Vec<(bool, Carrier)>, Failure> {
        let mut streams = Vec::new();
        while streams.len() < params.ways().count() {
            match self.next().await? {
                Some(entered) if entered.cookie == cookie => streams.push(entered),
                Some(entered) => deny(entered.stream),
                None => std::future::pending().await,
            }
        }
        // The client connects one after the other; their cookies may arrive in another order.
        streams.sort_unstable_by_key(|entered| entered.number);
        let ways = params.ways().zip(streams);
        Ok(ways.map(|(client_sends, entered)| (!client_sends, Carrier::Stream(entered.stream))).collect())
    }

    /// Turns away other clients during a test.
    async fn deny(&mut self) -> Result<std::convert::Infallible, Failure> {
        loop {
            match self.next().await? {
                Some(entered) => deny(entered.stream),
                None => std::future::pending().await,
            }
        }
    }
}

/// Says that another test runs.
fn deny(mut stream: Stream) {
    tokio::spawn(async move {
        let goodbye = async {
            State::AccessDenied.write(&mut stream).await?;
            stream.shutdown().await
        };
        let _ = timeout(GOODBYE_MAX, goodbye).await;
    });
}

/// The server of one test.
struct Server {
    session: &'static Session,
    zerocopy: bool,
    control: Stream,
}

impl Server {
    async fn test(&mut self, lobby: &mut Lobby, cookie: Cookie) -> Result<Figures, Failure> {
        let session = self.session;
        // A client that vanishes is noticed.
        self.control.guard().map_err(|error| session.net.failure("watching the client", &error))?;
        self.say(State::ParamExchange).await?;
        let mut params =
            step(session, "client", "reading the parameters", Params::read(&mut self.control)).await?;
        if params.len == 0 {
            params.len = if params.udp { DATAGRAM_LEN } else { BLOCK_LEN };
        }
        let settings = match self.settings(&params) {
            Ok(settings) => settings,
            Err((number, what)) => return Err(self.refuse(number, what).await),
        };
        let mut port = match self.port(&params).await {
            Ok(port) => port,
            Err((number, what)) => return Err(self.refuse(number, what).await),
        };
        self.say(State::CreateStreams).await?;
        let coming = async {
            match &mut port {
                None => lobby.streams(cookie, &params).await,
                Some(port) => tokio::select! {
                    links = port.links(&params) => {
                        let links = links.map_err(|error| session.net.failure("taking its streams", &error))?;
                        Ok(links.into_iter().map(|(sends, link)| (sends, Carrier::Datagrams(link))).collect())
                    }
                    denied = lobby.deny() => match denied? {},
                },
            }
        };
        let streams = tokio::select! {
            streams = timeout(STEP_MAX, coming) => streams.map_err(|_| {
                Failure::new(Exit::Unreachable, format!("its streams did not come within {STEP_MAX:?}"))
            })??,
            said = State::read(&mut self.control) => return Err(left(session, said)),
        };
        self.say(State::TestStart).await?;
        self.say(State::TestRunning).await?;

        let mut flows = Flows::start(session, streams, &settings);
        tokio::select! {
            biased;
            ran = self.run(&mut flows, &params) => ran?,
            denied = lobby.deny() => match denied? {},
        }
        flows.stop(settings.counts_late).await;
        self.say(State::ExchangeResults).await?;
        let peers = step(session, "client", "reading the results", Results::read(&mut self.control)).await?;
        let own = flows.results();
        step(session, "client", "sending the results", own.write(&mut self.control)).await?;
        self.say(State::DisplayResults).await?;
        // The client closes the streams before it says that it is done; an older one just closes.
        let _ = timeout(STEP_MAX, State::read(&mut self.control)).await;
        let figures = Figures::new(&flows, &own, &peers);
        flows.close(session).await;
        Ok(figures)
    }

    /// Waits for the client to end the run.
    async fn run(&mut self, flows: &mut Flows, params: &Params) -> Result<(), Failure> {
        let started = Instant::now();
        let counts_from = started + Duration::from_secs(params.omit.min(OMIT_MAX));
        let ends = (params.time > 0).then(|| {
            let time = params.time.saturating_add(params.omit).min(TIME_MAX);
            started + Duration::from_secs(time) + STEP_MAX
        });
        let mut omits = params.omit > 0;
        loop {
            tokio::select! {
                biased;
                state = State::read(&mut self.control) => return match state {
                    Ok(State::TestEnd) => Ok(()),
                    other => Err(left(self.session, other)),
                },
                () = sleep_until(counts_from), if omits => {
                    omits = false;
                    flows.restart();
                }
                () = sleep_until(ends.unwrap_or(started)), if ends.is_some() => {
                    return Err(silent("client"));
                }
                finished = flows.finished() => {
                    // The client says why, or is gone.
                    let said = timeout(GOODBYE_MAX, State::read(&mut self.control)).await;
                    return match (said, finished) {
                        (Ok(Ok(State::TestEnd)), _) => Ok(()),
                        (Ok(Ok(state)), _) => Err(left(self.session, Ok(state))),
                        (_, Err(error)) => Err(failure(self.session, "moving data", ProtocolError::Io(error))),
                        _ => Err(silent("client")),
                    };
                }
            }
        }
    }

    /// The client's request, or iperf3's number for the mistake in it.
    fn settings(&self, params: &Params) -> Result<Settings, (u32, String)> {
        const NOT_IMPLEMENTED: u32 = 13;
        const TOO_MANY_STREAMS: u32 = 6;
        const BLOCK_TOO_LONG: u32 = 7;
        if params.tcp == params.udp || params.sctp {
            return Err((NOT_IMPLEMENTED, "it asks for SCTP; only TCP and UDP are measured here".to_owned()));
        }
        if !(1..=u64::from(STREAMS_MAX)).contains(&params.parallel) {
            let what =
                format!("it asks for {} streams; from 1 to {STREAMS_MAX} are possible", params.parallel);
            return Err((TOO_MANY_STREAMS, what));
        }
        let len = params.len;
        if params.udp && !(DATAGRAM_MIN as u64..=DATAGRAM_MAX as u64).contains(&len) {
            let what = format!(
                "it asks for datagrams of {len} bytes; from {DATAGRAM_MIN} to {DATAGRAM_MAX} are possible"
            );
            return Err((DATAGRAM_LENGTH, what));
        }
        if len > BLOCK_MAX {
            let what = format!("it asks for blocks of {len} bytes; at most {BLOCK_MAX} are possible");
            return Err((BLOCK_TOO_LONG, what));
        }
        Ok(Settings {
            len: usize::try_from(len).unwrap_or(usize::MAX),
            rate: Some(params.bandwidth).filter(|&rate| rate > 0),
            // The client ends the run when it has, or has sent, enough.
            bytes: None,
            zerocopy: self.zerocopy,
            counts_late: true,
        })
    }

    /// The port that the streams of a test over UDP share, or iperf3's number for why there is none.
    async fn port(&self, params: &Params) -> Result<Option<Port>, (u32, String)> {
        const NO_LISTENER: u32 = 202;
        if !params.udp {
            return Ok(None);
        }
        let port = Port::open(self.session, &self.control, params.ways().count()).await;
        let port = port.map_err(|failure| (NO_LISTENER, failure.to_string()))?;
        let (len, max) = (params.len, port.payload_max() as u64);
        if len > max && params.ways().any(|client_sends| !client_sends) {
            let what = format!("it asks for datagrams of {len} bytes; at most {max} fit a packet to it");
            return Err((DATAGRAM_LENGTH, what));
        }
        Ok(Some(port))
    }

    async fn say(&mut self, state: State) -> Result<(), Failure> {
        let said = state.write(&mut self.control).await;
        said.map_err(|error| self.session.net.failure("answering the client", &error))
    }

    /// Tells the client that the test cannot be.
    async fn refuse(&mut self, number: u32, what: String) -> Failure {
        let goodbye = async {
            State::ServerError.write(&mut self.control).await?;
            self.control.write_u32(number).await?;
            self.control.write_u32(0).await?;
            self.control.flush().await
        };
        let _: Result<io::Result<()>, _> = timeout(GOODBYE_MAX, goodbye).await;
        Failure::new(Exit::Failed, what)
    }

    /// Closes the control connection in order.
    async fn leave(mut self) {
        self.session.observer.ended(&self.control);
        let _ = self.control.finish();
        let _ = timeout(GOODBYE_MAX, self.control.shutdown()).await;
    }
}

/// Why a client does not go on.
fn left(session: &Session, said: Result<State, ProtocolError>) -> Failure {
    match said {
        Ok(State::ClientTerminate) => Failure::new(Exit::Failed, "the client was ended"),
        Ok(state) => Failure::new(Exit::Failed, format!("the client said {state:?} out of turn")),
        Err(error) => failure(session, "waiting for the client", error),
    }
}

/// Iperf3's number for datagrams that are too short or too long.
const DATAGRAM_LENGTH: u32 = 20;

/// How many connections without a cookie are listened to at once.
const LOBBY_MAX: usize = 256;

/// How long a connection may take for its cookie.
const COOKIE_MAX: Duration = Duration::from_secs(10);

/// How long a goodbye may take.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// Iperf3's limits, in seconds.
const OMIT_MAX: u64 = 600;
const TIME_MAX: u64 = 86_400;
