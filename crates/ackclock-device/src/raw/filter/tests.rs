use super::*;

/// The kernel's interpreter, for the instructions used.
fn runs(program: &[Instruction], packet: &[u8], packet_type: u32) -> bool {
    let load = |at: usize, len: usize| -> Option<u32> {
        Some(packet.get(at..at + len)?.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)))
    };
    let (mut accumulator, mut x, mut at) = (0u32, 0usize, 0);
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        let place = k as usize;
        let loaded = match code {
            LD_W if k == AD_PKTTYPE => Some(packet_type),
            LD_W => load(place, 4),
            LD_H => load(place, 2),
            LD_B => load(place, 1),
            LD_IND_H => load(x + place, 2),
            LD_IND_B => load(x + place, 1),
            LDX_MSH => {
                x = usize::from(packet[place] & 15) * 4;
                continue;
            }
            RET => return k > 0,
            JEQ | JGE | JGT | JSET => {
                let hit = match code {
                    JEQ => accumulator == k,
                    JGE => accumulator >= k,
                    JGT => accumulator > k,
                    _ => accumulator & k != 0,
                };
                at += usize::from(if hit { jt } else { jf });
                continue;
            }
            other => panic!("unknown instruction {other:#x}"),
        };
        // A load beyond the end ends the program and drops the packet.
        let Some(value) = loaded else { return false };
        accumulator = value;
    }
}

/// A packet with its first transport bytes: TCP from port 9 to `port`, or an ICMP message of the type `port`.
fn packet(dst: &str, protocol: u8, port: u16) -> Vec<u8> {
    let transport = match protocol {
        1 | 58 => [[port as u8, 0], [0; 2]].concat(),
        _ => [[0, 9], port.to_be_bytes()].concat(),
    };
    let mut header = match dst.parse().unwrap() {
        IpAddr::V4(dst) => {
            // With options, so that the transport header is not at its usual position.
            let mut header = vec![0; 24];
            (header[0], header[9]) = (0x46, protocol);
            header[16..20].copy_from_slice(&dst.octets());
            header
        }
        IpAddr::V6(dst) => {
            let mut header = vec![0; 40];
            (header[0], header[6]) = (0x60, protocol);
            header[24..40].copy_from_slice(&dst.octets());
            header
        }
    };
    header.extend(transport);
    header
}

fn addresses(count: u8) -> Vec<IpAddr> {
    let v4 = (0..count).map(|last| IpAddr::from([10, 0, 0, last]));
    let v6 = (0..count).map(|last| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into())));
    v4.chain(v6).collect()
}

#[test]
fn packets_to_each_address_pass_and_no_others() {
    for count in [1, 2, ADDRESSES_MAX as u8] {
        for ports in [Ports::All, Ports::Range(7000..=7009)] {
            let (v4, v6) =
                (program(false, &addresses(count), &ports), program(true, &addresses(count), &ports));
            for last in 0..=count {
                let wanted = last < count;
                assert_eq!(runs(&v4, &packet(&format!("10.0.0.{last}"), 6, 7005), PACKET_HOST), wanted);
                assert_eq!(runs(&v6, &packet(&format!("fd00::{last:x}"), 6, 7005), PACKET_HOST), wanted);
            }
            // Packets of other stations, which a promiscuous interface sees, and the host's own.
            assert!(!runs(&v4, &packet("10.0.0.0", 6, 7005), 3));
            assert!(!runs(&v6, &packet("fd00::", 6, 7005), 4));
        }
    }
}

#[test]
fn of_a_shared_address_only_the_ports_and_icmp_errors_pass() {
    for (v6, dst, icmp, errors, others) in
        [(false, "10.0.0.0", 1, [3, 12], [8, 0]), (true, "fd00::", 58, [1, 4], [128, 135])]
    {
        let program = program(v6, &addresses(1), &Ports::Range(7000..=7009));
        let passes = |protocol, port| runs(&program, &packet(dst, protocol, port), PACKET_HOST);
        assert!(passes(6, 7000) && passes(6, 7009));
        assert!(!passes(6, 6999) && !passes(6, 7010) && !passes(6, 22));
        assert!(!passes(17, 7005), "the host's UDP");
        assert!(errors.iter().all(|&kind| passes(icmp, kind)));
        assert!(!others.iter().any(|&kind| passes(icmp, kind)), "the host answers these");
    }
}

#[test]
fn of_an_address_of_its_own_all_but_echo_requests_pass() {
    for (v6, dst, icmp, echo) in [(false, "10.0.0.0", 1, 8), (true, "fd00::", 58, 128)] {
        let program = program(v6, &addresses(1), &Ports::All);
        let passes = |protocol, port| runs(&program, &packet(dst, protocol, port), PACKET_HOST);
        assert!(passes(6, 22) && passes(17, 53) && passes(icmp, 3) && passes(47, 0));
        assert!(!passes(icmp, echo));
    }
}

#[test]
fn later_fragments_do_not_pass_for_a_port() {
    let mut fragment = packet("10.0.0.0", 6, 7005);
    fragment[7] = 1;
    assert!(!runs(&program(false, &addresses(1), &Ports::Range(7000..=7009)), &fragment, PACKET_HOST));
    assert!(runs(&program(false, &addresses(1), &Ports::All), &fragment, PACKET_HOST));
}

#[test]
fn packets_that_end_early_do_not_pass() {
    let ports = Ports::Range(7000..=7009);
    let whole = packet("10.0.0.0", 6, 7005);
    for len in 1..whole.len() {
        assert!(!runs(&program(false, &addresses(1), &ports), &whole[..len], PACKET_HOST), "{len} bytes");
    }
}
