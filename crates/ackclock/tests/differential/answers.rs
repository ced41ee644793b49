//! The answer of a case: a list of steps with their results, in words that do not depend on which port was
//! free.

use std::fmt::{self, Debug};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

/// A case, on one side.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Whether it needs IPv6.
    pub(crate) v6: bool,
    pub(crate) run: fn() -> Running,
}

pub(crate) type Running = Pin<Box<dyn Future<Output = Vec<Answer>>>>;

/// The result of one step.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// The number of the operating system's error, if the error had one.
    pub(crate) os: Option<i32>,
}

/// The answers so far.
#[derive(Debug, Default)]
pub(crate) struct Answers(pub(crate) Vec<Answer>);

impl Answers {
    /// A value that both sides must have in common.
    pub(crate) fn value(&mut self, what: &str, value: impl Debug) {
        self.0.push(Answer { text: format!("{what}: {value:?}"), os: None });
    }

    /// Notes the result of a call.
    pub(crate) fn result<T: Debug>(&mut self, what: &str, result: io::Result<T>) {
        match result {
            Ok(value) => self.value(what, value),
            Err(error) => self.error(what, &error),
        }
    }

    /// Whether a call succeeded, whatever it returned.
    pub(crate) fn outcome<T>(&mut self, what: &str, result: io::Result<T>) {
        self.result(what, result.map(drop));
    }

    pub(crate) fn error(&mut self, what: &str, error: &io::Error) {
        self.0.push(Answer { text: format!("{what}: {:?}", error.kind()), os: error.raw_os_error() });
    }

    /// The error's number, which both sides must have in common.
    pub(crate) fn os_error<T>(&mut self, what: &str, result: io::Result<T>) {
        let os = result.map_err(|error| (error.kind(), error.raw_os_error()));
        self.value(what, os.map(drop));
    }

    /// An address, its port being one of the system's choice.
    pub(crate) fn address(&mut self, what: &str, addr: io::Result<SocketAddr>) {
        let shape = |addr: SocketAddr| (addr.ip(), if addr.port() == 0 { "no port" } else { "a port" });
        self.result(what, addr.map(shape));
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Cases: functions that put down answers; one that fails puts down its error and ends.
macro_rules! cases {
    ($v6:literal: $(async fn $name:ident($host:ident, $answers:ident) $body:block)*) => {
        pub(crate) fn all() -> Vec<$crate::answers::Case> {
            vec![$($crate::answers::Case {
                name: stringify!($name),
                v6: $v6,
                run: || Box::pin(async {
                    let (host, mut answers) = (Loopback::new(), $crate::answers::Answers::default());
                    if let Err(error) = $name(&host, &mut answers).await {
                        answers.error("the case ends early", &error);
                    }
                    answers.0
                }),
            }),*]
        }

        $(async fn $name(
            $host: &Loopback,
            $answers: &mut $crate::answers::Answers,
        ) -> ::std::io::Result<()> {
            $body
            Ok(())
        })*
    };
}

pub(crate) use cases;
