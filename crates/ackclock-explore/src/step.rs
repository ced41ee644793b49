//! [`Move`]: what may happen next in a world, and its text.

use std::fmt;
use std::str::FromStr;

use crate::linux::Variation;

/// One of the two endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The end that opens actively.
    Client,
    /// The end that listens.
    Server,
}

impl Side {
    /// Both, the client first.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// The other end.
    #[must_use]
    pub fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// A possible next event. A position counts the packets on the way to that side, from the oldest on, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    /// A packet arrives. Beyond position 0 it overtakes others, which is a fault.
    Deliver(Side, u8),
    /// A packet gets lost: a fault.
    Lose(Side, u8),
    /// A packet arrives and stays on the way, too: a fault.
    Duplicate(Side, u8),
    /// The server acts as a Linux where docs/linux.md lists a difference. The position is that of the packet
    /// on its way to or from the server, or of the call in the setup.
    Vary(Variation, u8),
    /// Time goes on to the side's next timer, which fires. That delays the packets on the way: a fault if
    /// there are any.
    Timer(Side),
    /// Both hosts sleep for an hour: a fault.
    Sleep,
    /// The application makes a call.
    Call(Side, Call),
}

impl Move {
    /// The end at which it happens, if it is one.
    pub(crate) fn side(&self) -> Option<Side> {
        match *self {
            Self::Deliver(side, _) | Self::Duplicate(side, _) | Self::Timer(side) | Self::Call(side, _) => {
                Some(side)
            }
            Self::Vary(variation, _) => (!variation.is_answer()).then_some(Side::Server),
            Self::Lose(..) | Self::Sleep => None,
        }
    }
}

/// A call of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Opens a connection to the peer.
    Connect,
    /// Decides to accept a SYN that waits.
    Decide,
    /// Writes this many bytes.
    Write(u8),
    /// Reads what there is.
    Read,
    /// Ends its stream.
    Shutdown,
    /// Gives the connection up, which finishes by itself.
    Close,
    /// Resets the connection.
    Abort,
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deliver(to, at) => write!(f, "deliver {} {at}", to.name()),
            Self::Lose(to, at) => write!(f, "lose {} {at}", to.name()),
            Self::Duplicate(to, at) => write!(f, "duplicate {} {at}", to.name()),
            Self::Vary(variation, at) => {
                write!(f, "vary {} {at}", variation.entry().map_or("", |entry| entry.name))
            }
            Self::Timer(of) => write!(f, "timer {}", of.name()),
            Self::Sleep => f.write_str("sleep"),
            Self::Call(by, Call::Write(bytes)) => write!(f, "call {} write {bytes}", by.name()),
            Self::Call(by, call) => write!(f, "call {} {}", by.name(), call.name()),
        }
    }
}

impl Call {
    const PLAIN: [Self; 6] =
        [Self::Connect, Self::Decide, Self::Read, Self::Shutdown, Self::Close, Self::Abort];

    fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Decide => "decide",
            Self::Write(_) => "write",
            Self::Read => "read",
            Self::Shutdown => "shutdown",
            Self::Close => "close",
            Self::Abort => "abort",
        }
    }
}

impl FromStr for Move {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let side = |word: &str| Side::BOTH.into_iter().find(|side| side.name() == word).ok_or(());
        let number = |word: &str| word.parse().map_err(|_| ());
        match *words {
            ["deliver", to, at] => Ok(Self::Deliver(side(to)?, number(at)?)),
            ["lose", to, at] => Ok(Self::Lose(side(to)?, number(at)?)),
            ["duplicate", to, at] => Ok(Self::Duplicate(side(to)?, number(at)?)),
            ["vary", name, at] => {
                let entry = Variation::entries().find(|entry| entry.name == name);
                Ok(Self::Vary(entry.ok_or(())?.variation, number(at)?))
            }
            ["timer", of] => Ok(Self::Timer(side(of)?)),
            ["sleep"] => Ok(Self::Sleep),
            ["call", by, "write", bytes] => Ok(Self::Call(side(by)?, Call::Write(number(bytes)?))),
            ["call", by, name] => {
                let call = Call::PLAIN.into_iter().find(|call| call.name() == name);
                Ok(Self::Call(side(by)?, call.ok_or(())?))
            }
            _ => Err(()),
        }
    }
}
