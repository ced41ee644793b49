//! Making a recorded call.
#![expect(clippy::unit_arg, reason = "a call that tells its caller nothing has an outcome like the others")]

use super::calls::{Call, ConnectionCall};
use super::outcome::Outcome;
use crate::{Connection, Endpoint, Instant, OtherPacket, UdpTransmit};

impl Call {
    /// Makes the call. Returns what the caller learnt of it, as a number. [`Call::Transmit`] and
    /// [`Call::Update`] are their readers' own.
    pub(super) fn apply(self, endpoint: &mut Endpoint, now: Instant) -> Option<u64> {
        match self {
            Self::Packet { packet } => {
                let (bytes, meta) = packet.packet();
                if packet.in_block {
                    endpoint.handle_packet_bytes(now, &bytes.into(), meta);
                } else {
                    endpoint.handle_packet(now, &bytes, meta);
                }
                None
            }
            Self::Timeout => endpoint.handle_timeout(now).code(),
            Self::PollEvent => endpoint.poll_event().code(),
            Self::Connect { remote, local, tcp } => endpoint.connect(now, remote, local, tcp).code(),
            Self::ConnectWithData { remote, local, tcp, len } => {
                endpoint.connect_with_data(now, remote, local, tcp, &zeros(len)).code()
            }
            Self::Release { id } => endpoint.release(now, id).code(),
            Self::ResetOrphans => endpoint.reset_orphans(now).code(),
            Self::SetBehind { behind } => endpoint.set_behind(behind).code(),
            Self::SetQueueStands { stands } => endpoint.set_queue_stands(stands).code(),
            Self::SetMtu { mtu } => endpoint.set_mtu(now, mtu).code(),
            Self::SetLinkRoutes { routes } => endpoint.set_link_routes(now, routes).code(),
            Self::SetLocalAddresses { addresses, broadcast } => {
                endpoint.set_local_addresses(addresses, broadcast).code()
            }
            Self::SetSourceRoutes { routes } => endpoint.set_source_routes(routes).code(),
            Self::RequestTraces => endpoint.request_traces().code(),
            Self::EndTraces => endpoint.end_traces().code(),
            Self::PollOther => endpoint.poll_other().code(),
            Self::HasOtherRoom => endpoint.has_other_room().code(),
            Self::SendOther { bytes, meta } => endpoint.send_other(now, &OtherPacket { bytes, meta }).code(),
            Self::CloseOthers => endpoint.close_others().code(),
            Self::Transmit { .. } | Self::Update { .. } => None,
            listening => listening.apply_listening(endpoint, now),
        }
    }

    fn apply_listening(self, endpoint: &mut Endpoint, now: Instant) -> Option<u64> {
        match self {
            Self::Listen { options } => endpoint.listen(now, options).code(),
            Self::ListenBound { bound, options } => endpoint.listen_bound(now, bound, options).code(),
            Self::Bind { options } => endpoint.bind(now, options).code(),
            Self::BindAs { id, options } => endpoint.bind_as(id, options).code(),
            Self::ReleaseBound { id } => endpoint.release_bound(id).code(),
            Self::CloseListener { id } => endpoint.close_listener(now, id).code(),
            Self::SetListenerTcp { id, tcp } => {
                endpoint.update_listener(id, |changed| *changed = *tcp).code()
            }
            Self::Accept { id } => endpoint.accept_decided(now, id).code(),
            Self::Decide { id, decision } => endpoint.decide(now, id, decision).code(),
            datagrams => datagrams.apply_udp(endpoint, now),
        }
    }

    fn apply_udp(self, endpoint: &mut Endpoint, now: Instant) -> Option<u64> {
        match self {
            Self::UdpBind { options } => endpoint.udp_bind(now, options).code(),
            Self::UdpClose { id } => endpoint.udp_close(id).code(),
            Self::UdpConnect { id, remote } => endpoint.udp_connect(id, remote).code(),
            Self::UdpSend { id, len, to, from, segment_size, ecn } => {
                let contents = zeros(len);
                let transmit = UdpTransmit { contents: &contents, to, from, segment_size, ecn };
                endpoint.udp_send(now, id, &transmit).code()
            }
            Self::UdpReceive { id, len, many } => endpoint.udp_receive(id, &mut zeros(len), many).code(),
            Self::UdpPeek { id, len } => endpoint.udp_peek(id, &mut zeros(len)).code(),
            Self::UdpIsWritable { id } => endpoint.udp_is_writable(id).code(),
            Self::UdpTakeError { id } => endpoint.udp_take_error(id).code(),
            Self::UdpSetTtl { id, ttl } => endpoint.udp_set_ttl(id, ttl).code(),
            Self::UdpSetTrafficClass { id, traffic_class } => {
                endpoint.udp_set_traffic_class(id, traffic_class).code()
            }
            _ => None,
        }
    }
}

impl ConnectionCall {
    /// Makes the call. Returns what the caller learnt of it, as a number.
    pub(super) fn apply(self, connection: &mut Connection, now: Instant) -> Option<u64> {
        match self {
            Self::Write { len } => connection.write(now, &offered(connection, len)).code(),
            Self::WriteBytes { len } => connection.write_bytes(now, &offered(connection, len).into()).code(),
            Self::WriteUrgent { len } => connection.write_urgent(now, &offered(connection, len)).code(),
            Self::AwaitRoom => connection.await_room(now).code(),
            Self::Read { len } => {
                let readable = connection.readable();
                connection.read(now, &mut zeros(len.min(readable))).code()
            }
            Self::ReadBytes { max } => connection.read_bytes(now, max).code(),
            Self::Consume { len } => connection.consume(now, len).code(),
            Self::Shutdown => connection.shutdown(now).code(),
            Self::Abort => connection.abort(now).code(),
            Self::AwaitDelivered { upto } => connection.await_delivered(upto).code(),
            Self::AwaitFeedback { seen } => connection.await_feedback(seen).code(),
            Self::TakeError => connection.take_error().code(),
            Self::TakeSoftError => connection.take_soft_error().code(),
            Self::SetTrace { config } => connection.set_trace(now, config).code(),
            Self::RequestTrace => connection.request_trace().code(),
            option => option.apply_option(connection, now),
        }
    }

    fn apply_option(self, connection: &mut Connection, now: Instant) -> Option<u64> {
        match self {
            Self::SetNodelay { nodelay } => connection.set_nodelay(now, nodelay).code(),
            Self::SetQuickack { quickack } => connection.set_quickack(quickack).code(),
            Self::SetCork { cork } => connection.set_cork(now, cork).code(),
            Self::SetMoreFollows { more } => connection.set_more_follows(more).code(),
            Self::SetKeepalive { keepalive } => connection.set_keepalive(now, keepalive).code(),
            Self::SetUserTimeout { timeout } => connection.set_user_timeout(now, timeout).code(),
            Self::SetTtl { ttl } => connection.set_ttl(ttl).code(),
            Self::SetDscp { dscp } => connection.set_dscp(dscp).code(),
            Self::SetSendBufferMax { bytes } => connection.set_send_buffer_max(bytes).code(),
            Self::SetReceiveBufferMax { bytes } => connection.set_receive_buffer_max(bytes).code(),
            Self::SetMaxPacingRate { rate } => connection.set_max_pacing_rate(now, rate).code(),
            Self::SetCongestion { factory } => connection.set_congestion(now, factory).code(),
            Self::SetRecovery { policy } => connection.set_recovery(now, policy).code(),
            Self::SetRto { rto } => connection.set_rto(now, rto).code(),
            Self::SetUndo { undo } => connection.set_undo(undo).code(),
            Self::SetAcks { acks } => connection.set_acks(acks).code(),
            Self::SetNotSentLowat { lowat } => connection.set_not_sent_lowat(lowat).code(),
            _ => None,
        }
    }
}

/// What an application offers to write. One byte more than the room stands for any number.
fn offered(connection: &Connection, len: usize) -> Vec<u8> {
    zeros(len.min(connection.write_room().saturating_add(1)))
}

/// Bytes whose values do not matter.
fn zeros(len: usize) -> Vec<u8> {
    vec![0; len.min(ZEROS_MAX)]
}

/// The most that a call of a damaged file can make this allocate.
const ZEROS_MAX: usize = 64 << 20;
