//! The exit codes.

use std::process::ExitCode;

/// The exit codes. They are part of the programs' interface: scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done.
    Done = 0,
    /// The connection was reset or closed early, or did not bring everything; a value is outside its band.
    Failed = 1,
    /// The command line, or a file that it names, is wrong.
    Usage = 2,
    /// Nothing listens on the peer's port.
    Refused = 3,
    /// The peer does not answer, or there is no route to it.
    Unreachable = 4,
    /// The device cannot be opened or used.
    Device = 5,
    /// A local file cannot be read or written.
    File = 6,
    /// The data that arrived is not the data that was sent.
    Verification = 7,
    /// SIGHUP ended `send` or `recv`: 128 and the signal's number, as in shells.
    HungUp = 129,
    /// SIGINT ended `send` or `recv`.
    Interrupted = 130,
    /// SIGQUIT ended `send` or `recv`.
    Quit = 131,
    /// The reader of stdout left before the end: 128 and SIGPIPE.
    ReaderGone = 141,
    /// SIGTERM ended `send`, `recv` or `top`.
    Terminated = 143,
}

/// A program that ends with these codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `tcpcat`.
    Tcpcat,
    /// `tcplab`.
    Tcplab,
}

/// A row of the table of codes.
struct Row {
    /// The word in JSON.
    kind: Option<&'static str>,
    /// The meaning in `tcpcat`, for its manual.
    tcpcat: &'static str,
    /// The meaning in `tcplab`, for its help; `None` if it never ends so.
    tcplab: Option<&'static str>,
}

impl Exit {
    /// All codes, in ascending order.
    pub const ALL: [Self; 13] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::Refused,
        Self::Unreachable,
        Self::Device,
        Self::File,
        Self::Verification,
        Self::HungUp,
        Self::Interrupted,
        Self::Quit,
        Self::ReaderGone,
        Self::Terminated,
    ];

    /// The meaning of the code in a program, or `None` if the program never ends with it.
    #[must_use]
    pub fn meaning(self, program: Program) -> Option<&'static str> {
        match program {
            Program::Tcpcat => Some(self.row().tcpcat),
            Program::Tcplab => self.row().tcplab,
        }
    }

    /// The word for it in JSON; `None` if everything was done.
    #[must_use]
    pub fn kind(self) -> Option<&'static str> {
        self.row().kind
    }

    /// The code that the process ends with.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The table: the word in JSON, the meaning in `tcpcat`, the meaning in `tcplab`.
    const fn row(self) -> Row {
        match self {
            Self::Done => row(None, "Everything was done.", Some("done")),
            Self::Failed => row(
                Some("failed"),
                "The connection was reset or closed early, or did not bring everything.",
                Some("failed or a value outside its band"),
            ),
            Self::Usage => row(Some("usage"), "The command line is wrong.", Some("usage")),
            Self::Refused => {
                row(Some("refused"), "Nothing listens on the peer's port, or at the control socket.", None)
            }
            Self::Unreachable => {
                row(Some("unreachable"), "The peer does not answer, or there is no route to it.", None)
            }
            Self::Device => row(Some("device"), "The device cannot be opened or used.", None),
            Self::File => row(Some("file"), "A local file cannot be read or written.", Some("local file")),
            Self::Verification => row(Some("verification"), "What arrived is not what was sent.", None),
            Self::HungUp => row(Some("interrupted"), "SIGHUP ended send or recv.", None),
            Self::Interrupted => row(Some("interrupted"), "SIGINT ended send or recv.", None),
            Self::Quit => row(Some("interrupted"), "SIGQUIT ended send or recv.", None),
            Self::ReaderGone => {
                row(Some("reader_gone"), "The reader of stdout left before the end, as head does.", None)
            }
            Self::Terminated => row(Some("interrupted"), "SIGTERM ended send, recv or top.", None),
        }
    }
}

const fn row(kind: Option<&'static str>, tcpcat: &'static str, tcplab: Option<&'static str>) -> Row {
    Row { kind, tcpcat, tcplab }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_those_of_the_manual() {
        let all = [
            Exit::Done,
            Exit::Failed,
            Exit::Usage,
            Exit::Refused,
            Exit::Unreachable,
            Exit::Device,
            Exit::File,
            Exit::Verification,
            Exit::HungUp,
            Exit::Interrupted,
            Exit::Quit,
            Exit::ReaderGone,
            Exit::Terminated,
        ];
        assert_eq!(all, Exit::ALL);
        assert_eq!(all.map(Exit::code), [0, 1, 2, 3, 4, 5, 6, 7, 129, 130, 131, 141, 143]);
    }

    #[test]
    fn every_failure_has_a_word_and_tcplab_has_four_codes() {
        assert!(Exit::ALL.iter().all(|exit| exit.kind().is_none() == (*exit == Exit::Done)));
        let lab = Exit::ALL.into_iter().filter(|exit| exit.meaning(Program::Tcplab).is_some());
        assert_eq!(lab.map(Exit::code).collect::<Vec<_>>(), [0, 1, 2, 6]);
    }
}
