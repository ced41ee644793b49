//! iperf3's control protocol: its states, its cookie, and the JSON that the two ends exchange.
//!
//! A test has one control connection. The client begins it, and each stream of data after it, with a cookie.
//! From then on the server says in bytes what comes next, and the client follows: parameters, streams, start,
//! run. The client ends the run, and both exchange results. Parameters and results are JSON objects behind a
//! length of four bytes, big-endian. Source: `iperf_api.h` and `iperf_api.c` of esnet/iperf; no document
//! describes it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A message of one end on the control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    TestStart,
    TestRunning,
    TestEnd,
    ParamExchange,
    CreateStreams,
    ServerTerminate,
    ClientTerminate,
    ExchangeResults,
    DisplayResults,
    Done,
    AccessDenied,
    /// Two numbers follow: iperf3's own for the error, and the system's.
    ServerError,
}

/// The name of a test: 36 letters and digits, and a zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cookie([u8; COOKIE_LEN]);

/// The client's parameters. Iperf3 leaves out what is not asked for, and sends others, which are skipped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Params {
    #[serde(skip_serializing_if = "is_false")]
    pub tcp: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub udp: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub sctp: bool,
    /// Seconds at the beginning that do not count.
    #[serde(deserialize_with = "whole")]
    pub omit: u64,
    /// Seconds; 0 if an amount ends the test.
    #[serde(deserialize_with = "whole")]
    pub time: u64,
    /// Bytes; 0 for no limit.
    #[serde(deserialize_with = "whole")]
    pub num: u64,
    /// Blocks; 0 for no limit.
    #[serde(deserialize_with = "whole")]
    pub blockcount: u64,
    /// Streams in one direction.
    #[serde(deserialize_with = "whole")]
    pub parallel: u64,
    /// The server sends.
    #[serde(skip_serializing_if = "is_false")]
    pub reverse: bool,
    /// Both ends send.
    #[serde(skip_serializing_if = "is_false")]
    pub bidirectional: bool,
    /// Bytes of a block.
    #[serde(deserialize_with = "whole")]
    pub len: u64,
    /// Bits a second of one stream; 0 for no limit.
    #[serde(deserialize_with = "whole")]
    pub bandwidth: u64,
    /// Not 0 if datagrams are numbered with 64 bits.
    #[serde(deserialize_with = "whole", skip_serializing_if = "is_zero")]
    pub udp_counters_64bit: u64,
    pub client_version: String,
}

/// One end's results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Results {
    pub cpu_util_total: f64,
    pub cpu_util_user: f64,
    pub cpu_util_system: f64,
    /// 1 if this end counts them, 0 if not, -1 if it only receives.
    #[serde(deserialize_with = "count_or_unknown")]
    pub sender_has_retransmits: i64,
    pub streams: Vec<StreamResult>,
}

/// One stream's results at one end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StreamResult {
    pub id: u64,
    /// Bytes sent or received.
    #[serde(deserialize_with = "whole")]
    pub bytes: u64,
    /// -1 if unknown.
    #[serde(deserialize_with = "count_or_unknown")]
    pub retransmits: i64,
    /// Seconds, of a receiver.
    pub jitter: f64,
    /// Datagrams that did not arrive, at a receiver.
    #[serde(deserialize_with = "count_or_unknown")]
    pub errors: i64,
    /// Datagrams sent, or the highest number received.
    #[serde(deserialize_with = "count_or_unknown")]
    pub packets: i64,
    /// Those in the seconds that do not count. Iperf3 before 3.14 does not tell.
    #[serde(default = "unknown", deserialize_with = "count_or_unknown", skip_serializing_if = "is_unknown")]
    pub omitted_errors: i64,
    #[serde(default = "unknown", deserialize_with = "count_or_unknown", skip_serializing_if = "is_unknown")]
    pub omitted_packets: i64,
    /// Seconds, from 0 on.
    #[serde(default)]
    pub start_time: f64,
    #[serde(default)]
    pub end_time: f64,
}

/// A mistake in a message of the other end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum ProtocolError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0} is not a state of iperf3's protocol; is the peer iperf3 or tcpcat bench?")]
    UnknownState(i8),
    #[error("it sent {len} bytes of JSON, and at most {max} are taken")]
    TooLong { len: u32, max: u32 },
    #[error("its JSON cannot be read: {0}")]
    Json(#[from] serde_json::Error),
}

impl Params {
    /// The streams in the order in which the client makes them, `true` for those that it sends on.
    pub fn ways(&self) -> impl Iterator<Item = bool> + use<> {
        let each = usize::try_from(self.parallel).unwrap_or(usize::MAX);
        let (up, down) = (!self.reverse, self.reverse || self.bidirectional);
        let all = |wanted| if wanted { each } else { 0 };
        std::iter::repeat_n(true, all(up)).chain(std::iter::repeat_n(false, all(down)))
    }
}

impl State {
    /// Its byte.
    pub const fn code(self) -> i8 {
        match self {
            Self::TestStart => 1,
            Self::TestRunning => 2,
            Self::TestEnd => 4,
            Self::ParamExchange => 9,
            Self::CreateStreams => 10,
            Self::ServerTerminate => 11,
            Self::ClientTerminate => 12,
            Self::ExchangeResults => 13,
            Self::DisplayResults => 14,
            Self::Done => 16,
            Self::AccessDenied => -1,
            Self::ServerError => -2,
        }
    }

    fn of(code: i8) -> Option<Self> {
        ALL.into_iter().find(|state| state.code() == code)
    }

    /// Reads one. It may be cancelled: a byte is read, or is not.
    pub async fn read(reader: &mut (impl AsyncRead + Unpin)) -> Result<Self, ProtocolError> {
        let code = reader.read_i8().await?;
        Self::of(code).ok_or(ProtocolError::UnknownState(code))
    }

    pub async fn write(self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        writer.write_i8(self.code()).await?;
        writer.flush().await
    }
}

impl Cookie {
    pub fn new() -> Self {
        const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let mut bytes = [0; COOKIE_LEN];
        for letters in bytes[..COOKIE_LEN - 1].chunks_mut(12) {
            // The standard library seeds its hash tables from the system's random source.
            let mut random = RandomState::new().build_hasher().finish();
            for letter in letters {
                *letter = LETTERS[(random % 32) as usize];
                random /= 32;
            }
        }
        Self(bytes)
    }

    pub async fn read(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let mut bytes = [0; COOKIE_LEN];
        reader.read_exact(&mut bytes).await?;
        Ok(Self(bytes))
    }

    pub async fn write(&self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        writer.write_all(&self.0).await?;
        writer.flush().await
    }
}

/// An object that goes behind its length.
pub(super) trait Object: Serialize + DeserializeOwned {
    /// The most bytes of JSON that are taken.
    const BYTES_MAX: u32;

    async fn write(&self, writer: &mut (impl AsyncWrite + Unpin)) -> Result<(), ProtocolError> {
        let text = serde_json::to_vec(self)?;
        let mut bytes = u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes().to_vec();
        bytes.extend(text);
        writer.write_all(&bytes).await?;
        writer.flush().await?;
        Ok(())
    }

    /// Reads one. Memory grows with the bytes that arrive, not with the length that is announced.
    async fn read(reader: &mut (impl AsyncRead + Unpin)) -> Result<Self, ProtocolError> {
        let (len, max) = (reader.read_u32().await?, Self::BYTES_MAX);
        if len > max {
            return Err(ProtocolError::TooLong { len, max });
        }
        let mut text = Vec::new();
        (&mut *reader).take(u64::from(len)).read_to_end(&mut text).await?;
        if text.len() < len as usize {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        // Iperf3 may send the zero that ends a string in C.
        let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        Ok(serde_json::from_slice(&text[..end])?)
    }
}

impl Object for Params {
    /// Iperf3's are some 300 bytes; it takes 8 KiB itself.
    const BYTES_MAX: u32 = 8 << 10;
}

impl Object for Results {
    /// Those of 256 streams are 64 KiB, and a server may add its own output.
    const BYTES_MAX: u32 = 4 << 20;
}

/// A count that cJSON may have written as a floating-point number.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if number < 0.0 {
        return Err(serde::de::Error::custom(format!("{number} is not a count")));
    }
    // Beyond 2^53 neither end is exact.
    Ok(number as u64)
}

/// A count, or -1, which iperf3 3.12 writes as 2^64 - 1.
fn count_or_unknown<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let number = f64::deserialize(deserializer)?;
    Ok(if (0.0..9e18).contains(&number) { number as i64 } else { -1 })
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_unknown(count: &i64) -> bool {
    *count < 0
}

const fn unknown() -> i64 {
    -1
}

const ALL: [State; 12] = [
    State::TestStart,
    State::TestRunning,
    State::TestEnd,
    State::ParamExchange,
    State::CreateStreams,
    State::ServerTerminate,
    State::ClientTerminate,
    State::ExchangeResults,
    State::DisplayResults,
    State::Done,
    State::AccessDenied,
    State::ServerError,
];

/// With the zero at its end.
const COOKIE_LEN: usize = 37;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_state_is_read_as_it_was_written_and_others_are_refused() {
        for code in i8::MIN..=i8::MAX {
            let read = State::read(&mut &code.to_be_bytes()[..]).await;
            match State::of(code) {
                Some(state) => {
                    let mut wire = Vec::new();
                    state.write(&mut wire).await.unwrap();
                    assert_eq!(wire, code.to_be_bytes());
                    assert_eq!(read.unwrap(), state);
                }
                None => assert!(matches!(read, Err(ProtocolError::UnknownState(other)) if other == code)),
            }
        }
        // The numbers of iperf_api.h.
        let codes: Vec<i8> = ALL.iter().map(|state| state.code()).collect();
        assert_eq!(codes, [1, 2, 4, 9, 10, 11, 12, 13, 14, 16, -1, -2]);
    }

    #[tokio::test]
    async fn a_cookie_is_of_letters_and_no_two_are_the_same() {
        let (one, other) = (Cookie::new(), Cookie::new());
        assert_ne!(one, other);
        let (letters, end) = one.0.split_at(COOKIE_LEN - 1);
        assert!(letters.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7')) && end == [0]);
        let mut wire = Vec::new();
        one.write(&mut wire).await.unwrap();
        assert_eq!(Cookie::read(&mut &wire[..]).await.unwrap(), one);
        assert!(Cookie::read(&mut &wire[1..]).await.is_err());
    }

    #[tokio::test]
    async fn parameters_of_iperf3_are_understood_and_unknown_ones_skipped() {
        let text = br#"{"tcp":true,"omit":0,"time":10,"num":1e9,"blockcount":0,"parallel":4,"reverse":true,
            "len":131072,"pacing_timer":1000,"client_version":"3.12"}"#;
        let mut wire = u32::try_from(text.len()).unwrap().to_be_bytes().to_vec();
        wire.extend(text);
        let read = Params::read(&mut &wire[..]).await.unwrap();
        let expected = Params {
            tcp: true,
            time: 10,
            num: 1_000_000_000,
            parallel: 4,
            reverse: true,
            len: 131_072,
            client_version: "3.12".to_owned(),
            ..Params::default()
        };
        assert_eq!(read, expected);
        let mut again = Vec::new();
        expected.write(&mut again).await.unwrap();
        assert_eq!(Params::read(&mut &again[..]).await.unwrap(), expected);
    }

    #[test]
    fn the_streams_that_the_client_sends_on_come_first() {
        let ways = |reverse, bidirectional| -> Vec<bool> {
            Params { parallel: 2, reverse, bidirectional, ..Params::default() }.ways().collect()
        };
        assert_eq!(ways(false, false), [true, true]);
        assert_eq!(ways(true, false), [false, false]);
        assert_eq!(ways(false, true), [true, true, false, false]);
    }

    #[test]
    fn an_unknown_count_of_iperf3_is_minus_one() {
        let stream =
            r#"{"id":1,"bytes":5,"retransmits":18446744073709551615,"jitter":0,"errors":0,"packets":7}"#;
        let read: StreamResult = serde_json::from_str(stream).unwrap();
        assert_eq!((read.bytes, read.retransmits, read.packets), (5, -1, 7));
        // One that is not told is not told on.
        assert_eq!((read.omitted_errors, read.omitted_packets), (-1, -1));
        assert!(!serde_json::to_string(&read).unwrap().contains("omitted"));
    }

    #[tokio::test]
    async fn hostile_json_is_an_error_and_takes_no_memory() {
        let long = [&u32::MAX.to_be_bytes()[..], b"{}"].concat();
        let read = Params::read(&mut &long[..]).await;
        assert!(matches!(read, Err(ProtocolError::TooLong { len: u32::MAX, .. })), "{read:?}");
        let short = [&8u32.to_be_bytes()[..], b"{}"].concat();
        let read = Params::read(&mut &short[..]).await;
        assert!(matches!(read, Err(ProtocolError::Io(_))), "{read:?}");
        let deep = "[".repeat(8000);
        for text in ["", "{", "[]x", r#"{"time":-1}"#, r#"{"parallel":"many"}"#, "\0\0", deep.as_str()] {
            let wire = [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat();
            let read = Params::read(&mut &wire[..]).await;
            assert!(matches!(read, Err(ProtocolError::Json(_))), "{text}: {read:?}");
        }
    }
}
