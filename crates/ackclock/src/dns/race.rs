//! Which of a name's addresses to connect to: the algorithm of RFC 8305 ("Happy Eyeballs", version 2).
//!
//! Both families are looked up at once (§3). Attempts start one after the other (§5), IPv6 first and then
//! alternating (§4). The next one starts when the previous one has failed or a delay has passed. The first
//! that succeeds wins, and the others are dropped (§5). Addresses that arrive while attempts run join the
//! waiting ones in turn (§3). The values are those of §8 ([`HappyEyeballs`]).
//!
//! Deviations: the delay between attempts is fixed and not taken from earlier round trips, as §5 also allows.
//! A failed attempt starts the next at once, but no earlier than 10 ms after its own start; §5 does not
//! mention failures. The families alternate, IPv6 first, whatever precedence RFC 6724 gives to single
//! addresses. §7 (NAT64 without 464XLAT) is not implemented: the stack is given its addresses and prefixes,
//! and discovers none.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use crate::name_servers::{HappyEyeballs, Lookup};

/// Running attempts, and when the next may start.
struct Attempts<T> {
    running: Vec<Pin<Box<dyn Future<Output = io::Result<T>> + Send>>>,
    /// When the last one started.
    began: Option<Instant>,
    due: Instant,
}

/// Addresses not tried yet, by family.
#[derive(Debug)]
struct Candidates {
    v6: VecDeque<IpAddr>,
    v4: VecDeque<IpAddr>,
    /// How many more IPv6 addresses come before the families alternate.
    lead: usize,
    /// Whether the last address taken was IPv6.
    last_was_v6: Option<bool>,
}

/// Tries the addresses that the lookups find. Returns the first success, or the last error that did not arise
/// on this host.
pub(super) async fn race<T, F>(
    eyeballs: HappyEyeballs,
    mut v6: Lookup,
    mut v4: Lookup,
    attempt: impl Fn(IpAddr) -> F,
) -> io::Result<Option<T>>
where
    F: Future<Output = io::Result<T>> + Send + 'static,
{
    let (mut asks_v6, mut asks_v4) = (true, true);
    let (mut candidates, mut attempts) = (Candidates::new(eyeballs.first_family), Attempts::new());
    let mut failure: Option<io::Error> = None;
    loop {
        let due = attempts.due;
        tokio::select! {
            biased;
            outcome = attempts.next(), if !attempts.running.is_empty() => match outcome {
                Ok(won) => {
                    [(v6, asks_v6), (v4, asks_v4)].into_iter().for_each(|(lookup, asks)| hear_out(lookup, asks));
                    return Ok(Some(won));
                }
                Err(error) => {
                    attempts.failed(is_own(&error));
                    note(&mut failure, error);
                }
            },
            // RFC 8305 §3: the AAAA query goes out first, immediately followed by the A query.
            answer = &mut v6, if asks_v6 => {
                asks_v6 = false;
                take(answer, &mut candidates.v6, &mut failure);
                // RFC 8305 §3: the AAAA records start the first attempt, and if there are none, the wait
                // ends.
                attempts.first_after(Duration::ZERO);
            }
            answer = &mut v4, if asks_v4 => {
                asks_v4 = false;
                take(answer, &mut candidates.v4, &mut failure);
                if asks_v6 {
                    // RFC 8305 §3: if the A records come first, the AAAA records get a short time to follow.
                    attempts.first_after(eyeballs.resolution_delay);
                }
            }
            () = sleep_until(due), if !candidates.is_empty() => {
                if let Some(addr) = candidates.next() {
                    attempts.begin(Box::pin(attempt(addr)), eyeballs.attempt_delay);
                }
            }
            else => return failure.map_or(Ok(None), Err),
        }
    }
}

impl Candidates {
    fn new(lead: usize) -> Self {
        Self { v6: VecDeque::new(), v4: VecDeque::new(), lead, last_was_v6: None }
    }

    fn is_empty(&self) -> bool {
        self.v6.is_empty() && self.v4.is_empty()
    }

    /// RFC 8305 §4: IPv6 addresses up to the First Address Family Count, then the families alternate.
    fn next(&mut self) -> Option<IpAddr> {
        let v6_first = self.lead > 0 || self.last_was_v6 != Some(true);
        let (first, second) =
            if v6_first { (&mut self.v6, &mut self.v4) } else { (&mut self.v4, &mut self.v6) };
        let addr = first.pop_front().or_else(|| second.pop_front())?;
        self.lead = self.lead.saturating_sub(usize::from(addr.is_ipv6()));
        self.last_was_v6 = Some(addr.is_ipv6());
        Some(addr)
    }
}

impl<T> Attempts<T> {
    fn new() -> Self {
        Self { running: Vec::new(), began: None, due: Instant::now() }
    }

    /// If no attempt has started, the first one may after this time.
    fn first_after(&mut self, delay: Duration) {
        if self.began.is_none() {
            self.due = Instant::now() + delay.min(RESOLUTION_DELAY_MAX);
        }
    }

    fn begin(&mut self, attempt: Pin<Box<dyn Future<Output = io::Result<T>> + Send>>, delay: Duration) {
        let now = Instant::now();
        self.running.push(attempt);
        (self.began, self.due) = (Some(now), now + delay);
    }

    /// An attempt failed, perhaps because this host has no route to its address, so that nothing was sent.
    fn failed(&mut self, is_own: bool) {
        let now = Instant::now();
        // RFC 8305 §5: an attempt MUST NOT begin within 10 ms of the one before it.
        let earliest = self.began.filter(|_| !is_own).map_or(now, |began| began + ATTEMPTS_APART_MIN);
        self.due = now.max(earliest).min(self.due);
    }

    /// The next attempt to finish; the others continue.
    async fn next(&mut self) -> io::Result<T> {
        poll_fn(|cx| {
            for index in 0..self.running.len() {
                if let Poll::Ready(outcome) = self.running[index].as_mut().poll(cx) {
                    drop(self.running.swap_remove(index));
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

/// RFC 8305 §5: an answer that arrives shortly after the race is still taken, for the next connection.
fn hear_out(lookup: Lookup, asks: bool) {
    if asks {
        tokio::spawn(timeout(HEARD_OUT_FOR, lookup));
    }
}

/// Keeps the more useful error: that this host has no address of one family says little about the name's
/// addresses.
fn note(failure: &mut Option<io::Error>, error: io::Error) {
    if failure.is_none() || !is_own(&error) {
        *failure = Some(error);
    }
}

/// Whether an attempt failed on this host, before anything was sent.
fn is_own(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::AddrNotAvailable | ErrorKind::NetworkUnreachable)
}

/// RFC 8305 §5.
const ATTEMPTS_APART_MIN: Duration = Duration::from_millis(10);
/// RFC 8305 §5 recommends 1 s.
const HEARD_OUT_FOR: Duration = Duration::from_secs(1);
/// No clock reaches the longest time that a program can ask for.
const RESOLUTION_DELAY_MAX: Duration = Duration::from_secs(24 * 3600);
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

    /// A lookup that finds these after this time.
    fn after(ms: u64, found: &'static [&'static str]) -> Lookup {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(found.iter().map(|text| ip(text)).collect())
        })
    }

    /// Which addresses a race calls, and when, if only `answers` answers.
    async fn calls(
        v6: Lookup,
        v4: Lookup,
        answers: &'static str,
    ) -> (Vec<(u64, String)>, io::Result<Option<IpAddr>>) {
        calls_with(HappyEyeballs::default(), v6, v4, answers).await
    }

    async fn calls_with(
        eyeballs: HappyEyeballs,
        v6: Lookup,
        v4: Lookup,
        answers: &'static str,
    ) -> (Vec<(u64, String)>, io::Result<Option<IpAddr>>) {
        let called = Arc::new(Mutex::new(Vec::new()));
        let began = Instant::now();
        let won = race(eyeballs, v6, v4, |addr| {
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
        // They come too late to be first, and go next.
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
        let (v6, v4) = (after(0, &["fd00::1"]), after(0, &["10.0.0.1"]));
        let won = race::<(), _>(HappyEyeballs::default(), v6, v4, |addr| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Err(if addr.is_ipv6() { ErrorKind::ConnectionRefused } else { ErrorKind::NetworkUnreachable }
                .into())
        });
        assert_eq!(won.await.unwrap_err().kind(), ErrorKind::ConnectionRefused, "the other says less");
        assert_eq!(began.elapsed(), Duration::from_millis(40));
    }

    // RFC 8305 §5: an attempt MUST NOT begin within 10 ms of the one before it.
    #[tokio::test(start_paused = true)]
    async fn refusals_within_ten_milliseconds_do_not_bring_attempts_closer_together() {
        for (error, apart) in [(ErrorKind::ConnectionRefused, 10), (ErrorKind::NetworkUnreachable, 0)] {
            let began = Instant::now();
            let called = Arc::new(Mutex::new(Vec::new()));
            let v6 = after(0, &["fd00::1", "fd00::2", "fd00::3"]);
            let won = race::<(), _>(HappyEyeballs::default(), v6, after(0, &[]), |_| {
                called.lock().unwrap().push(began.elapsed().as_millis());
                async move { Err(error.into()) }
            });
            assert_eq!(won.await.unwrap_err().kind(), error);
            assert_eq!(
                *called.lock().unwrap(),
                [0, apart, 2 * apart],
                "nothing is sent where there is no route"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_addresses_is_tried_up_to_the_bound_and_the_other_family_keeps_its_turn() {
        let addrs = |prefix: &str| (1..100).map(|n| ip(&format!("{prefix}{n}"))).collect::<Vec<_>>();
        let (v6, v4) = (addrs("fd00::"), addrs("10.0.0."));
        let flood = |addrs: &[IpAddr]| -> Lookup {
            let found = addrs.to_vec();
            Box::pin(async move { Ok(found) })
        };
        let (called, won) = calls(flood(&v6), after(0, &["10.0.0.1"]), "10.0.0.1").await;
        assert_eq!(called, expected(&[(0, "fd00::1"), (250, "10.0.0.1")]));
        assert_eq!(won.unwrap(), Some(ip("10.0.0.1")));

        let called = Mutex::new(Vec::new());
        let won = race::<(), _>(HappyEyeballs::default(), flood(&v6), flood(&v4), |addr| {
            called.lock().unwrap().push(addr);
            async move { Err(ErrorKind::ConnectionRefused.into()) }
        });
        assert_eq!(won.await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        // In turn, and of each family those that its answer has first.
        let in_turn: Vec<_> = v6.into_iter().zip(v4).take(16).flat_map(|(v6, v4)| [v6, v4]).collect();
        assert_eq!(*called.lock().unwrap(), in_turn);
    }

    #[tokio::test(start_paused = true)]
    async fn the_values_of_section_8_can_be_others() {
        let eyeballs = HappyEyeballs::default()
            .first_family_count(2)
            .attempt_delay(Duration::from_millis(100))
            .resolution_delay(Duration::from_millis(7));
        let v6 = after(0, &["fd00::1", "fd00::2", "fd00::3", "fd00::4"]);
        let v4 = after(0, &["10.0.0.1", "10.0.0.2"]);
        let (called, _) = calls_with(eyeballs, v6, v4, "fd00::4").await;
        let families = ["fd00::1", "fd00::2", "10.0.0.1", "fd00::3", "10.0.0.2", "fd00::4"];
        let turns: Vec<_> = families.iter().zip(0..).map(|(&addr, turn)| (turn * 100, addr)).collect();
        assert_eq!(called, expected(&turns));
        let (called, _) =
            calls_with(eyeballs, after(8, &["fd00::1"]), after(0, &["10.0.0.1"]), "fd00::1").await;
        assert_eq!(called, expected(&[(7, "10.0.0.1"), (107, "fd00::1")]));
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_resolution_delay_waits_for_the_other_answer() {
        let eyeballs = HappyEyeballs::default().resolution_delay(Duration::MAX);
        let (called, _) =
            calls_with(eyeballs, after(5000, &["fd00::1"]), after(0, &["10.0.0.1"]), "fd00::1").await;
        assert_eq!(called, expected(&[(5000, "fd00::1")]));
    }

    #[tokio::test(start_paused = true)]
    async fn the_winner_ends_the_other_attempts_and_an_answer_under_way_is_heard_for_a_second() {
        for (late, heard) in [(999, true), (1001, false)] {
            let arrived = Arc::new(Mutex::new(false));
            let note = Arc::clone(&arrived);
            let v4 = Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(250 + late)).await;
                *note.lock().unwrap() = true;
                Ok::<_, io::Error>(Vec::new())
            });
            let running = Arc::new(());
            let won = race(HappyEyeballs::default(), after(0, &["fd00::1", "fd00::2"]), v4, |addr| {
                let attempt = Arc::clone(&running);
                async move {
                    let _runs = attempt;
                    match addr == ip("fd00::2") {
                        true => Ok(addr),
                        false => pending().await,
                    }
                }
            });
            assert_eq!(won.await.unwrap(), Some(ip("fd00::2")));
            assert_eq!(Arc::strong_count(&running), 1, "the first attempt is dropped");
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(*arrived.lock().unwrap(), heard);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_without_addresses_calls_nobody() {
        let (called, won) = calls(after(3, &[]), after(2, &[]), "fd00::1").await;
        assert_eq!((called, won.unwrap()), (vec![], None));
    }
}
