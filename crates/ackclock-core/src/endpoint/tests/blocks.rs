//! The blocks that acknowledgements report (RFC 2018, RFC 2883).

use super::*;

/// A connection of a client that sends from 1001 on, with SACK and without timestamps.
fn connected() -> (Host, SeqNum) {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let options = TcpOptions { mss: Some(1460), sack_permitted: true, ..TcpOptions::default() };
    let iss = host.from(4000, Fields { options, ..fields(Flags::SYN, 1000, SeqNum::new(0)) })[0].seq;
    host.from(4000, ack(1001, iss + 1));
    host.endpoint.accept(host.now, listener).unwrap();
    (host, iss)
}

#[test]
fn a_segment_that_is_partly_old_reports_the_old_part() {
    let (mut host, iss) = connected();
    host.give(client(4000), server(), ack(1001, iss + 1), &[7; 500]);
    let sent = host.give(client(4000), server(), ack(1001, iss + 1), &[7; 800]);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].ack, SeqNum::new(1801));
    assert_eq!(sent[0].options.sack.as_slice(), [(SeqNum::new(1001), SeqNum::new(1501))]);
}

#[test]
fn when_the_last_gap_is_closed_one_acknowledgement_says_all() {
    let (mut host, iss) = connected();
    let meta = RxMeta { checksum: ChecksumState::Partial(ChecksumAt::tcp(20)), segment_size: None };
    for seq in [1201, 1401, 1301, 1101, 1001] {
        let packet = packet(client(4000), server(), ack(seq, iss + 1), &[7; 100]);
        host.endpoint.handle_packet(host.now, &packet, meta);
    }
    let sent = host.sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!((sent[0].ack, sent[0].options.sack.as_slice()), (SeqNum::new(1501), &[][..]));
}
