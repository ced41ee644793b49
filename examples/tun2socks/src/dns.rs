//! Queries of DNS that are answered here: those for the addresses of names, by an address of the pool.
//!
//! Everything else a client asks goes where it was sent, through the proxy like any other traffic.

use hickory_proto::op::{Edns, MessageType};
use hickory_proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, PTR};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use std::io;
use std::net::IpAddr;

use ackclock::TcpStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::names::{Meaning, Names};

/// The port to which queries go.
pub(crate) const PORT: u16 = 53;

/// The answer to a query; `None` if it is to be passed on.
pub(crate) fn answer(query: &[u8], names: &Names) -> Option<Vec<u8>> {
    let query = Message::from_vec(query).ok()?;
    let [asked] = &query.queries[..] else { return None };
    let is_query = query.metadata.message_type == MessageType::Query
        && query.metadata.op_code == OpCode::Query
        && asked.query_class() == DNSClass::IN;
    if !is_query {
        return None;
    }
    let (code, data) = found(asked, names)?;
    let mut answer = Message::response(query.metadata.id, OpCode::Query);
    answer.metadata.recursion_desired = query.metadata.recursion_desired;
    answer.metadata.recursion_available = true;
    answer.metadata.response_code = code;
    answer.add_query(asked.clone());
    if let Some(data) = data {
        let ttl = u32::try_from(names.ttl().as_secs()).unwrap_or(u32::MAX);
        answer.add_answer(Record::from_rdata(asked.name().clone(), ttl, data));
    }
    if query.edns.is_some() {
        answer.set_edns(Edns::new());
    }
    answer.to_vec().ok()
}

/// The answer to a question; `None` if another server gives it.
fn found(asked: &Query, names: &Names) -> Option<(ResponseCode, Option<RData>)> {
    match asked.query_type() {
        kind @ (RecordType::A | RecordType::AAAA) => {
            let name = canonical(asked.name())?;
            let is_v4 = kind == RecordType::A;
            if !names.has(is_v4) {
                return Some((ResponseCode::NoError, None));
            }
            // All addresses are in use: a client asks again.
            let Some(addr) = names.addr(&name, is_v4) else { return Some((ResponseCode::ServFail, None)) };
            let data = match addr {
                IpAddr::V4(addr) => RData::A(A(addr)),
                IpAddr::V6(addr) => RData::AAAA(AAAA(addr)),
            };
            Some((ResponseCode::NoError, Some(data)))
        }
        // They may hold addresses, by which a client would pass the pool over. Without them it asks for A.
        RecordType::HTTPS | RecordType::SVCB => {
            canonical(asked.name()).map(|_| (ResponseCode::NoError, None))
        }
        RecordType::PTR => {
            let network = asked.name().parse_arpa_name().ok()?;
            match names.meaning(network.addr()) {
                Meaning::Itself => None,
                Meaning::Nothing => Some((ResponseCode::NXDomain, None)),
                Meaning::Name(name) => {
                    let name = Name::from_ascii(format!("{name}.")).ok()?;
                    Some((ResponseCode::NoError, Some(RData::PTR(PTR(name)))))
                }
            }
        }
        _ => None,
    }
}

/// A name in the form that the proxy gets; `None` for one that only the client's own network knows.
fn canonical(name: &Name) -> Option<String> {
    let text = name.to_ascii().to_ascii_lowercase();
    let text = text.strip_suffix('.').unwrap_or(&text);
    let (_, top) = text.rsplit_once('.')?;
    let is_usable = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    (is_usable && !matches!(top, "local" | "arpa" | "localhost")).then(|| text.to_owned())
}

/// Answers a client's queries over TCP (RFC 7766 §8). Returns the stream and the first query that is to be
/// passed on, with its length in front; `None` if the client has ended.
pub(crate) async fn serve(mut stream: TcpStream, names: &Names) -> io::Result<Option<(TcpStream, Vec<u8>)>> {
    loop {
        let len = match stream.read_u16().await {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut query = vec![0; 2 + usize::from(len)];
        query[..2].copy_from_slice(&len.to_be_bytes());
        stream.read_exact(&mut query[2..]).await?;
        let Some(answer) = answer(&query[2..], names) else { return Ok(Some((stream, query))) };
        let len = u16::try_from(answer.len()).map_err(io::Error::other)?;
        stream.write_all(&[&len.to_be_bytes()[..], &answer].concat()).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn names() -> Names {
        let networks = ["198.19.0.0/30", "fd00::/64"].map(|text| text.parse().unwrap());
        Names::new(&networks, Duration::from_secs(60), None).unwrap()
    }

    fn ask(names: &Names, name: &str, kind: RecordType) -> Option<Message> {
        let mut query = Message::query();
        query.metadata.recursion_desired = true;
        query.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
        let answer = Message::from_vec(&answer(&query.to_vec().unwrap(), names)?).unwrap();
        assert_eq!((answer.metadata.id, answer.queries.len()), (query.metadata.id, 1));
        Some(answer)
    }

    #[test]
    fn an_address_is_one_of_the_pool_and_leads_back_to_the_name() {
        let names = names();
        let v4 = ask(&names, "Www.Example.org.", RecordType::A).unwrap();
        assert_eq!(v4.answers[0].data, RData::A(A([198, 19, 0, 1].into())));
        assert_eq!(v4.answers[0].ttl, 60);
        let v6 = ask(&names, "www.example.org.", RecordType::AAAA).unwrap();
        assert_eq!(v6.answers[0].data, RData::AAAA(AAAA("fd00::1".parse().unwrap())));
        let back = ask(&names, "1.0.19.198.in-addr.arpa.", RecordType::PTR).unwrap();
        assert_eq!(back.answers[0].data, RData::PTR(PTR(Name::from_ascii("www.example.org.").unwrap())));
    }

    #[test]
    fn what_could_lead_past_the_pool_has_no_answer() {
        let names = names();
        for kind in [RecordType::HTTPS, RecordType::SVCB] {
            let answer = ask(&names, "example.org.", kind).unwrap();
            assert_eq!((answer.metadata.response_code, answer.answers.len()), (ResponseCode::NoError, 0));
        }
    }

    #[test]
    fn other_questions_are_passed_on() {
        let names = names();
        assert!(ask(&names, "example.org.", RecordType::MX).is_none());
        assert!(ask(&names, "printer.local.", RecordType::A).is_none());
        assert!(ask(&names, "localhost.", RecordType::A).is_none());
        assert!(ask(&names, "1.2.0.192.in-addr.arpa.", RecordType::PTR).is_none());
        assert!(answer(b"no message", &names).is_none() && answer(&[], &names).is_none());
    }

    #[test]
    fn a_pool_that_is_taken_fails_and_does_not_lie() {
        let names = names();
        for name in ["a.example.", "b.example."] {
            assert_eq!(ask(&names, name, RecordType::A).unwrap().answers.len(), 1);
        }
        let third = ask(&names, "c.example.", RecordType::A).unwrap();
        assert_eq!((third.metadata.response_code, third.answers.len()), (ResponseCode::ServFail, 0));
    }
}
