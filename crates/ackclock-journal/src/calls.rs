//! The calls that change an endpoint or one of its connections, as values: what is recorded, and what a
//! replay makes again.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ackclock_wire::{ChecksumState, Codepoint, Egress, IpPacket, IpPayload, Route, RxMeta, Segment};
use bytes::Bytes;

use super::outcome::ResultCode;
use super::value::Value;
use crate::{RecordedConnection, RecordedEndpoint};
use ackclock_core::congestion::ControllerFactory;
use ackclock_core::profile::{AckPolicy, Recovery, UndoChoice};
use ackclock_core::rtt::RtoConfig;
use ackclock_core::trace::TraceConfig;
use ackclock_core::{
    BindOptions, BoundId, ConnectError, Connection, ConnectionError, ConnectionId, Decision, Endpoint,
    IcmpError, IncomingId, Instant, Keepalive, Limits, ListenError, ListenOptions, ListenerId, LocalAddress,
    OptionError, OtherError, OtherPacket, Ping, PingAnswer, ReadError, RxPacket, TcpConfig, UdpId, UdpMeta,
    UdpOptions, UdpSocketError, UdpTransmit, WriteError,
};
use ackclock_form::{FormError, Reader, Writer};

/// Declares each call once: its number in a file, the method of the recorded endpoint or connection that
/// makes it, what is noted of it, and how a replay makes it again.
///
/// - `plain` calls are noted with their arguments, and made again with them.
/// - `other` calls say what is noted, and how they are made again.
/// - `apart` calls have a method of their own, and say how they are made again.
/// - `read` calls have a method of their own; the replay makes them again.
macro_rules! calls {
    (
        $(#[$meta:meta])*
        $name:ident of $target:ident at $now:ident in $recorded:ty;
        plain {$(
            $code:literal $call:ident = $method:ident $([$at:ident])? ($($arg:ident: $type:ty),*) $(-> $result:ty)?;
        )*}
        other {$(
            $other_code:literal $other:ident { $($field:ident: $field_type:ty = $noted:expr),* $(,)? }
            = $other_method:ident $([$other_at:ident])?
                ($($other_arg:ident: $other_type:ty),*) $(-> $other_result:ty)?
            => |$on:ident| $again:expr;
        )*}
        apart {$(
            $apart_code:literal $apart:ident $({ $($apart_field:ident: $apart_type:ty),* })?
            => |$apart_on:ident| $apart_again:expr;
        )*}
        read {$( $read_code:literal $read:ident { $($read_field:ident: $read_type:ty),* }; )*}
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub(super) enum $name {
            $($call { $($arg: $type),* },)*
            $($other { $($field: $field_type),* },)*
            $($apart $({ $($apart_field: $apart_type),* })?,)*
            $($read { $($read_field: $read_type),* },)*
        }

        impl $name {
            /// Appends the call.
            pub(super) fn put(&self, out: &mut Writer) {
                match self {
                    $(Self::$call { $($arg),* } => {
                        out.push($code);
                        $($arg.put(out);)*
                    })*
                    $(Self::$other { $($field),* } => {
                        out.push($other_code);
                        $($field.put(out);)*
                    })*
                    $(Self::$apart $({ $($apart_field),* })? => {
                        out.push($apart_code);
                        $($($apart_field.put(out);)*)?
                    })*
                    $(Self::$read { $($read_field),* } => {
                        out.push($read_code);
                        $($read_field.put(out);)*
                    })*
                }
            }

            /// Reads the call with this code; `None` if none has it.
            pub(super) fn take(code: u8, input: &mut Reader<'_>) -> Result<Option<Self>, FormError> {
                Ok(Some(match code {
                    $($code => Self::$call { $($arg: Value::take(input)?),* },)*
                    $($other_code => Self::$other { $($field: Value::take(input)?),* },)*
                    $($apart_code => Self::$apart $({ $($apart_field: Value::take(input)?),* })?,)*
                    $($read_code => Self::$read { $($read_field: Value::take(input)?),* },)*
                    _ => return Ok(None),
                }))
            }

            /// Makes the call again. Returns what the caller learnt of it, as a number.
            pub(super) fn apply(self, target: &mut $target, $now: Instant) -> Option<u64> {
                match self {
                    $(Self::$call { $($arg),* } => target.$method($($at,)? $($arg),*).code(),)*
                    $(Self::$other { $($field),* } => {
                        let $on = target;
                        $again.code()
                    })*
                    $(Self::$apart $({ $($apart_field),* })? => {
                        let $apart_on = target;
                        $apart_again.code()
                    })*
                    $(Self::$read { .. } => None,)*
                }
            }

            /// The codes of all calls.
            #[cfg(test)]
            pub(super) const CODES: &[u8] =
                &[$($code,)* $($other_code,)* $($apart_code,)* $($read_code,)*];
        }

        impl $recorded {
            $(
                #[doc = concat!("See [`", stringify!($target), "::", stringify!($method), "`].")]
                #[inline]
                pub fn $method(&mut self $(, $at: Instant)? $(, $arg: $type)*) $(-> $result)? {
                    let at = Option::<Instant>::None $(.or(Some($at)))?;
                    let call = self.is_recorded().then(|| $name::$call { $($arg: Clone::clone(&$arg)),* });
                    self.make(at, call, |target| target.$method($($at,)? $($arg),*))
                }
            )*
            $(
                #[doc = concat!("See [`", stringify!($target), "::", stringify!($other_method), "`].")]
                #[inline]
                pub fn $other_method(
                    &mut self $(, $other_at: Instant)? $(, $other_arg: $other_type)*
                ) $(-> $other_result)? {
                    let at = Option::<Instant>::None $(.or(Some($other_at)))?;
                    let call = self.is_recorded().then(|| $name::$other { $($field: $noted),* });
                    self.make(at, call, |target| target.$other_method($($other_at,)? $($other_arg),*))
                }
            )*
        }
    };
}

calls! {
    /// A call of an endpoint.
    Call of Endpoint at now in RecordedEndpoint;
    plain {
        20 Connect = connect[now](remote: SocketAddr, local: (Option<IpAddr>, u16), tcp: Option<TcpConfig>)
            -> Result<ConnectionId, ConnectError>;
        22 Listen = listen[now](options: ListenOptions) -> Result<ListenerId, ListenError>;
        23 ListenBound = listen_bound[now](bound: BoundId, options: ListenOptions)
            -> Result<ListenerId, ListenError>;
        24 Bind = bind[now](options: BindOptions) -> Result<BoundId, ListenError>;
        25 BindAs = bind_as(id: BoundId, options: BindOptions) -> Result<(), ListenError>;
        26 ReleaseBound = release_bound(id: BoundId);
        27 CloseListener = close_listener[now](id: ListenerId);
        29 Accept = accept_decided[now](id: ListenerId) -> Option<(ConnectionId, Option<IncomingId>)>;
        30 Decide = decide[now](id: IncomingId, decision: Decision) -> bool;
        31 Release = release[now](id: ConnectionId);
        32 ResetOrphans = reset_orphans[now]();
        33 SetMtu = set_mtu[now](mtu: usize);
        34 SetLinkRoutes = set_link_routes[now](routes: Vec<Route<Egress>>);
        35 SetLocalAddresses = set_local_addresses(addresses: Vec<LocalAddress>, broadcast: Vec<IpAddr>);
        36 SetSourceRoutes = set_source_routes(routes: Vec<Route<IpAddr>>);
        37 RequestTraces = request_traces();
        38 EndTraces = end_traces();
        39 PollOther = poll_other() -> Option<OtherPacket>;
        40 HasOtherRoom = has_other_room() -> bool;
        42 CloseOthers = close_others();
        43 UdpBind = udp_bind[now](options: UdpOptions) -> Result<UdpId, UdpSocketError>;
        44 UdpClose = udp_close(id: UdpId);
        45 UdpConnect = udp_connect(id: UdpId, remote: Option<SocketAddr>) -> Result<(), UdpSocketError>;
        49 UdpIsWritable = udp_is_writable(id: UdpId) -> Result<bool, UdpSocketError>;
        50 UdpTakeError = udp_take_error(id: UdpId) -> Result<(), UdpSocketError>;
        51 UdpSetTtl = udp_set_ttl(id: UdpId, ttl: Option<u8>) -> Result<(), UdpSocketError>;
        52 UdpSetTrafficClass = udp_set_traffic_class(id: UdpId, traffic_class: u8)
            -> Result<(), UdpSocketError>;
        53 SetBehind = set_behind(behind: bool);
        55 OpenWindows = open_windows[now](bytes: u64);
        56 PollPing = poll_ping() -> Option<Ping>;
        57 ClosePings = close_pings();
        59 UdpSetFragments = udp_set_fragments(id: UdpId, wanted: bool) -> Result<(), UdpSocketError>;
        61 UdpJoin = udp_join(id: UdpId, group: IpAddr) -> Result<(), UdpSocketError>;
        62 UdpLeave = udp_leave(id: UdpId, group: IpAddr) -> Result<(), UdpSocketError>;
        63 TakeGroups = take_groups() -> Option<Vec<IpAddr>>;
    }
    other {
        21 ConnectWithData {
            remote: SocketAddr = remote, local: (Option<IpAddr>, u16) = local,
            tcp: Option<TcpConfig> = tcp.clone(), len: usize = data.len(),
        } = connect_with_data[now](
            remote: SocketAddr, local: (Option<IpAddr>, u16), tcp: Option<TcpConfig>, data: &[u8]
        ) -> Result<(ConnectionId, usize), ConnectError>
            => |endpoint| endpoint.connect_with_data(now, remote, local, tcp, &zeros(len));
        41 SendOther { bytes: Vec<u8> = packet.bytes.clone(), meta: RxMeta = packet.meta }
            = send_other[now](packet: &OtherPacket) -> Result<(), OtherError>
            => |endpoint| endpoint.send_other(now, &OtherPacket { bytes, meta });
        58 AnswerPing { packet: Vec<u8> = ping.packet().to_vec(), answer: PingAnswer = answer }
            = answer_ping[now](ping: &Ping, answer: PingAnswer) -> bool
            => |endpoint| Ping::parse(packet).is_some_and(|ping| endpoint.answer_ping(now, &ping, answer));
        46 UdpSend {
            id: UdpId = id, len: usize = transmit.contents.len(), to: Option<SocketAddr> = transmit.to,
            from: Option<SocketAddr> = transmit.from, segment_size: Option<usize> = transmit.segment_size,
            ecn: Codepoint = transmit.ecn,
        } = udp_send[now](id: UdpId, transmit: &UdpTransmit<'_>) -> Result<usize, UdpSocketError>
            => |endpoint| {
                let transmit = UdpTransmit { contents: &zeros(len), to, from, segment_size, ecn };
                endpoint.udp_send(now, id, &transmit)
            };
        47 UdpReceive { id: UdpId = id, len: usize = buf.len(), many: bool = many }
            = udp_receive(id: UdpId, buf: &mut [u8], many: bool) -> Result<UdpMeta, UdpSocketError>
            => |endpoint| endpoint.udp_receive(id, &mut zeros(len), many);
        48 UdpPeek { id: UdpId = id, len: usize = buf.len() }
            = udp_peek(id: UdpId, buf: &mut [u8]) -> Result<UdpMeta, UdpSocketError>
            => |endpoint| endpoint.udp_peek(id, &mut zeros(len));
    }
    apart {
        16 Packet { packet: Received } => |endpoint| packet.arrive(endpoint, now);
        17 Timeout => |endpoint| endpoint.handle_timeout(now);
        19 PollEvent => |endpoint| endpoint.poll_event();
        28 SetListenerTcp { id: ListenerId, tcp: Box<TcpConfig> }
            => |endpoint| endpoint.update_listener(id, |changed| *changed = *tcp);
    }
    read {
        18 Transmit { limits: Limits };
        // The calls of the connection follow, up to the end of the update.
        60 Update { id: ConnectionId };
    }
}

calls! {
    /// A call of a connection, within an update.
    ConnectionCall of Connection at now in RecordedConnection<'_>;
    plain {
        99 AwaitRoom = await_room[now]();
        101 ReadBytes = read_bytes[now](max: usize) -> Result<Bytes, ReadError>;
        102 Consume = consume[now](len: usize);
        103 Shutdown = shutdown[now]() -> Result<(), WriteError>;
        104 Abort = abort[now]();
        105 SetNodelay = set_nodelay[now](nodelay: bool);
        106 SetQuickack = set_quickack(quickack: bool);
        107 SetCork = set_cork[now](cork: bool);
        108 SetMoreFollows = set_more_follows(more: bool);
        109 SetKeepalive = set_keepalive[now](keepalive: Option<Keepalive>) -> Result<(), OptionError>;
        110 SetUserTimeout = set_user_timeout[now](timeout: Option<Duration>) -> Result<(), OptionError>;
        111 SetTtl = set_ttl(ttl: u8) -> Result<(), OptionError>;
        112 SetDscp = set_dscp(dscp: u8) -> Result<(), OptionError>;
        113 SetSendBufferMax = set_send_buffer_max(bytes: usize);
        114 SetReceiveBufferMax = set_receive_buffer_max(bytes: usize);
        115 SetMaxPacingRate = set_max_pacing_rate[now](rate: Option<u64>) -> Result<(), OptionError>;
        116 SetCongestion = set_congestion[now](factory: Arc<dyn ControllerFactory>);
        117 SetRecovery = set_recovery[now](policy: Recovery);
        118 SetRto = set_rto[now](rto: RtoConfig) -> Result<(), OptionError>;
        119 SetUndo = set_undo(undo: UndoChoice);
        120 SetAcks = set_acks(acks: AckPolicy) -> Result<(), OptionError>;
        121 AwaitDelivered = await_delivered(upto: u64) -> Option<(u64, Instant)>;
        122 AwaitFeedback = await_feedback(seen: u64) -> Option<u64>;
        123 SetNotSentLowat = set_not_sent_lowat(lowat: Option<u32>);
        124 TakeError = take_error() -> Option<ConnectionError>;
        125 TakeSoftError = take_soft_error() -> Option<IcmpError>;
        126 SetTrace = set_trace[now](config: Option<TraceConfig>);
        127 RequestTrace = request_trace();
        128 SetIdleTimeout = set_idle_timeout[now](timeout: Option<Duration>) -> Result<(), OptionError>;
    }
    other {
        96 Write { len: usize = data.len() } = write[now](data: &[u8]) -> Result<usize, WriteError>
            => |connection| connection.write(now, &offered(connection, len));
        97 WriteBytes { len: usize = data.len() } = write_bytes[now](data: &Bytes) -> Result<usize, WriteError>
            => |connection| connection.write_bytes(now, &offered(connection, len).into());
        98 WriteUrgent { len: usize = data.len() } = write_urgent[now](data: &[u8]) -> Result<usize, WriteError>
            => |connection| connection.write_urgent(now, &offered(connection, len));
        100 Read { len: usize = into.len() } = read[now](into: &mut [u8]) -> Result<usize, ReadError>
            => |connection| {
                let readable = connection.readable();
                connection.read(now, &mut zeros(len.min(readable)))
            };
    }
    apart {}
    read {}
}

/// A packet that arrived. Of TCP's payload, which no decision depends on, only the length is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub head: Vec<u8>,
    /// Bytes of payload after the head.
    pub payload_len: u32,
    pub meta: RxMeta,
    /// Whether a connection may keep a part of the packet where it lies.
    pub in_block: bool,
}

impl Received {
    pub fn new(packet: &[u8], meta: RxMeta, in_block: bool) -> Self {
        let payload = payload_of(packet, meta);
        let head = packet.len().checked_sub(payload).and_then(|len| packet.get(..len)).unwrap_or(packet);
        Self { head: head.to_vec(), payload_len: u32::try_from(payload).unwrap_or(u32::MAX), meta, in_block }
    }

    /// The packet, with zeros for what was not kept, and what is known about it.
    pub fn packet(&self) -> (Vec<u8>, RxMeta) {
        let mut packet = self.head.clone();
        // `take` bounds it.
        packet.resize(packet.len().saturating_add(self.payload_len as usize), 0);
        let mut meta = self.meta;
        if self.payload_len > 0 && meta.checksum == ChecksumState::Complete {
            // It was found correct when the packet was recorded.
            meta.checksum = ChecksumState::Verified;
        }
        (packet, meta)
    }

    /// The packet arrives again.
    fn arrive(self, endpoint: &mut Endpoint, now: Instant) {
        let (bytes, meta) = self.packet();
        let bytes = Bytes::from(bytes);
        let block = self.in_block.then(|| bytes.clone());
        endpoint.handle_packets(now, [RxPacket { bytes: &bytes, meta, block }]);
    }
}

impl Value for Received {
    fn put(&self, out: &mut Writer) {
        self.head.len().put(out);
        out.extend_from_slice(&self.head);
        self.payload_len.put(out);
        self.meta.put(out);
        self.in_block.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let len = usize::take(input)?;
        let head = input.bytes(len)?.to_vec();
        let payload_len = u32::take(input)?;
        if payload_len > PAYLOAD_MAX {
            return Err(FormError::Number);
        }
        Ok(Self { head, payload_len, meta: Value::take(input)?, in_block: Value::take(input)? })
    }
}

/// How much of the packet's end is payload of a correct segment.
fn payload_of(packet: &[u8], meta: RxMeta) -> usize {
    let Ok(IpPacket { src, dst, payload: IpPayload::Tcp(bytes), .. }) = IpPacket::parse(packet) else {
        return 0;
    };
    let Ok(segment) = Segment::parse(src, dst, bytes, meta.checksum) else { return 0 };
    // Before a link's padding it is not the packet's end, and the packet is kept whole.
    let ends = segment.payload.as_ptr_range().end == packet.as_ptr_range().end;
    if ends { segment.payload.len() } else { 0 }
}

/// The bytes that an application offers to write. One byte more than the room stands for any number.
fn offered(connection: &Connection, len: usize) -> Vec<u8> {
    zeros(len.min(connection.write_room().saturating_add(1)))
}

/// Bytes whose values do not matter.
fn zeros(len: usize) -> Vec<u8> {
    vec![0; len.min(ZEROS_MAX)]
}

/// The most that a call of a damaged file can make this allocate.
const ZEROS_MAX: usize = 64 << 20;
/// The longest payload of an IP packet.
const PAYLOAD_MAX: u32 = 65_535;
