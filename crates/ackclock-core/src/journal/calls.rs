//! The calls that change an endpoint or one of its connections, as values: what is recorded, and what a
//! replay makes again.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ackclock_wire::{ChecksumState, Codepoint, Egress, IpPacket, IpPayload, Route, RxMeta, Segment};

use super::Malformed;
use super::value::{Input, Value};
use crate::congestion::ControllerFactory;
use crate::profile::{AckPolicy, Recovery, UndoChoice};
use crate::rtt::RtoConfig;
use crate::trace::TraceConfig;
use crate::{
    BindOptions, BoundId, ConnectionId, Decision, IncomingId, Keepalive, Limits, ListenOptions, ListenerId,
    LocalAddress, TcpConfig, UdpId, UdpOptions,
};

/// Declares each call once, with the code that it has in a file.
macro_rules! calls {
    (
        $(#[$meta:meta])* $name:ident {
            $($(#[$doc:meta])* $code:literal $call:ident $({ $($field:ident: $type:ty),* })?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub(super) enum $name {
            $($(#[$doc])* $call $({ $($field: $type),* })?,)*
        }

        impl $name {
            /// Appends the call.
            pub(super) fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$call $({ $($field),* })? => {
                        out.push($code);
                        $($($field.put(out);)*)?
                    })*
                }
            }

            /// Reads the call with this code; `None` if none has it.
            pub(super) fn take(code: u8, input: &mut Input<'_>) -> Result<Option<Self>, Malformed> {
                Ok(Some(match code {
                    $($code => Self::$call $({ $($field: <$type as Value>::take(input)?),* })?,)*
                    _ => return Ok(None),
                }))
            }

            /// The codes of all calls.
            #[cfg(test)]
            pub(super) const CODES: &[u8] = &[$($code),*];
        }
    };
}

calls! {
    /// A call of an endpoint.
    Call {
        16 Packet { packet: Received },
        17 Timeout,
        18 Transmit { limits: Limits },
        19 PollEvent,
        20 Connect { remote: SocketAddr, local: (Option<IpAddr>, u16), tcp: Option<TcpConfig> },
        21 ConnectWithData {
            remote: SocketAddr, local: (Option<IpAddr>, u16), tcp: Option<TcpConfig>, len: usize
        },
        22 Listen { options: ListenOptions },
        23 ListenBound { bound: BoundId, options: ListenOptions },
        24 Bind { options: BindOptions },
        25 BindAs { id: BoundId, options: BindOptions },
        26 ReleaseBound { id: BoundId },
        27 CloseListener { id: ListenerId },
        28 SetListenerTcp { id: ListenerId, tcp: Box<TcpConfig> },
        29 Accept { id: ListenerId },
        30 Decide { id: IncomingId, decision: Decision },
        31 Release { id: ConnectionId },
        32 ResetOrphans,
        33 SetMtu { mtu: usize },
        34 SetLinkRoutes { routes: Vec<Route<Egress>> },
        35 SetLocalAddresses { addresses: Vec<LocalAddress>, broadcast: Vec<IpAddr> },
        36 SetSourceRoutes { routes: Vec<Route<IpAddr>> },
        37 RequestTraces,
        38 EndTraces,
        39 PollOther,
        40 HasOtherRoom,
        41 SendOther { bytes: Vec<u8>, meta: RxMeta },
        42 CloseOthers,
        43 UdpBind { options: UdpOptions },
        44 UdpClose { id: UdpId },
        45 UdpConnect { id: UdpId, remote: Option<SocketAddr> },
        46 UdpSend {
            id: UdpId, len: usize, to: Option<SocketAddr>, from: Option<SocketAddr>,
            segment_size: Option<usize>, ecn: Codepoint
        },
        47 UdpReceive { id: UdpId, len: usize, many: bool },
        48 UdpPeek { id: UdpId, len: usize },
        49 UdpIsWritable { id: UdpId },
        50 UdpTakeError { id: UdpId },
        51 UdpSetTtl { id: UdpId, ttl: Option<u8> },
        52 UdpSetTrafficClass { id: UdpId, traffic_class: u8 },
        53 SetBehind { behind: bool },
        54 SetQueueStands { stands: bool },
        /// The calls of the connection follow, up to the end of the update.
        60 Update { id: ConnectionId },
    }
}

calls! {
    /// A call of a connection, within an update.
    ConnectionCall {
        96 Write { len: usize },
        97 WriteBytes { len: usize },
        98 WriteUrgent { len: usize },
        99 AwaitRoom,
        100 Read { len: usize },
        101 ReadBytes { max: usize },
        102 Consume { len: usize },
        103 Shutdown,
        104 Abort,
        105 SetNodelay { nodelay: bool },
        106 SetQuickack { quickack: bool },
        107 SetCork { cork: bool },
        108 SetMoreFollows { more: bool },
        109 SetKeepalive { keepalive: Option<Keepalive> },
        110 SetUserTimeout { timeout: Option<Duration> },
        111 SetTtl { ttl: u8 },
        112 SetDscp { dscp: u8 },
        113 SetSendBufferMax { bytes: usize },
        114 SetReceiveBufferMax { bytes: usize },
        115 SetMaxPacingRate { rate: Option<u64> },
        116 SetCongestion { factory: Arc<dyn ControllerFactory> },
        117 SetRecovery { policy: Recovery },
        118 SetRto { rto: RtoConfig },
        119 SetUndo { undo: UndoChoice },
        120 SetAcks { acks: AckPolicy },
        121 AwaitDelivered { upto: u64 },
        122 AwaitFeedback { seen: u64 },
        123 SetNotSentLowat { lowat: Option<u32> },
        124 TakeError,
        125 TakeSoftError,
        126 SetTrace { config: Option<TraceConfig> },
        127 RequestTrace,
    }
}

/// A packet that arrived. Of TCP's payload, which no decision depends on, only the length is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) head: Vec<u8>,
    /// Bytes of payload after the head.
    pub(super) payload_len: u32,
    pub(super) meta: RxMeta,
    /// Whether a connection may keep a part of the packet where it lies.
    pub(super) in_block: bool,
}

impl Received {
    pub(super) fn new(packet: &[u8], meta: RxMeta, in_block: bool) -> Self {
        let payload = payload_of(packet, meta);
        let head = packet.len().checked_sub(payload).and_then(|len| packet.get(..len)).unwrap_or(packet);
        Self { head: head.to_vec(), payload_len: u32::try_from(payload).unwrap_or(u32::MAX), meta, in_block }
    }

    /// The packet, with zeros for what was not kept, and what is known about it.
    pub(super) fn packet(&self) -> (Vec<u8>, RxMeta) {
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
}

impl Value for Received {
    fn put(&self, out: &mut Vec<u8>) {
        self.head.len().put(out);
        out.extend_from_slice(&self.head);
        self.payload_len.put(out);
        self.meta.put(out);
        self.in_block.put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let len = usize::take(input)?;
        let head = input.bytes(len)?.to_vec();
        let payload_len = u32::take(input)?;
        if payload_len > PAYLOAD_MAX {
            return Err(Malformed::Number);
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

/// The longest payload of an IP packet.
const PAYLOAD_MAX: u32 = 65_535;
