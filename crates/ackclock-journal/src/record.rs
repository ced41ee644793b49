//! Records: what blocks consist of, and how they are read one by one.

use std::io::Read;
use std::sync::Arc;

use ackclock_control::tally::Tally;

use super::block::Blocks;
use super::calls::{Call, ConnectionCall};
use super::sent::SentPacket;
use super::value::Value;
use crate::{Damage, DamageKind, JournalEnd, JournalHeader};
use ackclock_core::Instant;
use ackclock_core::congestion::Registry;
use ackclock_form::{FormError, Reader, Writer};

/// The codes of records other than calls.
pub(super) const HEADER: u8 = 0;
pub(super) const SENT: u8 = 1;
pub(super) const OUTCOME: u8 = 2;
pub(super) const UPDATE_ENDS: u8 = 3;
pub(super) const END: u8 = 4;
pub(super) const TIME: u8 = 5;

/// A record.
#[derive(Debug)]
pub(super) enum Record {
    Header(Box<JournalHeader>),
    /// The packet of the transmission before.
    Sent(SentPacket),
    /// The result of the call before.
    Outcome(u64),
    UpdateEnds,
    End(JournalEnd),
    /// The time of the calls that follow, as a difference in nanoseconds.
    Time(Step),
    Call(Box<Call>),
    ConnectionCall(Box<ConnectionCall>),
}

/// A step of the driver's clock: forwards, or back if another thread had read its clock before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Forward(u64),
    Back(u64),
}

impl Step {
    pub(super) fn from(self, before: Instant) -> Instant {
        let before = before.as_nanos();
        Instant::from_nanos(match self {
            Self::Forward(nanos) => before.saturating_add(nanos),
            Self::Back(nanos) => before.saturating_sub(nanos),
        })
    }
}

/// Appends the step from one time to another, in nanoseconds.
pub(super) fn put_step(before: u64, now: u64, out: &mut Writer) {
    (now < before).put(out);
    now.abs_diff(before).put(out);
}

impl Record {
    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        Ok(match input.byte()? {
            HEADER => Self::Header(Value::take(input)?),
            SENT => Self::Sent(Value::take(input)?),
            OUTCOME => Self::Outcome(Value::take(input)?),
            UPDATE_ENDS => Self::UpdateEnds,
            END => Self::End(Value::take(input)?),
            TIME => {
                let back = bool::take(input)?;
                let nanos = u64::take(input)?;
                Self::Time(if back { Step::Back(nanos) } else { Step::Forward(nanos) })
            }
            code => match Call::take(code, input)? {
                Some(call) => Self::Call(Box::new(call)),
                None => match ConnectionCall::take(code, input)? {
                    Some(call) => Self::ConnectionCall(Box::new(call)),
                    None => return Err(FormError::Code(code)),
                },
            },
        })
    }
}

/// The records of a file.
#[derive(Debug)]
pub(super) struct Records<R> {
    blocks: Blocks<R>,
    registry: Arc<Registry>,
    content: Vec<u8>,
    /// Where the next record begins in the content.
    at: usize,
    /// The number of the next record.
    pub(super) number: u64,
    next: Option<Record>,
    /// Why there are no more.
    over: Option<Result<(), Damage>>,
}

impl<R: Read> Records<R> {
    pub(super) fn open(input: R, registry: Registry) -> Result<Self, Damage> {
        let blocks = Blocks::open(input)?;
        Ok(Self {
            blocks,
            registry: Arc::new(registry),
            content: Vec::new(),
            at: 0,
            number: 0,
            next: None,
            over: None,
        })
    }

    /// The next record, which stays the next one.
    pub(super) fn peek(&mut self) -> Option<&Record> {
        if self.next.is_none() && self.over.is_none() {
            match self.read() {
                Ok(Some(record)) => self.next = Some(record),
                Ok(None) => self.over = Some(Ok(())),
                Err(damage) => self.over = Some(Err(damage)),
            }
        }
        self.next.as_ref()
    }

    /// The next record; `None` at the end of what can be read.
    pub(super) fn next(&mut self) -> Option<Record> {
        self.peek()?;
        self.number.count();
        self.next.take()
    }

    /// The damage at which reading ended, if it was one.
    pub(super) fn damage(&mut self) -> Option<Damage> {
        match self.over.take() {
            Some(Err(damage)) => {
                self.over = Some(Ok(()));
                Some(damage)
            }
            over => {
                self.over = over;
                None
            }
        }
    }

    fn read(&mut self) -> Result<Option<Record>, Damage> {
        while self.at >= self.content.len() {
            self.at = 0;
            if !self.blocks.next(&mut self.content)? {
                self.content.clear();
                return Ok(None);
            }
        }
        let rest = self.content.get(self.at..).unwrap_or_default();
        let offset = self.blocks.offset.saturating_sub(rest.len() as u64);
        let malformed = |malformed| DamageKind::Malformed { record: self.number, malformed }.at(offset);
        let mut input = Reader::new(rest);
        let len = usize::take(&mut input).map_err(malformed)?;
        let record = input.bytes(len).map_err(malformed)?;
        self.at = self.content.len().saturating_sub(input.len());
        let mut input = Reader::new(record);
        input.lend(Arc::clone(&self.registry));
        let record = Record::take(&mut input).map_err(malformed)?;
        input.end().map_err(malformed)?;
        Ok(Some(record))
    }
}
