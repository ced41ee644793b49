//! Requests to the kernel's routing tables over netlink.
//!
//! Source: netlink(7), rtnetlink(7), Linux `include/uapi/linux/{netlink,rtnetlink,if_addr}.h`.

use std::io::{self, Read, Write};

use crate::sys;

/// A request under construction: a netlink header, a fixed part, attributes.
#[derive(Debug)]
pub(super) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A request of type `kind` (`RTM_*`) with `flags` (`NLM_F_*`, in addition to those of every request) and
    /// the fixed part of its type.
    pub fn new(kind: u16, flags: libc::c_int, fixed: &[u8]) -> Self {
        let flags = (flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16; // all are below 2^16
        let mut bytes = vec![0; 4]; // the length, when it is known
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 8]); // sequence number and sender: one question, one answer on this socket
        bytes.extend_from_slice(fixed);
        Self { bytes }
    }

    /// Appends an attribute.
    pub fn attribute(mut self, kind: libc::c_ushort, value: &[u8]) -> Self {
        append(&mut self.bytes, kind, value);
        self
    }

    /// Appends a nested attribute.
    pub fn nested(self, kind: libc::c_ushort, inner: &[(libc::c_ushort, &[u8])]) -> Self {
        let mut value = Vec::new();
        inner.iter().for_each(|(kind, of)| append(&mut value, *kind, of));
        self.attribute(kind, &value)
    }

    /// Sends the request and waits for the kernel's answer.
    pub fn send(self) -> io::Result<()> {
        acknowledged(&self.exchange()?)
    }

    /// Sends a query and waits for the answer. Returns the fixed part and the attributes of the first
    /// message.
    pub fn ask(self) -> io::Result<Vec<u8>> {
        let answer = self.exchange()?;
        let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
        if kind.map(libc::c_int::from) == Some(libc::NLMSG_ERROR) {
            acknowledged(&answer)?;
        }
        answer.get(16..).map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn exchange(mut self) -> io::Result<Vec<u8>> {
        let len = self.bytes.len() as u32; // some 100 bytes
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        let mut socket = sys::route_socket()?;
        socket.write_all(&self.bytes)?;
        let mut answer = vec![0; 4096];
        let len = socket.read(&mut answer)?;
        answer.truncate(len);
        Ok(answer)
    }
}

/// Appends an attribute, padded to a multiple of four bytes.
pub(super) fn append(bytes: &mut Vec<u8>, kind: libc::c_ushort, value: &[u8]) {
    let len = ATTRIBUTE_HEADER_LEN + value.len() as u16; // an address or a name at most
    bytes.extend(len.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// The value of the first attribute of a kind among these.
pub(super) fn attribute(mut attributes: &[u8], wanted: libc::c_ushort) -> Option<&[u8]> {
    let number = |bytes: &[u8], at: usize| Some(u16::from_ne_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    loop {
        let len = usize::from(number(attributes, 0)?);
        let value = attributes.get(usize::from(ATTRIBUTE_HEADER_LEN)..len)?;
        // The two highest bits say how the value is nested and coded.
        if number(attributes, 2)? & 0x3fff == wanted {
            return Some(value);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

/// Parses an acknowledgement: a netlink header of 16 bytes, then the negated error code or 0.
fn acknowledged(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    let code = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match (kind.map(libc::c_int::from), code) {
        (Some(libc::NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(libc::NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is not an acknowledgement")),
    }
}

const ATTRIBUTE_HEADER_LEN: u16 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_to_four_bytes() {
        let request = Request::new(libc::RTM_NEWLINK, 0, &[0; 16]).attribute(libc::IFLA_MTU, &[1; 5]);
        assert_eq!(request.bytes.len(), 16 + 16 + 4 + 8);
        assert_eq!(request.bytes[32..34], 9u16.to_ne_bytes());
    }

    #[test]
    fn a_nested_attribute_holds_whole_ones() {
        let request = Request::new(libc::RTM_NEWROUTE, 0, &[0; 12]).nested(8, &[(16, b"bbr\0"), (1, &[7])]);
        let inner = [8, 0, 16, 0, b'b', b'b', b'r', 0, 5, 0, 1, 0, 7, 0, 0, 0];
        assert_eq!(request.bytes[16 + 12..16 + 12 + 4], [20, 0, 8, 0]);
        assert_eq!(request.bytes[16 + 12 + 4..], inner);
    }

    #[test]
    fn an_answer_is_an_error_code_or_success() {
        let answer = |kind: u16, code: i32| {
            let mut bytes = [0; 36];
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            bytes[16..20].copy_from_slice(&code.to_ne_bytes());
            acknowledged(&bytes)
        };
        assert!(answer(2, 0).is_ok());
        assert_eq!(answer(2, -libc::EPERM).unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert!(answer(3, 0).is_err());
        assert!(acknowledged(&[0; 10]).is_err());
    }
}
