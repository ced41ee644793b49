//! When the next packet is due: a timer that is right to some microseconds, on tokio's clock.
//!
//! tokio's own timers count milliseconds and end up to two of them late, which is more than the delay of many networks.
//! A timer of the kernel's ends on time, but a processor that was halted takes its time to wake up: so it is set to end
//! earlier by what that took lately, and for the rest the task asks again and again, others having their turns in between.
//! A clock that a test has paused moves for tokio's timers alone, so one of these runs, too.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::sys;

/// A timer that can be set again and again.
#[derive(Debug)]
pub(super) struct Timer {
    coarse: Pin<Box<Sleep>>,
    precise: AsyncFd<File>,
    /// What both are set to, until it has come.
    set: Option<Setting>,
    /// How late the task was woken lately.
    lead: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    deadline: Instant,
    /// When the precise timer ends for that.
    end: Instant,
    /// Since when the task asks again and again, by a clock that is never paused.
    asking_since: Option<std::time::Instant>,
}

impl Timer {
    /// A timer of the present runtime.
    pub(super) fn new() -> io::Result<Self> {
        let timer = sys::timer()?;
        // SAFETY: `File` owns its descriptor, returns the same one always and is dropped by the `AsyncFd` only.
        let precise = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) }?;
        let coarse = Box::pin(sleep_until(Instant::now()));
        Ok(Self { coarse, precise, set: None, lead: Duration::ZERO })
    }

    /// To be called when the task is woken, whatever it finds to do: the timer learns how late that is.
    pub(super) fn woken(&mut self, now: Instant) {
        let Some(set) = self.set.as_mut().filter(|set| now >= set.end) else { return };
        if set.asking_since.is_none() {
            self.lead = ((3 * self.lead + (now - set.end)) / 4).min(LEAD_MAX);
            set.asking_since = Some(std::time::Instant::now());
        }
        if now >= set.deadline {
            self.set = None;
        }
    }

    /// Ready at `deadline` or after it; wakes the task then, or somewhat earlier, to be asked again.
    pub(super) fn poll(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let now = Instant::now();
        self.woken(now);
        if now >= deadline {
            return Poll::Ready(Ok(()));
        }
        let set = match self.set {
            Some(set) if set.deadline == deadline => set,
            _ => self.set(deadline, now)?,
        };
        if self.coarse.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let ended = self.wait(cx)?;
        if ended || set.asking_since.is_some_and(|since| since.elapsed() < 2 * LEAD_MAX) {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn set(&mut self, deadline: Instant, now: Instant) -> io::Result<Setting> {
        let end = deadline.checked_sub(self.lead).unwrap_or(deadline).max(now);
        // Zero would stop it.
        sys::set_timer(self.precise.as_fd(), (end - now).max(Duration::from_nanos(1)))?;
        self.coarse.as_mut().reset(deadline);
        let set = Setting { deadline, end, asking_since: None };
        self.set = Some(set);
        Ok(set)
    }

    /// Has the task woken at the end of the precise timer; whether that has come in the meantime.
    fn wait(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut ended = false;
        while let Poll::Ready(guard) = self.precise.poll_read_ready(cx) {
            let mut guard = guard?;
            match guard.get_inner().read(&mut [0; 8]) {
                Ok(_) => ended = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ended)
    }
}

/// A processor wakes up in less; what is more is other tasks at work, and no earlier end would help against them.
const LEAD_MAX: Duration = Duration::from_micros(250);
