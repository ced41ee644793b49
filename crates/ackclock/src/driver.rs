//! The task that owns the device: it carries packets and time between the device, the clock and the endpoint.
//!
//! One turn receives a batch, hands it to the endpoint, does what is due, sends what the endpoint has, and
//! wakes the tasks that wait for the results. After a turn that found nothing to do, the driver sleeps until
//! the device, the timer or a call wakes it. It makes no TCP decisions.
//!
//! On a single-threaded runtime the tasks that a turn wakes run before the next turn, and read while the
//! bytes are in the cache. After a few bytes they run even before the acknowledgements are sent: their reply,
//! or the end of the stream, goes in the same packet. On several threads the driver does not wait for them,
//! since another thread may be busy with other work for long.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ackclock_core::later::Scope;
use ackclock_core::{Instant, RxPacket, Stray};
use ackclock_device::ReceiveBatch;
use tokio::runtime::RuntimeFlavor;
use tokio::task::coop;
use tokio::time::Sleep;

use crate::StackError;
use crate::clock::ShardClock;
use crate::shards::ShardRef;
use crate::shared::Shared;
use crate::sleepers;
use crate::spin::Spin;
use crate::state::{Phase, StackState, Turns};
use crate::transmit::{limits, transmit};

/// Drives a shard on tokio.
#[derive(Debug)]
pub(crate) struct Driver {
    shared: ShardRef,
    packets: Packets,
    /// Whether the other shards know that this one has nothing left to finish.
    finished: bool,
    sleep: Pin<Box<Sleep>>,
    /// When `sleep` ends; `None`: it is not set to a useful time.
    sleep_until: Option<Instant>,
    woken: Vec<Waker>,
    spin: Spin,
    /// Whether the tasks that a turn wakes run on this thread, before the driver's next turn if it lets them.
    lets_others_first: bool,
    /// The previous turn left its packets unsent until the tasks that it woke have run. This counts how often
    /// the driver may still wait for them, since they wake others in turn.
    owes: bool,
    waits_left: u32,
    /// Packets since the driver slept, and whether there was exactly one between the last two times.
    since_sleep: usize,
    lone: bool,
    backlog: Backlog,
    capabilities_due: Instant,
    /// How often connections had pleaded for memory when the other shards' drivers were last woken for it.
    refusals: u32,
    /// The device's abilities when last asked, and now.
    generations: (Option<u64>, Option<u64>),
}

/// The packets of a shard in one turn.
#[derive(Debug)]
struct Packets {
    /// From its device.
    batch: ReceiveBatch,
    /// From another shard.
    taken: VecDeque<Stray>,
    /// From its device, for another shard.
    strays: Vec<Stray>,
}

/// The result of a turn.
enum Turn {
    /// Something was done: there may be more.
    Busy,
    /// Other tasks have something to do now, and the driver may have more once they have done it.
    Others,
    /// Nothing to do before `sleep_until`; the driver is noted as asleep.
    Idle,
    /// The stack is down.
    Over,
}

impl Driver {
    pub fn new(shared: ShardRef, busy_poll: Duration) -> Self {
        let batch = ReceiveBatch::new(BATCH_PACKETS, BATCH_BYTES);
        Self {
            shared,
            packets: Packets { batch, taken: VecDeque::new(), strays: Vec::new() },
            finished: false,
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            sleep_until: None,
            woken: Vec::new(),
            spin: Spin::new(busy_poll),
            lets_others_first: false,
            owes: false,
            waits_left: 0,
            since_sleep: 0,
            lone: false,
            backlog: Backlog::default(),
            capabilities_due: Instant::ZERO,
            refusals: 0,
            generations: (None, None),
        }
    }

    /// Drives the stack until it is down, then drops the device.
    pub async fn run(self) {
        let flavor = tokio::runtime::Handle::current().runtime_flavor();
        self.run_beside(matches!(flavor, RuntimeFlavor::CurrentThread)).await;
    }

    /// As [`run`](Self::run). `tasks` says whether the tasks that the driver wakes run on its thread.
    pub async fn run_beside(mut self, tasks: bool) {
        self.lets_others_first = tasks;
        let turns = if self.lets_others_first { Turns::WithTasks } else { Turns::Alone };
        self.shared.lock().stack.turns = turns;
        // The driver yields on its own, and the runtime's budget would interrupt it in the middle of sending.
        coop::unconstrained(poll_fn(|cx| self.poll(cx))).await;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.owes && self.waits_on() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut received = self.receive(cx);
        // No packet waits in the batch between two polls: it would be lost to a process that takes over.
        for turns_left in (0..TURNS_PER_POLL).rev() {
            match self.turn(cx, received) {
                Turn::Others => break,
                Turn::Over => return Poll::Ready(()),
                Turn::Idle if self.sleeps(cx) => {
                    if !self.spin.is_wanted() || !self.spin.begins(self.shared.now()) {
                        return Poll::Pending;
                    }
                    if turns_left == 0 {
                        break;
                    }
                    received = self.receive_spinning(cx);
                    if self.found_nothing(&received) {
                        break;
                    }
                }
                Turn::Busy | Turn::Idle if turns_left == 0 => break,
                Turn::Busy | Turn::Idle => received = self.receive(cx),
            }
        }
        gives_way(cx)
    }

    /// Whether the woken tasks have acted since the driver last looked, and may have woken others in turn.
    fn waits_on(&mut self) -> bool {
        self.waits_left = if self.shared.take_acted() { self.waits_left.saturating_sub(1) } else { 0 };
        self.waits_left > 0
    }

    fn turn(&mut self, cx: &mut Context<'_>, received: io::Result<()>) -> Turn {
        // A destructor that panics leaves no task asleep.
        let _scope = Scope::enter();
        let now = self.shared.now();
        let shared = self.shared.clone();
        let mut guard = shared.lock();
        let locked = &mut *guard;
        locked.driver.unpark();
        if self.generations.0 != self.generations.1 {
            self.generations.0 = self.generations.1;
            refresh_capabilities(&shared, &mut locked.stack, now);
        }
        let worked = received.and_then(|()| self.work(&mut locked.stack, cx, now));
        let busy = worked.unwrap_or_else(|error| {
            // Another shard may have closed cleanly before, and its peer with it.
            let over = shared.have_finished();
            let why = if over { StackError::Shutdown } else { StackError::Device(Arc::new(error)) };
            locked.stack.go_down(now, why);
            true
        });
        if cfg!(debug_assertions) {
            sleepers::check(&locked.stack);
        }
        std::mem::swap(&mut self.woken, &mut locked.stack.woken);
        let turn = if matches!(locked.stack.phase, Phase::Down(_)) {
            Turn::Over
        } else if busy || !self.woken.is_empty() {
            self.spin.found_work(now);
            self.since_sleep += self.packets.batch.len();
            if now >= self.capabilities_due {
                self.capabilities_due = now + CAPABILITIES_EVERY;
                refresh_capabilities(&shared, &mut locked.stack, now);
            }
            if self.lets_others_first && !self.woken.is_empty() {
                locked.driver.let_others(cx.waker(), now);
                shared.take_acted();
                self.waits_left = WAITS;
                Turn::Others
            } else {
                Turn::Busy
            }
        } else {
            self.lone = self.since_sleep <= 1;
            self.since_sleep = 0;
            self.sleep_until = sleep_until(self.sleep_until, locked.stack.poll_timeout(), now);
            locked.stack.endpoint.flush_journal();
            locked.driver.park(cx.waker(), self.sleep_until);
            Turn::Idle
        };
        if matches!(turn, Turn::Over) {
            // Before any task can see the end: a task that waited for the end may open the device again.
            drop(shared.device().take());
        }
        let (down, has_news) = (locked.stack.down(), locked.stack.has_news());
        let refusals = std::mem::replace(&mut self.refusals, locked.stack.endpoint.memory_refusals());
        drop(guard);
        if refusals != self.refusals {
            shared.wake_others();
        }
        shared.hand_over(&mut self.packets.strays);
        if let Some(why) = down {
            shared.spread(&why);
        }
        self.woken.drain(..).for_each(Waker::wake);
        if has_news {
            self.shared.tell();
        }
        turn
    }

    /// Receives what is there, under the device's lock alone.
    fn receive(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let batch = &mut self.packets.batch;
        batch.clear();
        if self.lets_others_first && self.lone && self.since_sleep == 0 {
            // This is probably another single request; answer it without a look at the device.
            batch.limit(1);
        }
        let mut device = self.shared.device();
        let Some(device) = device.as_mut() else { return Ok(()) };
        let received = device.poll_receive(cx, batch);
        self.generations.1 = Some(device.generation());
        self.shared.set_carrying(!batch.is_empty());
        match received {
            Poll::Ready(Err(error)) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            Poll::Ready(_) | Poll::Pending => Ok(()),
        }
    }

    /// Polls for a short time until something arrives.
    fn receive_spinning(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        for _ in 0..SPINS_PER_POLL {
            let received = self.receive(cx);
            if !self.found_nothing(&received) {
                return received;
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn found_nothing(&self, received: &io::Result<()>) -> bool {
        received.is_ok() && self.packets.batch.is_empty()
    }

    /// The endpoint's part of a turn. Returns whether there was anything to do.
    fn work(&mut self, stack: &mut StackState, cx: &mut Context<'_>, now: Instant) -> io::Result<bool> {
        if self.shared.all().len() > 1 {
            self.shared.inbox.take(&mut self.packets.taken);
        }
        let mut busy = !self.packets.batch.is_empty() || !self.packets.taken.is_empty();
        if std::mem::take(&mut self.owes) {
            busy |= self.send(stack, cx, now)?;
        }
        let bytes = self.packets.hand_in(stack, now);
        self.shared.set_carrying(false);
        let news = self.backlog.after(self.packets.batch.len(), bytes, self.packets.batch.is_full());
        if let Some(behind) = news.is_behind {
            stack.endpoint.set_behind(behind);
        }
        stack.endpoint.open_windows(now, news.opening as u64);
        stack.handle_timeout(now);
        stack.dispatch(now);
        stack.release_writers(now);
        if self.lets_others_first && !stack.woken.is_empty() && bytes < STREAM_MIN {
            self.owes = true;
        } else {
            busy |= self.send(stack, cx, now)?;
        }
        let goes_on =
            stack.endpoint.has_looped() || stack.endpoint.has_windows_to_open() || stack.writers.any_waits();
        Ok(busy || goes_on)
    }

    /// Sends what the endpoint has. Returns whether there was anything.
    fn send(&mut self, stack: &mut StackState, cx: &mut Context<'_>, now: Instant) -> io::Result<bool> {
        let mut device = self.shared.device();
        let Some(device) = device.as_mut() else { return Ok(false) };
        let sent = transmit(stack, device, cx, now, self.shared.clock())?;
        stack.dispatch(now);
        // The last packets of a connection may still wait for the stack's rate.
        let all_sent = !sent.more && !stack.endpoint.is_held();
        if stack.has_finished() && all_sent && self.shared.finish(&mut self.finished) {
            stack.go_down(now, StackError::Shutdown);
        }
        Ok(sent.packets > 0 || sent.looped)
    }

    /// Sets the timer. Returns whether it is still running.
    fn sleeps(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(until) = self.sleep_until else { return true };
        // The owner of a port has no driver.
        let ShardClock::Runtime(clock) = self.shared.clock() else { return true };
        let deadline = clock.deadline(until);
        if self.sleep.deadline() != deadline {
            self.sleep.as_mut().reset(deadline);
        }
        self.sleep.as_mut().poll(cx).is_pending()
    }
}

/// Whether packets have arrived faster than the driver took them, for some time.
#[derive(Debug, Default)]
struct Backlog {
    /// Turns whose batches were full of packets, less those whose batches were full of bytes: a stream from
    /// one sender, who waits.
    full_turns: u32,
    is_behind: bool,
}

/// News after a batch: by how much receive windows may open, and whether the driver is behind, if that has
/// changed.
#[derive(Debug, Default, PartialEq, Eq)]
struct BacklogNews {
    opening: usize,
    is_behind: Option<bool>,
}

impl Backlog {
    /// Takes note of a batch of this many packets and bytes. `full`: the batch had no room for another
    /// packet.
    fn after(&mut self, packets: usize, bytes: usize, full: bool) -> BacklogNews {
        self.full_turns = match (packets >= BATCH_PACKETS, bytes >= BATCH_BYTES / 2) {
            (true, _) => (self.full_turns + 1).min(2 * FULL_TURNS),
            (false, true) => self.full_turns.saturating_sub(1),
            (false, false) => 0,
        };
        let news = |was: &mut bool, is: bool| (std::mem::replace(was, is) != is).then_some(is);
        BacklogNews {
            opening: if full { bytes / 2 } else { OPENING },
            is_behind: news(&mut self.is_behind, self.full_turns >= FULL_TURNS),
        }
    }
}

impl Packets {
    /// Gives the packets to the endpoint, and takes out those of other shards. Returns the bytes that came
    /// from the device.
    fn hand_in(&mut self, stack: &mut StackState, now: Instant) -> usize {
        for stray in self.taken.drain(..) {
            stack.endpoint.handle_stray(now, &stray);
        }
        let mut all_bytes = 0;
        let packets = self.batch.iter().enumerate().map(|(at, (bytes, meta))| {
            all_bytes += bytes.len();
            RxPacket { bytes, meta, block: self.batch.lend(at) }
        });
        stack.endpoint.handle_packets(now, packets);
        self.strays.extend(std::iter::from_fn(|| stack.endpoint.poll_stray()));
        all_bytes
    }
}

impl Drop for Driver {
    /// The runtime may drop the task at any time: no call may wait for a driver that is gone.
    fn drop(&mut self) {
        let now = self.shared.now();
        let mut locked = self.shared.lock();
        let was_up = locked.stack.down().is_none();
        if std::thread::panicking() {
            locked.stack.stop(StackError::DriverGone);
        } else if !matches!(locked.stack.phase, Phase::Down(_)) {
            locked.stack.go_down(now, StackError::DriverGone);
        }
        let woken = std::mem::take(&mut locked.stack.woken);
        drop(locked);
        drop(self.shared.device().take());
        if was_up {
            self.shared.spread(&StackError::DriverGone);
        }
        woken.into_iter().for_each(Waker::wake);
        self.shared.tell();
    }
}

/// Yields, so that other tasks of this thread run and the runtime looks for I/O.
fn gives_way(cx: &Context<'_>) -> Poll<()> {
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Decides how long to sleep when `due` is the next deadline. It leaves a timer alone that ends earlier: each
/// segment restarts the retransmission timer, and one extra wake-up in hundreds of milliseconds costs less
/// than setting tokio's timer each time, and waking the driver for it.
fn sleep_until(set: Option<Instant>, due: Option<Instant>, now: Instant) -> Option<Instant> {
    let is_early = |set: &Instant| *set > now && due.is_none_or(|due| *set <= due);
    set.filter(is_early).or(due)
}

/// Asks the device again about its abilities.
fn refresh_capabilities(shared: &Shared, stack: &mut StackState, now: Instant) {
    let asked = shared.device().as_ref().map(|device| (device.capabilities(), device.routes()));
    let Some((capabilities, routes)) = asked else { return };
    stack.limits = limits(&capabilities);
    stack.network.set_device_mtu(&mut stack.endpoint, now, capabilities.mtu);
    stack.network.set_device_routes(&mut stack.endpoint, now, routes);
}

/// Packets in one batch, processed under one lock.
const BATCH_PACKETS: usize = 64;
/// Bytes in one batch: room for 64 packets of the MTU's size or four of 64 KB. Together with the receive
/// buffer and the reader's own buffer it fits a processor's second-level cache.
const BATCH_BYTES: usize = 264 << 10;
/// Bytes by which receive windows open in total in a turn whose batch had room for more. A full batch means a
/// long queue; windows then open by half of the batch, and the queue gets shorter.
const OPENING: usize = 768 << 10;
/// A batch of this many bytes is part of a stream, whose sender waits for the acknowledgement; a smaller one
/// may be a request.
const STREAM_MIN: usize = 32 << 10;
/// After this many full batches the driver is behind: they hold as much as TUN's default queue.
const FULL_TURNS: u32 = 8;
/// Turns before the thread's other tasks run.
const TURNS_PER_POLL: usize = 8;
/// How often the driver waits for tasks that other tasks have woken: an accept loop spawns a task, which
/// reads the request, and perhaps another one answers.
const WAITS: u32 = 4;
/// How often the device is polled before the thread's other tasks run: some microseconds.
const SPINS_PER_POLL: usize = 16;
/// How often a device is asked about its abilities.
const CAPABILITIES_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;
    use std::sync::{Mutex, MutexGuard};

    use ackclock_core::OtherPacket;
    use ackclock_device::{Capabilities, Device};
    use ackclock_wire::{ChecksumAt, ChecksumState, RxMeta, TxPacket};

    use super::*;
    use crate::Stack;

    /// A device whose room, and packets at a time, a test decides on.
    #[derive(Clone, Debug, Default)]
    struct Gate(Arc<Mutex<Inside>>);

    #[derive(Debug, Default)]
    struct Inside {
        arriving: VecDeque<OtherPacket>,
        at_a_time: usize,
        room: usize,
        sent: Vec<Sent>,
    }

    /// A packet as the device got it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Sent {
        bytes: Vec<u8>,
        transport_offset: u16,
        segment_size: Option<NonZeroU16>,
        checksum: ChecksumState,
    }

    impl Gate {
        fn inside(&self) -> MutexGuard<'_, Inside> {
            self.0.lock().unwrap()
        }
    }

    impl Device for Gate {
        fn capabilities(&self) -> Capabilities {
            let plain = Capabilities::ip(1500);
            Capabilities { gso_max_v4: 65_535, gso_max_v6: 65_535, tx_checksum: true, ..plain }
        }

        fn poll_receive(&mut self, _: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
            let mut inside = self.inside();
            let count = inside.at_a_time.min(inside.arriving.len());
            for packet in inside.arriving.drain(..count) {
                assert!(batch.push(&packet.bytes, packet.meta));
            }
            if count > 0 { Poll::Ready(Ok(count)) } else { Poll::Pending }
        }

        fn poll_send_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            if self.inside().room > 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
        }

        fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
            let TxPacket { transport_offset, segment_size, checksum, .. } = *packet;
            let mut inside = self.inside();
            inside.room = inside.room.checked_sub(1).expect("it was ready");
            inside.sent.push(Sent { bytes: packet.to_vec(), transport_offset, segment_size, checksum });
            Ok(())
        }
    }

    /// A stack that passes on what is not its own, its device, and its driver, which the test polls.
    fn driven() -> (Stack, Gate, Driver) {
        let gate = Gate::default();
        let builder = Stack::builder().address("10.0.0.1/24".parse().unwrap()).seed(7);
        let builder = builder.device(gate.clone()).other_packets(1024);
        let (stack, shards) = builder.assemble(&[tokio::runtime::Handle::current()]).unwrap();
        let driver = Driver::new(shards.refs().next().unwrap(), Duration::ZERO);
        (stack, gate, driver)
    }

    fn poll(driver: &mut Driver) {
        assert!(driver.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }

    /// Packets that are not the stack's: whole and cut, checksums finished and not, traffic class, hop limit.
    fn others() -> Vec<OtherPacket> {
        let unfinished = ChecksumState::Partial(ChecksumAt::tcp(20));
        let said = [
            (64, 0, None, ChecksumState::Complete),
            (64, 0, NonZeroU16::new(500), unfinished),
            (1, 0xb8, None, unfinished),
            (255, 0x02, NonZeroU16::new(1000), unfinished),
            (64, 0x03, None, ChecksumState::Complete),
        ];
        let packet = |(number, (ttl, tos, segment_size, checksum))| {
            let [high, low] = 1240_u16.to_be_bytes();
            let mut bytes = vec![0x45, tos, high, low, 0, number, 0x40, 0, ttl, 6, 0, 0];
            bytes.extend([10, 9, 0, 1, 10, 9, 0, 2]);
            let sum = ackclock_wire::checksum::sum(&bytes).checksum();
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            bytes.extend([0x12, 0x34, 0, 80, 0, 0, 0, number, 0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
            bytes.extend([number; 1200]);
            let [src, dst] = [1, 2].map(|end| std::net::Ipv4Addr::new(10, 9, 0, end).into());
            let pseudo = ackclock_wire::checksum::pseudo_header(src, dst, 6, bytes.len() - 20);
            bytes[36..38].copy_from_slice(&pseudo.fold().to_be_bytes());
            if checksum == ChecksumState::Complete {
                ackclock_wire::gso::finish_checksum(&mut bytes, ChecksumAt::tcp(20));
            }
            OtherPacket { bytes, meta: RxMeta { checksum, segment_size } }
        };
        (1..).zip(said.into_iter().cycle()).take(50).map(packet).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn no_packet_waits_in_the_driver_between_two_polls() {
        for at_a_time in [50, 1, 3] {
            let (stack, gate, mut driver) = driven();
            let (_sender, mut receiver) = stack.other_packets().unwrap();
            // The first batch after a sleep may be a single packet.
            let arriving = others();
            *gate.inside() = Inside { arriving: arriving.clone().into(), at_a_time, ..Inside::default() };
            let mut received = Vec::new();
            while !gate.inside().arriving.is_empty() {
                poll(&mut driver);
                received.extend(std::iter::from_fn(|| receiver.try_recv().ok()));
                let taken = arriving.len() - gate.inside().arriving.len();
                assert_eq!(received.len(), taken, "the endpoint has all that left the device");
            }
            assert_eq!(received, arriving, "{at_a_time} at a time");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_waited_for_a_full_device_equals_what_went_at_once() {
        let went = [0, 1, 7].map(|room| {
            let (stack, gate, mut driver) = driven();
            let (sender, _receiver) = stack.other_packets().unwrap();
            let socket = stack.udp("10.0.0.1:53".parse().unwrap()).unwrap();
            poll(&mut driver);
            for (packet, class) in others().iter().zip(0..) {
                gate.inside().room = if room == 0 { 100 } else { 0 };
                sender.try_send(packet).unwrap();
                socket.set_tos_v4(class << 2).unwrap();
                socket.try_send_to(&packet.bytes, "10.0.0.2:53".parse().unwrap()).unwrap();
                poll(&mut driver);
            }
            assert_eq!(gate.inside().sent.is_empty(), room > 0);
            for _ in 0..200 {
                gate.inside().room = room;
                poll(&mut driver);
            }
            let sent = std::mem::take(&mut gate.inside().sent);
            // The order between a socket and the channel is the endpoint's choice.
            let (datagrams, others): (Vec<_>, Vec<_>) =
                sent.into_iter().partition(|sent| sent.bytes[9] == 17);
            (datagrams, others)
        });
        let [at_once, waited @ ..] = went;
        // The endpoint cuts what is not its own: of five packets, one into three and one into two.
        assert_eq!((at_once.0.len(), at_once.1.len()), (50, 80));
        for waited in waited {
            assert_eq!(waited, at_once);
        }
    }

    #[test]
    fn the_driver_is_behind_after_eight_full_batches_and_has_caught_up_with_one_that_is_not() {
        let mut backlog = Backlog::default();
        let mut after = |packets, bytes| backlog.after(packets, bytes, true).is_behind;
        assert!((0..7).all(|_| after(BATCH_PACKETS, 64 * 60).is_none()));
        assert_eq!([(); 2].map(|()| after(BATCH_PACKETS, 64 * 60)), [Some(true), None]);
        assert_eq!(after(BATCH_PACKETS - 1, 63 * 60), Some(false));
        // Large packets alone do not put the driver behind; beside small ones they count in part.
        assert!((0..100).all(|_| after(4, 4 * 65_000).is_none()));
        let turns = (0..100).map(|turn| if turn % 3 == 0 { (4, 4 * 65_000) } else { (BATCH_PACKETS, 4_000) });
        let told: Vec<bool> = turns.filter_map(|(packets, bytes)| after(packets, bytes)).collect();
        assert!(told[0]);
    }

    #[test]
    fn windows_open_by_half_of_a_full_batch_and_by_a_fixed_share_after_any_other() {
        let mut backlog = Backlog::default();
        let opening = [(4, 200_000, true), (4, 200_000, false), (0, 0, false), (BATCH_PACKETS, 4_000, true)]
            .map(|(packets, bytes, full)| backlog.after(packets, bytes, full).opening);
        assert_eq!(opening, [100_000, OPENING, OPENING, 2_000]);
    }

    const fn at(millis: u64) -> Option<Instant> {
        Some(Instant::from_millis(millis))
    }

    #[test]
    fn a_timer_that_ends_early_is_kept_and_a_late_one_replaced() {
        let now = Instant::from_millis(100);
        for (set, due, expected) in [
            (None, None, None),
            (None, at(300), at(300)),
            (at(200), at(300), at(200)),
            (at(200), None, at(200)),
            (at(400), at(300), at(300)),
            (at(90), at(300), at(300)),
            (at(100), None, None),
        ] {
            assert_eq!(sleep_until(set, due, now), expected, "{set:?} {due:?}");
        }
    }
}
