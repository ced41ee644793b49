//! A timer for the next packet, right to some microseconds, on tokio's clock.
//!
//! Tokio's timers count milliseconds and end up to two of them late, which exceeds the delay of many
//! networks. A kernel timer ends on time, but a halted processor takes time to wake up. So this timer is set
//! earlier by the recent wake-up time, and for the rest the task polls repeatedly and lets others run in
//! between. A clock that a test has paused moves only for tokio's timers, so one of these runs too.
//! Without the feature `os` it is alone.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use precise::Precise;

/// A timer that can be set repeatedly.
#[derive(Debug)]
pub(super) struct Timer {
    coarse: Pin<Box<Sleep>>,
    precise: Precise,
    /// The setting of both timers, until it has come.
    set: Option<Setting>,
    /// How late the task has woken recently.
    lead: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    deadline: Instant,
    /// When the precise timer ends because of that.
    end: Instant,
    /// Since when the task polls repeatedly, on a clock that is never paused.
    asking_since: Option<std::time::Instant>,
}

impl Timer {
    /// A timer of the present runtime.
    pub fn new() -> io::Result<Self> {
        let precise = Precise::new()?;
        let coarse = Box::pin(sleep_until(Instant::now()));
        Ok(Self { coarse, precise, set: None, lead: Duration::ZERO })
    }

    /// Call this whenever the task wakes, whatever the reason: the timer learns how late that is.
    pub fn woken(&mut self, now: Instant) {
        let Some(set) = self.set.as_mut().filter(|set| now >= set.end) else { return };
        if set.asking_since.is_none() {
            self.lead = ((3 * self.lead + (now - set.end)) / 4).min(LEAD_MAX);
            set.asking_since = Some(std::time::Instant::now());
        }
        if now >= set.deadline {
            self.set = None;
        }
    }

    /// Ready at `deadline` or later. Wakes the task then, or slightly earlier, to poll again.
    pub fn poll(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
        let ended = self.precise.poll_end(cx)?;
        if ended || set.asking_since.is_some_and(|since| since.elapsed() < 2 * LEAD_MAX) {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn set(&mut self, deadline: Instant, now: Instant) -> io::Result<Setting> {
        let end = deadline.checked_sub(self.lead).unwrap_or(deadline).max(now);
        // Zero would stop it.
        self.precise.set((end - now).max(Duration::from_nanos(1)))?;
        self.coarse.as_mut().reset(deadline);
        let set = Setting { deadline, end, asking_since: None };
        self.set = Some(set);
        Ok(set)
    }
}

/// A processor wakes up faster than this. More delay comes from other tasks, and an earlier end would not
/// help.
const LEAD_MAX: Duration = Duration::from_micros(250);

/// The kernel's timer.
#[cfg(feature = "os")]
mod precise {
    use std::fs::File;
    use std::io::{self, Read};
    use std::os::fd::AsFd;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use crate::sys;

    #[derive(Debug)]
    pub(super) struct Precise(AsyncFd<File>);

    impl Precise {
        pub fn new() -> io::Result<Self> {
            let timer = sys::timer()?;
            #[expect(unsafe_code, reason = "tokio asks for a promise")]
            // SAFETY: `File` owns its descriptor, always returns the same one, and only the `AsyncFd` drops
            // it.
            let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) }?;
            Ok(Self(timer))
        }

        pub fn set(&self, delay: Duration) -> io::Result<()> {
            sys::set_timer(self.0.as_fd(), delay)
        }

        /// Arms the timer to wake the task. Returns whether it has expired meanwhile.
        pub fn poll_end(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
            let mut ended = false;
            while let Poll::Ready(guard) = self.0.poll_read_ready(cx) {
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
}

/// Without one, tokio's timer is all there is, to the millisecond.
#[cfg(not(feature = "os"))]
mod precise {
    use std::io;
    use std::task::Context;
    use std::time::Duration;

    #[derive(Debug)]
    pub(super) struct Precise;

    impl Precise {
        pub fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub fn set(&self, _: Duration) -> io::Result<()> {
            Ok(())
        }

        pub fn poll_end(&mut self, _: &mut Context<'_>) -> io::Result<bool> {
            Ok(false)
        }
    }
}
