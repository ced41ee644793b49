//! Whom to call of the addresses a name has: the algorithm of RFC 8305 ("Happy Eyeballs", version 2).
//!
//! Both families are asked for at once. Attempts begin one after the other, IPv6 first and then by turns, and the next begins
//! when the one before it has failed or a delay has passed; the first that succeeds is taken, and the others are given up with
//! their futures.
//!
//! Of RFC 8305 only those sentences of §3 to §5 and §8 were read that others quote, not the whole text. RFC 6724 §6, by which §4
//! sorts the addresses of a family, was not read: they stand as the name server gave them.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The answer for one family.
pub(super) type Lookup = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Attempts that run.
struct Attempts<T>(Vec<Pin<Box<dyn Future<Output = io::Result<T>> + Send>>>);

/// Addresses that were not tried, by family.
#[derive(Debug, Default)]
struct Candidates {
    v6: VecDeque<IpAddr>,
    v4: VecDeque<IpAddr>,
    /// Whether the last one that was taken is IPv6's.
    last_was_v6: Option<bool>,
}

/// Tries the addresses that the lookups find; the first success, or the last error that is not this host's own.
pub(super) async fn race<T, F>(
    mut v6: Lookup,
    mut v4: Lookup,
    attempt: impl Fn(IpAddr) -> F,
) -> io::Result<Option<T>>
where
    F: Future<Output = io::Result<T>> + Send + 'static,
{
    let (mut asks_v6, mut asks_v4) = (true, true);
    let (mut candidates, mut attempts) = (Candidates::default(), Attempts(Vec::new()));
    let mut failure: Option<io::Error> = None;
    // When the next attempt may begin.
    let mut due = Instant::now();
    loop {
        tokio::select! {
            biased;
            outcome = attempts.next(), if !attempts.0.is_empty() => match outcome {
                Ok(won) => return Ok(Some(won)),
                Err(error) => {
                    note(&mut failure, error);
                    due = Instant::now();
                }
            },
            answer = &mut v6, if asks_v6 => {
                asks_v6 = false;
                take(answer, &mut candidates.v6, &mut failure);
                if candidates.last_was_v6.is_none() {
                    // RFC 8305 §3: with the AAAA records the first attempt begins, and without any nothing is waited for.
                    due = Instant::now();
                }
            }
            answer = &mut v4, if asks_v4 => {
                asks_v4 = false;
                take(answer, &mut candidates.v4, &mut failure);
                if candidates.last_was_v6.is_none() && asks_v6 {
                    // RFC 8305 §3: where the A records come first, the AAAA records have a short time to follow.
                    due = Instant::now() + RESOLUTION_DELAY;
                }
            }
            () = sleep_until(due), if !candidates.is_empty() => {
                if let Some(addr) = candidates.next() {
                    attempts.0.push(Box::pin(attempt(addr)));
                    due = Instant::now() + ATTEMPT_DELAY;
                }
            }
            else => return failure.map_or(Ok(None), Err),
        }
    }
}

impl Candidates {
    fn is_empty(&self) -> bool {
        self.v6.is_empty() && self.v4.is_empty()
    }

    /// RFC 8305 §4: the families by turns, which is a First Address Family Count of one.
    fn next(&mut self) -> Option<IpAddr> {
        let v6_first = self.last_was_v6 != Some(true);
        let (first, second) =
            if v6_first { (&mut self.v6, &mut self.v4) } else { (&mut self.v4, &mut self.v6) };
        let addr = first.pop_front().or_else(|| second.pop_front())?;
        self.last_was_v6 = Some(addr.is_ipv6());
        Some(addr)
    }
}

impl<T> Attempts<T> {
    /// The next one that is over; the others go on.
    async fn next(&mut self) -> io::Result<T> {
        poll_fn(|cx| {
            for index in 0..self.0.len() {
                if let Poll::Ready(outcome) = self.0[index].as_mut().poll(cx) {
                    drop(self.0.swap_remove(index));
                    return Poll::Ready(outcome);
                }
            }
            Poll::Pending
        })
        .await
    }
}

fn take(answer: io::Result<Vec<IpAddr>>, queue: &mut VecDeque<IpAddr>, failure: &mut Option<io::Error>) {
    match answer {
        Ok(addrs) => queue.extend(addrs.into_iter().take(ADDRESSES_MAX)),
        Err(error) => note(failure, error),
    }
}

/// Keeps the error that says most: that this host has no address of a family says nothing about the one of the name.
fn note(failure: &mut Option<io::Error>, error: io::Error) {
    let is_own = matches!(error.kind(), ErrorKind::AddrNotAvailable | ErrorKind::NetworkUnreachable);
    if failure.is_none() || !is_own {
        *failure = Some(error);
    }
}

/// RFC 8305 §3, Resolution Delay: 50 ms are recommended.
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);
/// RFC 8305 §5, Connection Attempt Delay: 250 ms are recommended.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// The most addresses of a family that are tried.
const ADDRESSES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::{Arc, Mutex};

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// What is found after this time.
    fn after(ms: u64, found: &'static [&'static str]) -> Lookup {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(found.iter().map(|text| ip(text)).collect())
        })
    }

    /// Whom a race calls and when, if only the last of `answers` answers.
    async fn calls(
        v6: Lookup,
        v4: Lookup,
        answers: &'static str,
    ) -> (Vec<(u64, String)>, io::Result<Option<IpAddr>>) {
        let called = Arc::new(Mutex::new(Vec::new()));
        let began = Instant::now();
        let won = race(v6, v4, |addr| {
            called.lock().unwrap().push((began.elapsed().as_millis() as u64, addr.to_string()));
            async move {
                match addr == ip(answers) {
                    true => Ok(addr),
                    false => pending().await,
                }
            }
        });
        let won = won.await;
        (called.lock().unwrap().clone(), won)
    }

    fn expected(calls: &[(u64, &str)]) -> Vec<(u64, String)> {
        calls.iter().map(|&(at, addr)| (at, addr.to_owned())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn families_take_turns_every_quarter_of_a_second() {
        let v6 = after(0, &["fd00::1", "fd00::2", "fd00::3"]);
        let (called, won) = calls(v6, after(0, &["10.0.0.1"]), "fd00::3").await;
        let turns = [(0, "fd00::1"), (250, "10.0.0.1"), (500, "fd00::2"), (750, "fd00::3")];
        assert_eq!((called, won.unwrap()), (expected(&turns), Some(ip("fd00::3"))));
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_of_ipv4_wait_fifty_milliseconds_for_those_of_ipv6() {
        let (called, _) = calls(after(49, &["fd00::1"]), after(0, &["10.0.0.1"]), "fd00::1").await;
        assert_eq!(called, expected(&[(49, "fd00::1")]));
        // They come too late to be first, and are the next.
        let (called, _) =
            calls(after(100, &["fd00::1"]), after(0, &["10.0.0.1", "10.0.0.2"]), "fd00::1").await;
        assert_eq!(called, expected(&[(50, "10.0.0.1"), (300, "fd00::1")]));
        let (called, _) = calls(after(10, &[]), after(0, &["10.0.0.1"]), "10.0.0.1").await;
        assert_eq!(called, expected(&[(10, "10.0.0.1")]));
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_of_ipv6_wait_for_nothing() {
        let (called, _) = calls(after(5, &["fd00::1"]), after(900, &["10.0.0.1"]), "fd00::1").await;
        assert_eq!(called, expected(&[(5, "fd00::1")]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_brings_the_next_attempt_at_once_and_the_last_error_stands() {
        let began = Instant::now();
        let won = race::<(), _>(after(0, &["fd00::1"]), after(0, &["10.0.0.1"]), |addr| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Err(if addr.is_ipv6() { ErrorKind::ConnectionRefused } else { ErrorKind::NetworkUnreachable }
                .into())
        });
        assert_eq!(won.await.unwrap_err().kind(), ErrorKind::ConnectionRefused, "the other says less");
        assert_eq!(began.elapsed(), Duration::from_millis(40));
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_without_addresses_calls_nobody() {
        let (called, won) = calls(after(3, &[]), after(2, &[]), "fd00::1").await;
        assert_eq!((called, won.unwrap()), (vec![], None));
    }
}
