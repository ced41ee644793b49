//! Requests and answers: see `protocol.md`, which is part of the documentation of
//! [`StackBuilder::control`](crate::StackBuilder::control).

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use ackclock_core::trace::{Batch, TraceKeep};
use ackclock_core::{ConnectionInfo, ListenerInfo};
use serde::{Deserialize, Serialize};

/// The version of this protocol.
const SCHEMA: u32 = 2;

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Stack,
    Connections,
    Listeners,
    Counters,
    TraceOn(Name),
    TraceOff(Name),
    Dump(Name),
}

/// Names a connection: its number, and its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub queue: usize,
    pub number: u64,
}

/// Why a request is refused: its kind, for programs, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub kind: &'static str,
    pub message: String,
}

/// A connection in a list.
#[derive(Debug, Serialize)]
pub(super) struct Listed {
    pub id: String,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub waits_for: &'static str,
    pub rto_estimator: Option<&'static str>,
    pub traced: &'static str,
    pub closing: bool,
    pub info: ConnectionInfo,
}

/// A listener in a list. `local` is as for `ss`: `*` stands for any address or port.
#[derive(Debug, Serialize)]
pub(super) struct Listener {
    local: String,
    waiting: usize,
    backlog: usize,
    half_open: usize,
    deferred: bool,
}

/// Records of a trace.
#[derive(Debug, Serialize)]
pub(super) struct Records<'a> {
    connection: String,
    local: SocketAddr,
    remote: SocketAddr,
    profile: &'a str,
    congestion: &'a str,
    names: &'a [&'static str],
    missed: u64,
    cause: &'static str,
    records: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    request: String,
    schema: Option<u32>,
    connection: Option<String>,
}

#[derive(Debug, Serialize)]
struct Answer<'a, T> {
    schema: u32,
    answer: &'a str,
    #[serde(flatten)]
    body: T,
}

impl Request {
    /// Parses a line.
    pub fn parse(line: &[u8]) -> Result<Self, Refusal> {
        let asked: Asked = serde_json::from_slice(line).map_err(|error| {
            let message = format!(
                "not a request: {error}; a request is one JSON object in a line, as in \
                 {{\"request\": \"connections\"}}"
            );
            Refusal { kind: "bad-json", message }
        })?;
        if let Some(schema) = asked.schema.filter(|&schema| schema != SCHEMA) {
            let message = format!("schema {schema} is not known: this stack speaks schema {SCHEMA}");
            return Err(Refusal { kind: "schema", message });
        }
        let request = asked.request.as_str();
        let named = || match &asked.connection {
            Some(word) => Name::parse(word),
            None => {
                let message = format!(
                    "{request} needs a connection: {{\"request\": \"{request}\", \"connection\": \"0\"}}"
                );
                Err(Refusal { kind: "missing-connection", message })
            }
        };
        Ok(match request {
            "stack" => Self::Stack,
            "connections" => Self::Connections,
            "listeners" => Self::Listeners,
            "counters" => Self::Counters,
            "trace-on" => Self::TraceOn(named()?),
            "trace-off" => Self::TraceOff(named()?),
            "dump" => Self::Dump(named()?),
            other => {
                let known = "stack, connections, listeners, counters, trace-on, trace-off and dump";
                let message = format!("{other:?} cannot be asked for: there are {known}");
                return Err(Refusal { kind: "unknown-request", message });
            }
        })
    }
}

impl Name {
    fn parse(word: &str) -> Result<Self, Refusal> {
        let (queue, number) = word.split_once('.').unwrap_or(("0", word));
        match (queue.parse(), number.parse()) {
            (Ok(queue), Ok(number)) => Ok(Self { queue, number }),
            _ => Err(Refusal::no_such_connection(word)),
        }
    }

    /// The name as written: without the queue if it is the first.
    pub fn word(self) -> String {
        match self {
            Self { queue: 0, number } => number.to_string(),
            Self { queue, number } => format!("{queue}.{number}"),
        }
    }
}

impl Refusal {
    pub fn no_such_connection(word: &str) -> Self {
        let message =
            format!("there is no connection {word:?}: \"connections\" lists the ids of those there are");
        Self { kind: "no-such-connection", message }
    }

    pub fn line(&self) -> String {
        #[derive(Serialize)]
        struct Error<'a> {
            kind: &'a str,
            message: &'a str,
        }
        #[derive(Serialize)]
        struct Refused<'a> {
            schema: u32,
            error: Error<'a>,
        }
        let error = Error { kind: self.kind, message: &self.message };
        written(&Refused { schema: SCHEMA, error })
    }
}

impl Listener {
    pub fn new(info: &ListenerInfo) -> Self {
        let port = info.addr.port.map_or_else(|| "*".to_owned(), |port| port.to_string());
        let local = match info.addr.addr {
            None => format!("*:{port}"),
            Some(IpAddr::V4(addr)) => format!("{addr}:{port}"),
            Some(IpAddr::V6(addr)) => format!("[{addr}]:{port}"),
        };
        let ListenerInfo { waiting, backlog, half_open, deferred, .. } = *info;
        Self { local, waiting, backlog, half_open, deferred }
    }
}

impl<'a> Records<'a> {
    pub fn new(name: Name, batch: &'a Batch) -> Self {
        let mut records = String::with_capacity(batch.records.len() * 32);
        for byte in batch.records.iter().flat_map(|record| record.to_bytes()) {
            // Writing to a string does not fail.
            let _ = write!(records, "{byte:02x}");
        }
        Self {
            connection: name.word(),
            local: batch.tuple.local(),
            remote: batch.tuple.remote(),
            profile: batch.profile,
            congestion: batch.congestion,
            names: &batch.names,
            missed: batch.missed,
            cause: batch.cause.name(),
            records,
        }
    }
}

/// An answer as one line.
pub(super) fn answer(answer: &str, body: impl Serialize) -> String {
    written(&Answer { schema: SCHEMA, answer, body })
}

/// The beginning of an answer whose last member follows in pieces.
pub(super) fn opening(name: &str, body: impl Serialize) -> String {
    let mut line = answer(name, body);
    line.truncate(line.trim_end().len().saturating_sub(1));
    line
}

/// How much of a connection's trace is kept, in one word.
pub(super) fn keep_name(keep: Option<TraceKeep>) -> &'static str {
    match keep {
        None => "no",
        Some(TraceKeep::All) => "all",
        Some(TraceKeep::Newest) => "newest",
        Some(_) => "changes",
    }
}

fn written(value: &impl Serialize) -> String {
    match serde_json::to_string(value) {
        Ok(line) => line + "\n",
        // Every number of a connection exists in JSON: a controller's own figures say `null` where it does
        // not.
        Err(error) => {
            let message = format!("this answer cannot be written as JSON: {error}");
            Refusal { kind: "internal", message }.line()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_understood_or_refused_with_what_helps() {
        let parsed = |line: &str| Request::parse(line.as_bytes());
        let name = |queue, number| Name { queue, number };
        assert_eq!(parsed(r#"{"request":"connections"}"#), Ok(Request::Connections));
        assert_eq!(
            parsed(r#"{"schema":2,"request":"dump","connection":"7"}"#),
            Ok(Request::Dump(name(0, 7)))
        );
        let off = parsed(r#"{"request":"trace-off","connection":"3.7"}"#);
        assert_eq!(off, Ok(Request::TraceOff(name(3, 7))));
        assert_eq!((name(0, 7).word(), name(3, 7).word()), ("7".to_owned(), "3.7".to_owned()));

        let refused = |line: &str, kind: &str, says: &str| {
            let refusal = parsed(line).expect_err(line);
            assert_eq!(refusal.kind, kind, "{refusal:?}");
            assert!(refusal.message.contains(says), "{refusal:?}");
        };
        refused("hello", "bad-json", r#"{"request": "connections"}"#);
        refused("{}", "bad-json", "request");
        refused(r#"{"request":"stack","file":"/etc/passwd"}"#, "bad-json", "unknown field `file`");
        refused(r#"{"request":"conections"}"#, "unknown-request", "stack, connections, listeners");
        refused(r#"{"schema":1,"request":"stack"}"#, "schema", "schema 2");
        refused(r#"{"request":"trace-on"}"#, "missing-connection", r#""connection": "0""#);
        refused(r#"{"request":"dump","connection":"x"}"#, "no-such-connection", "\"connections\" lists");
    }

    #[test]
    fn answers_are_objects_in_a_line_with_the_number_of_the_protocol() {
        #[derive(Serialize)]
        struct Body {
            number: u32,
        }
        assert_eq!(answer("stack", Body { number: 7 }), "{\"schema\":2,\"answer\":\"stack\",\"number\":7}\n");
        let line = Refusal { kind: "busy", message: "a \"word\"\nand more".to_owned() }.line();
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.starts_with("{\"schema\":2,\"error\":{\"kind\":\"busy\","), "{line}");
    }
}
