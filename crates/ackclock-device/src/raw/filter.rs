//! The filter of a raw device: a classic BPF program for each family.
//!
//! The program sees a packet from its IP header on. It passes only packets to the device's addresses and none
//! that the host sends; with ports, only TCP to those ports and ICMP errors. The kernel still answers echo
//! requests, so these never pass.
//!
//! Source: Linux `Documentation/networking/filter.rst`, `include/uapi/linux/{bpf_common,filter}.h`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Ports;
use super::sys::Instruction;

/// The target of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// The instruction this many after the next.
    Skip(u8),
    Accept,
    Drop,
}

/// A program under construction. Every path ends in `Accept` or `Drop`, which are at its end.
#[derive(Debug, Default)]
struct Program(Vec<(u16, u32, [To; 2])>);

/// The program for packets of one family to `addresses`.
pub(super) fn program(v6: bool, addresses: &[IpAddr], ports: &Ports) -> Vec<Instruction> {
    let mut program = Program::default();
    program.load(LD_W, AD_PKTTYPE);
    program.compare(JEQ, PACKET_HOST, NEXT, To::Drop);
    if v6 {
        let v6 = |addr: &IpAddr| match addr {
            IpAddr::V6(addr) => Some(*addr),
            IpAddr::V4(_) => None,
        };
        program.v6(&addresses.iter().filter_map(v6).collect::<Vec<_>>(), ports);
    } else {
        let v4 = |addr: &IpAddr| match addr {
            IpAddr::V4(addr) => Some(*addr),
            IpAddr::V6(_) => None,
        };
        program.v4(&addresses.iter().filter_map(v4).collect::<Vec<_>>(), ports);
    }
    program.finish()
}

impl Program {
    fn v4(&mut self, addresses: &[Ipv4Addr], ports: &Ports) {
        self.load(LD_W, 16);
        for (index, addr) in addresses.iter().enumerate() {
            let others = (addresses.len() - index - 1) as u8; // at most `ADDRESSES_MAX`
            let miss = if others == 0 { To::Drop } else { NEXT };
            self.compare(JEQ, addr.to_bits(), To::Skip(others), miss);
        }
        // In a fragment other than the first, nothing after the IP header is known.
        self.load(LD_H, 6);
        let whole = if matches!(ports, Ports::All) { To::Accept } else { To::Drop };
        self.compare(JSET, 0x1fff, whole, NEXT);
        self.load(LDX_MSH, 0);
        self.load(LD_B, 9);
        self.transport(
            LD_IND_B,
            LD_IND_H,
            0,
            Icmp { protocol: ICMP4, first_error: 3, last_error: 12, echo: 8 },
            ports,
        );
    }

    fn v6(&mut self, addresses: &[Ipv6Addr], ports: &Ports) {
        for (index, addr) in addresses.iter().enumerate() {
            let last = index + 1 == addresses.len();
            let words: Vec<u32> = addr
                .octets()
                .chunks_exact(4)
                .map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
                .collect();
            for (at, word) in words.iter().enumerate() {
                self.load(LD_W, 24 + 4 * at as u32); // four words
                // Each word takes two instructions, each address eight.
                let left = 2 * (words.len() - at - 1) as u8;
                let miss = if last { To::Drop } else { To::Skip(left) };
                let others = 8 * (addresses.len() - index - 1) as u8; // at most `ADDRESSES_MAX`
                let hit = if left == 0 { To::Skip(others) } else { NEXT };
                self.compare(JEQ, *word, hit, miss);
            }
        }
        self.load(LD_B, 6);
        // Extension headers precede the transport in hardly any packet. A program without loops cannot find
        // the port behind them.
        self.transport(
            LD_B,
            LD_H,
            40,
            Icmp { protocol: ICMP6, first_error: 1, last_error: 4, echo: 128 },
            ports,
        );
    }

    /// The protocol is in the accumulator.
    fn transport(&mut self, byte: u16, half: u16, start: u32, icmp: Icmp, ports: &Ports) {
        match ports {
            Ports::All => {
                self.compare(JEQ, icmp.protocol, NEXT, To::Accept);
                self.load(byte, start);
                self.compare(JEQ, icmp.echo, To::Drop, To::Accept);
            }
            Ports::Range(range) => {
                self.compare(JEQ, icmp.protocol, NEXT, To::Skip(4));
                self.load(byte, start);
                self.compare(JEQ, icmp.echo, To::Drop, NEXT);
                self.compare(JGE, icmp.first_error, NEXT, To::Drop);
                self.compare(JGT, icmp.last_error, To::Drop, To::Accept);
                self.compare(JEQ, TCP, NEXT, To::Drop);
                self.load(half, start + 2);
                self.compare(JGE, (*range.start()).into(), NEXT, To::Drop);
                self.compare(JGT, (*range.end()).into(), To::Drop, To::Accept);
            }
        }
    }

    fn load(&mut self, code: u16, k: u32) {
        self.0.push((code, k, [NEXT; 2]));
    }

    fn compare(&mut self, code: u16, k: u32, hit: To, miss: To) {
        self.0.push((code, k, [hit, miss]));
    }

    fn finish(self) -> Vec<Instruction> {
        let len = self.0.len();
        let mut all: Vec<Instruction> = Vec::with_capacity(len + 2);
        for (at, (code, k, to)) in self.0.into_iter().enumerate() {
            // A jump counts from the next instruction; `ADDRESSES_MAX` keeps the longest below 256.
            let offset = |to| match to {
                To::Skip(count) => count,
                To::Accept => (len - at - 1) as u8,
                To::Drop => (len - at) as u8,
            };
            all.push(Instruction { code, jt: offset(to[0]), jf: offset(to[1]), k });
        }
        all.push(Instruction { code: RET, jt: 0, jf: 0, k: WHOLE });
        all.push(Instruction { code: RET, jt: 0, jf: 0, k: 0 });
        all
    }
}

/// The ICMP numbers of a family.
#[derive(Clone, Copy)]
struct Icmp {
    protocol: u32,
    first_error: u32,
    last_error: u32,
    echo: u32,
}

const NEXT: To = To::Skip(0);

/// At eight instructions per IPv6 address, the program's jumps stay below 256.
pub(super) const ADDRESSES_MAX: usize = 16;

const LD_W: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const LD_H: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const LD_B: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const LD_IND_H: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_IND) as u16;
const LD_IND_B: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_IND) as u16;
const LDX_MSH: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
const JEQ: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JGE: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JGT: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
const JSET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RET: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// `SKF_AD_OFF + SKF_AD_PKTTYPE`: the packet's link-layer type.
const AD_PKTTYPE: u32 = (-0x1000_i32 + 4) as u32;
const PACKET_HOST: u32 = 0;
const ICMP4: u32 = 1;
const TCP: u32 = 6;
const ICMP6: u32 = 58;
/// More than any packet has.
const WHOLE: u32 = 0x4_0000;

#[cfg(test)]
mod tests;
