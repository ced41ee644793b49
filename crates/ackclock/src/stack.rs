//! The methods of [`Stack`].

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::Poll;
use std::time::Duration;

#[cfg(feature = "tcp-ao")]
use ackclock_core::KeyChain;
use ackclock_core::trace::Batch;
use ackclock_core::{ConnectionInfo, Counters, FourTuple, Instant, KnownPath, ListenAddr, TcpConfig};

use crate::build_error::check_address;
use crate::info::{StackInfo, info};
use crate::others::channel;
use crate::shared::Shared;
use crate::state::{Queue, StackState, check_families};
use crate::stream::open;
use crate::{
    Cidr, ListenerBuilder, Metrics, OtherReceiver, OtherSender, PingReceiver, RecordingInfo, Stack,
    StackBuilder, TcpListener, TcpSocket, TcpStream, UdpSocket, Warnings, metrics, recording, resolve,
};

impl Stack {
    /// Starts building a stack.
    pub fn builder() -> StackBuilder {
        StackBuilder::new()
    }

    /// Opens a connection to `addr`. The stack chooses its own address and port. Use [`socket`](Self::socket)
    /// to choose more, and `tokio::time::timeout` to wait for less than the three minutes that RFC 9293 asks
    /// for. [`TcpStream::connect`] takes names.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the attempt; nothing is left behind.
    ///
    /// # Errors
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused), [`TimedOut`](io::ErrorKind::TimedOut),
    /// [`HostUnreachable`](io::ErrorKind::HostUnreachable) from the network;
    /// [`NetworkUnreachable`](io::ErrorKind::NetworkUnreachable) also if no route leads there,
    /// [`AddrNotAvailable`](io::ErrorKind::AddrNotAvailable) if the stack has no address of the family or all
    /// ports are taken; `NetworkUnreachable` for an address that no peer can have and `ConnectionRefused` for
    /// port 0, both without sending a packet (an unspecified address is this host's);
    /// [`QuotaExceeded`](io::ErrorKind::QuotaExceeded) if there are too many connections.
    #[doc(alias = "dial")]
    pub async fn connect(&self, addr: SocketAddr) -> io::Result<TcpStream> {
        open(&self.shared, addr, (None, 0), None)?.connected().await
    }

    /// Listens on an address and port. An unspecified address stands for any, even one that the stack was not
    /// given: `0.0.0.0` for any IPv4 address, `::` for any of either family. Port 0 stands for a free one.
    ///
    /// # Errors
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) if another listener or bound socket has it, on a wildcard
    /// address or a specific one, [`AddrNotAvailable`](io::ErrorKind::AddrNotAvailable) if it is not an
    /// address of the stack, [`QuotaExceeded`](io::ErrorKind::QuotaExceeded) if there are too many listeners.
    #[doc(alias = "bind")]
    pub fn listen(&self, addr: SocketAddr) -> io::Result<TcpListener> {
        self.listener().addr(addr).bind()
    }

    /// Listens on every address and port without another listener, even on addresses that the stack was not
    /// given, as a proxy or a VPN needs. A stream's [`local_addr`](TcpStream::local_addr) is the destination
    /// that the client dialled.
    ///
    /// ```
    /// # use ackclock::Stack;
    /// # use ackclock::device::memory;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (left, right) = memory::pair(memory::Config::default());
    /// # let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
    /// # let gateway = Stack::builder().device(right).spawn()?;
    /// let listener = gateway.listen_any()?;
    /// let _dialled = client.connect("203.0.113.5:443".parse()?).await?;
    ///
    /// let (stream, peer) = listener.accept().await?;
    /// assert_eq!(stream.local_addr()?, "203.0.113.5:443".parse()?);
    /// assert_eq!(peer.ip().to_string(), "10.0.0.1");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`listen`](Self::listen).
    #[doc(alias = "listen_all")]
    #[doc(alias = "any_ip")]
    #[doc(alias = "tproxy")]
    pub fn listen_any(&self) -> io::Result<TcpListener> {
        self.listener().bind()
    }

    /// Builds a listener with more options; on any address and port by default.
    #[doc(alias = "TcpListenerBuilder")]
    pub fn listener(&self) -> ListenerBuilder {
        ListenerBuilder::new(self.shared.clone())
    }

    /// The addresses of a name: those that the stack was given ([`StackBuilder::hosts`]); or, IPv6 first,
    /// those from its name servers (`StackBuilder::name_servers`); or, if it has neither and the feature
    /// `resolve` is enabled, from the host's resolver.
    ///
    /// [`StackBuilder::hosts`]: crate::StackBuilder::hosts
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`NotFound`](io::ErrorKind::NotFound) if there is no address, [`TimedOut`](io::ErrorKind::TimedOut) if
    /// no name server answers, [`Unsupported`](io::ErrorKind::Unsupported) if this stack cannot resolve
    /// names.
    #[doc(alias = "lookup_host")]
    #[doc(alias = "resolve")]
    pub async fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if let Ok(literal) = host.parse() {
            return Ok(vec![literal]);
        }
        let found = resolve::addresses(self, host, 0).await?;
        Ok(found.into_iter().map(|addr| addr.ip()).collect())
    }

    /// Makes a socket, whose options are set before it connects or listens.
    #[must_use]
    pub fn socket(&self) -> TcpSocket {
        TcpSocket::new(self.shared.clone(), self.shared.look(|state| state.tcp.clone()))
    }

    /// Binds a UDP socket to an address and port. An unspecified address (`0.0.0.0` or `::`) stands for any
    /// of either family, even one that the stack was not given. Port 0 stands for a free one.
    ///
    /// # Errors
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) if another socket has it,
    /// [`AddrNotAvailable`](io::ErrorKind::AddrNotAvailable) if it is not an address of the stack,
    /// [`QuotaExceeded`](io::ErrorKind::QuotaExceeded) if there are too many sockets.
    #[doc(alias = "bind")]
    #[doc(alias = "bind_udp")]
    pub fn udp(&self, addr: SocketAddr) -> io::Result<UdpSocket> {
        UdpSocket::new(&self.shared, addr.into())
    }

    /// Binds a UDP socket to every address and port that no other socket has, even to addresses that the
    /// stack was not given, as a proxy or a VPN needs. [`UdpSocket::recv_meta`] returns the destination that
    /// the client dialled, and [`UdpSocket::send_transmit`] answers from there.
    ///
    /// ```
    /// use ackclock::{Stack, UdpSocket, UdpTransmit};
    /// # use ackclock_device::memory;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (left, right) = memory::pair(memory::Config::default());
    /// # let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
    /// # let proxy = Stack::builder().device(right).spawn()?;
    /// async fn answer(any: UdpSocket) -> std::io::Result<()> {
    ///     let mut buf = vec![0; 65_535];
    ///     loop {
    ///         let meta = any.recv_meta(&mut buf).await?;
    ///         let answer = format!("you called {}", meta.to);
    ///         let transmit = UdpTransmit::new(answer.as_bytes(), Some(meta.from));
    ///         any.send_transmit(&UdpTransmit { from: Some(meta.to), ..transmit }).await?;
    ///     }
    /// }
    /// tokio::spawn(answer(proxy.udp_any()?));
    ///
    /// let socket = client.udp("0.0.0.0:0".parse()?)?;
    /// socket.connect("203.0.113.7:53".parse()?).await?;
    /// socket.send(b"hello").await?;
    /// let mut buf = [0; 100];
    /// let len = socket.recv(&mut buf).await?;
    /// assert_eq!(&buf[..len], b"you called 203.0.113.7:53");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`udp`](Self::udp).
    pub fn udp_any(&self) -> io::Result<UdpSocket> {
        UdpSocket::new(&self.shared, ListenAddr::default())
    }

    /// The two ends of the channel of other packets, if
    /// [`StackBuilder::other_packets`](crate::StackBuilder::other_packets) asked for it and they have not
    /// been taken. Both count as handles of the stack.
    #[must_use]
    pub fn other_packets(&self) -> Option<(OtherSender, OtherReceiver)> {
        self.shared.call(|state, _| std::mem::take(&mut state.others.free)).then(|| channel(&self.shared))
    }

    /// The pings to addresses that are not the stack's own, if
    /// [`StackBuilder::pings`](crate::StackBuilder::pings) asked for
    /// [`PingPolicy::Deferred`](crate::PingPolicy::Deferred) and they have not been taken. The receiver
    /// counts as a handle of the stack.
    #[must_use]
    pub fn pings(&self) -> Option<PingReceiver> {
        let free = self.shared.call(|state, _| std::mem::take(&mut state.pings.free));
        free.then(|| PingReceiver::new(self.shared.clone()))
    }

    /// The settings of connections and listeners that name none of their own, including the profile: a
    /// starting point for changes.
    #[must_use]
    pub fn config(&self) -> TcpConfig {
        self.shared.look(|state| state.tcp.clone())
    }

    /// The stack's addresses, connections and use of resources.
    #[must_use]
    pub fn info(&self) -> StackInfo {
        info(&self.shared)
    }

    /// The present time on the stack's clock. Trace records use the same epoch, but leave out the time during
    /// which the process was paused.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.shared.now()
    }

    /// The paths that connections have measured, with which the next ones begin
    /// ([`StackBuilder::path_cache`]): an entry for each pair of addresses and each queue. Empty without a
    /// cache.
    #[must_use]
    pub fn known_paths(&self) -> Vec<KnownPath> {
        let of = |shard: &Shared| shard.look(|state| state.endpoint.known_paths(shard.now()));
        self.shared.all().iter().flat_map(of).collect()
    }

    /// Counters of what the stack received, sent and refused.
    #[must_use]
    #[doc(alias = "stats")]
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }

    /// The counters of each queue. A packet that arrived on another queue than its connection's is counted
    /// there as handed over ([`Counters::strays_handed_over`]), and at the connection's queue as taken
    /// ([`Counters::strays_taken`]); with one queue both stay zero.
    #[must_use]
    pub fn queue_counters(&self) -> Vec<Counters> {
        self.shared.all().iter().map(Shared::counters).collect()
    }

    /// The stack's counters and gauges by name; displayed, in the format of Prometheus. Looks at every
    /// connection.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        metrics::of(&self.shared)
    }

    /// All connections, including those that close in the background: what `ss -ti` lists.
    #[must_use]
    #[doc(alias = "sockets")]
    pub fn connections(&self) -> Vec<(FourTuple, ConnectionInfo)> {
        let now = self.shared.now();
        let of_shard = |shard: &Shared| {
            shard.look(|state| {
                let connections = state.endpoint.connections();
                connections
                    .map(|(_, connection)| (connection.tuple(), state.info(now, connection)))
                    .collect::<Vec<_>>()
            })
        };
        self.shared.all().iter().flat_map(of_shard).collect()
    }

    /// The next records of traced connections; `None` once the stack is down and all were fetched.
    ///
    /// A connection is traced if [`StackBuilder::trace`](crate::StackBuilder::trace) or
    /// [`flight_recorder`](crate::StackBuilder::flight_recorder),
    /// [`TcpSocket::set_trace`](crate::TcpSocket::set_trace) or
    /// [`TcpStream::set_trace`](crate::TcpStream::set_trace) asks for it. Whole traces arrive in batches,
    /// each time the buffer set aside for records is full, and at the end of the connection. A flight
    /// recorder's records arrive when the connection fails, when its retransmission timer has expired three
    /// times in a row, and on request ([`request_traces`](Self::request_traces)).
    /// [`Entry::decode`](crate::trace::Entry::decode) decodes a record; `ackclock-trace` writes records to
    /// files. Fetch them on a separate task: up to 64 MiB wait, and beyond that they are dropped and counted.
    /// The task's `Stack` counts as a handle, so use [`shutdown`](Self::shutdown) to close the stack.
    ///
    /// ```
    /// use ackclock::Stack;
    /// use ackclock::trace::{BatchCause, Entry, Failure};
    /// # use ackclock_device::memory;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (left, right) = memory::pair(memory::Config::default());
    /// # let _server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
    /// let stack = Stack::builder().device(left).address("10.0.0.1/24".parse()?).flight_recorder(1000).spawn()?;
    /// // No listener is there.
    /// assert!(stack.connect("10.0.0.2:80".parse()?).await.is_err());
    ///
    /// let batch = stack.next_trace().await.expect("the stack is up");
    /// assert_eq!(batch.cause, BatchCause::Failed);
    /// let why = batch.records.last().and_then(|&record| Entry::decode(record));
    /// assert_eq!(why, Some(Entry::Failed(Failure::Refused)));
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Cancel-safe: nothing is taken by a future that is dropped before it is ready.
    pub async fn next_trace(&self) -> Option<Batch> {
        let mut ended = vec![false; self.shared.all().len()];
        let attempt = |index: usize, state: &mut StackState, _| match state.poll_trace() {
            Poll::Ready(None) => {
                ended[index] = true;
                if ended.iter().all(|ended| *ended) { Poll::Ready(None) } else { Poll::Pending }
            }
            next => next,
        };
        self.shared.wait_any(0, |_| Queue::Traces, attempt).await.1
    }

    /// Makes all traced connections hand over their records to [`next_trace`](Self::next_trace).
    pub fn request_traces(&self) {
        self.shared.each(|state, _| state.endpoint.request_traces());
    }

    /// The state of the recording, or `None` if [`StackBuilder::record`](crate::StackBuilder::record) did not
    /// ask for one.
    #[must_use]
    pub fn recording(&self) -> Option<RecordingInfo> {
        self.shared.look(recording::info)
    }

    /// Problems that the stack notices but no error reports: wait for them with [`Warnings::next`].
    #[must_use]
    pub fn warnings(&self) -> Warnings {
        Warnings::new(self.shared.uncounted())
    }

    #[cfg(feature = "tcp-ao")]
    /// Sets the keys that this stack shares with a peer. From now on all its connections with that address
    /// are signed and verified; `None`: none are. A connection that was opened without keys does not survive
    /// being given some. [`Counters::dropped_unauthenticated`](crate::Counters) counts segments dropped for
    /// their signature.
    pub fn set_keys(&self, peer: IpAddr, chain: Option<KeyChain>) {
        self.shared.each(|state, _| state.endpoint.set_keys(peer, chain.clone()));
    }

    /// Adds a local address, or changes the prefix of an existing one.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if no host can have this address.
    #[doc(alias = "update_ip_addrs")]
    pub fn add_address(&self, address: Cidr) -> io::Result<()> {
        check_address(&address)?;
        self.shared.each(|state, _| state.network.add_address(&mut state.endpoint, address));
        Ok(())
    }

    /// Removes a local address. Returns whether it existed. Its connections continue; listeners and UDP
    /// sockets on it receive nothing more.
    pub fn remove_address(&self, address: IpAddr) -> bool {
        self.shared.each(|state, _| state.network.remove_address(&mut state.endpoint, address))
    }

    /// Sets whether new connections use a local IPv6 address only if no other has its scope (RFC 6724 §5
    /// rule 3), as for one that will soon be removed. Returns whether the address exists. An IPv4 address is
    /// always preferred (§3.2): the call changes nothing then and returns `false`.
    pub fn set_deprecated(&self, address: IpAddr, deprecated: bool) -> bool {
        self.shared.each(|state, _| state.network.set_deprecated(&mut state.endpoint, address, deprecated))
    }

    /// Adds a route: see [`StackBuilder::route`](crate::StackBuilder::route). From the first route on, the
    /// device no longer serves every destination.
    #[doc(alias = "routes_mut")]
    pub fn add_route(&self, destination: Cidr) {
        self.shared.each(|state, _| state.network.add_route(&mut state.endpoint, destination, None));
    }

    /// Adds a route whose destinations are reached from this local address: see
    /// [`StackBuilder::route_from`](crate::StackBuilder::route_from).
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the two are of different families.
    pub fn add_route_from(&self, destination: Cidr, source: IpAddr) -> io::Result<()> {
        check_families(destination, source)?;
        self.shared.each(|state, _| state.network.add_route(&mut state.endpoint, destination, Some(source)));
        Ok(())
    }

    /// Removes a route. Returns whether it existed. Connections continue. Without the last one, only the
    /// networks of local addresses can be reached; [`clear_routes`](Self::clear_routes) sends every
    /// destination to the device again.
    pub fn remove_route(&self, destination: Cidr) -> bool {
        self.shared.each(|state, _| state.network.remove_route(&mut state.endpoint, destination))
    }

    /// Removes all routes: every destination goes to the device.
    pub fn clear_routes(&self) {
        self.shared.each(|state, _| state.network.clear_routes(&mut state.endpoint));
    }

    /// Bounds the size of IP packets sent, in bytes; `None`: the device's MTU. Existing connections follow.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) below 576 bytes (RFC 1122 §3.3.3), or below 1,280 where
    /// the stack has an IPv6 address (RFC 8200 §5).
    pub fn set_mtu(&self, mtu: Option<usize>) -> io::Result<()> {
        self.shared.each(|state, now| state.network.set_mtu_max(&mut state.endpoint, now, mtu))
    }

    /// Resets every connection, as [`TcpStream::abort`](crate::TcpStream::abort) does: each peer learns that
    /// its data is incomplete. The stack itself continues.
    pub fn abort(&self) {
        self.shared.each(StackState::abort_all);
    }

    /// Drains the stack for a restart: listeners end at once, connections that wait to be accepted are reset,
    /// and new ones are refused in both directions. Existing connections continue unchanged until their
    /// programs end them. Those that have not ended `within` this time are reset; then the device is dropped.
    /// Returns how many were reset; data that had arrived on the others can still be read.
    ///
    /// New connections and listeners fail with [`StackError::Draining`](crate::StackError::Draining). A
    /// second call can only shorten the time; [`shutdown`](Self::shutdown) closes the remaining connections
    /// itself. UDP sockets work to the end and do not delay it.
    ///
    /// ```
    /// # use ackclock::Stack;
    /// # use ackclock::device::memory;
    /// # use std::time::Duration;
    /// # use tokio::io::{AsyncReadExt, AsyncWriteExt};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (left, right) = memory::pair(memory::Config::default());
    /// # let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
    /// # let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
    /// let listener = server.listen("10.0.0.2:80".parse()?)?;
    /// let mut stream = client.connect("10.0.0.2:80".parse()?).await?;
    /// let (mut accepted, _) = listener.accept().await?;
    ///
    /// let drained = tokio::spawn(async move { server.drain(Duration::from_secs(30)).await });
    /// assert!(listener.accept().await.is_err());
    ///
    /// // The request in progress completes.
    /// accepted.write_all(b"the answer").await?;
    /// drop(accepted);
    /// let mut answer = Vec::new();
    /// stream.read_to_end(&mut answer).await?;
    /// drop(stream);
    /// assert_eq!((answer, drained.await??), (b"the answer".to_vec(), 0));
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Cancel-safe; once polled, the stack drains even if the future is dropped.
    ///
    /// # Errors
    /// The stack ended in another way meanwhile: the device failed, the runtime was shut down.
    #[doc(alias = "graceful_shutdown")]
    #[doc(alias = "wait_idle")]
    pub async fn drain(&self, within: Duration) -> io::Result<usize> {
        self.shared.each(|state, now| state.begin_drain(now, within));
        self.shared.wake_drivers();
        let mut reset = 0;
        for shard in self.shared.all() {
            reset += shard.wait(Queue::Down, |state, _| state.poll_drained()).await?;
        }
        Ok(reset)
    }

    /// Waits until the stack takes no new connections: it drains, closes or is gone. Use it to end a server
    /// that would otherwise wait for connections for ever (`axum::serve(..).with_graceful_shutdown(async move
    /// { stack.closing().await })`).
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn closing(&self) {
        self.shared.wait(Queue::Closing, |state, _| state.poll_closing()).await;
    }

    /// Closes the stack and waits until it is closed. Listeners end, and the sending side of every connection
    /// is closed after the data already written. Once all connections have finished, or the builder's
    /// [`close_timeout`](crate::StackBuilder::close_timeout) has passed, the device is dropped. Until then
    /// streams can be read. Afterwards every call fails with [`StackError`](crate::StackError) inside an
    /// error of kind [`NetworkDown`](io::ErrorKind::NetworkDown).
    ///
    /// # Cancel safety
    /// Cancel-safe; once polled, the stack closes even if the future is dropped.
    #[doc(alias = "close")]
    pub async fn shutdown(&self) {
        self.shared.each(StackState::begin_close);
        self.shared.wake_drivers();
        for shard in self.shared.all() {
            shard.wait(Queue::Down, |state, _| state.poll_down()).await;
        }
    }
}
