//! A name server in the network, for programs that ask DNS themselves.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ackclock::{Hosts, Stack, TcpStream, UdpSocket};
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{DNSClass, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Answers queries for the addresses of these names, over UDP and TCP, until the stack ends.
pub(super) async fn serve(stack: Stack, names: Hosts) {
    let at = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), PORT);
    // The stack is new, so nothing has the port.
    let (Ok(socket), Ok(listener)) = (stack.udp(at), stack.listen(at)) else { return };
    let names = Arc::new(names);
    let over_udp = datagrams(&socket, &names);
    let over_tcp = async {
        while let Ok((stream, _)) = listener.accept().await {
            let names = Arc::clone(&names);
            tokio::spawn(async move { queries(stream, &names).await.ok() });
        }
    };
    tokio::join!(over_udp, over_tcp);
}

async fn datagrams(socket: &UdpSocket, names: &Hosts) {
    let mut buf = vec![0; DATAGRAM_MAX];
    while let Ok((len, from)) = socket.recv_from(&mut buf).await {
        if let Some(answer) = answer(&buf[..len], names) {
            // As lost as any datagram.
            socket.send_to(&answer, from).await.ok();
        }
    }
}

/// The queries of one connection, each behind its length (RFC 1035 §4.2.2).
async fn queries(mut stream: TcpStream, names: &Hosts) -> io::Result<()> {
    loop {
        let mut query = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut query).await?;
        let Some(answer) = answer(&query, names) else { return Ok(()) };
        let len = u16::try_from(answer.len()).map_err(io::Error::other)?;
        stream.write_all(&[&len.to_be_bytes()[..], &answer].concat()).await?;
    }
}

/// The answer to a query; `None` to what is none.
fn answer(query: &[u8], names: &Hosts) -> Option<Vec<u8>> {
    let query = Message::from_vec(query).ok()?;
    let [asked] = &query.queries[..] else { return None };
    if query.metadata.message_type != MessageType::Query {
        return None;
    }
    let mut answer = Message::response(query.metadata.id, query.metadata.op_code);
    answer.metadata.recursion_desired = query.metadata.recursion_desired;
    answer.metadata.recursion_available = true;
    answer.add_query(asked.clone());
    if query.metadata.op_code != OpCode::Query {
        answer.metadata.response_code = ResponseCode::NotImp;
    } else {
        let addrs = names.get(&asked.name().to_ascii());
        if addrs.is_empty() || asked.query_class() != DNSClass::IN {
            answer.metadata.response_code = ResponseCode::NXDomain;
        }
        for data in addrs.iter().filter_map(|addr| data(asked, *addr)) {
            answer.add_answer(Record::from_rdata(asked.name().clone(), TTL_SECS, data));
        }
    }
    if query.edns.is_some() {
        answer.set_edns(Edns::new());
    }
    answer.to_vec().ok()
}

/// The record of an address, if it is of the kind that was asked for.
fn data(asked: &Query, addr: IpAddr) -> Option<RData> {
    match (asked.query_type(), addr) {
        (RecordType::A, IpAddr::V4(addr)) => Some(RData::A(A(addr))),
        (RecordType::AAAA, IpAddr::V6(addr)) => Some(RData::AAAA(AAAA(addr))),
        _ => None,
    }
}

/// The port of DNS.
const PORT: u16 = 53;
/// The longest query that is read: RFC 6891 §6.2.5 recommends that a requestor try this size.
const DATAGRAM_MAX: usize = 4096;
/// How long an answer is good.
const TTL_SECS: u32 = 60;
