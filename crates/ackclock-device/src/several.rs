//! Several devices as one: each packet leaves by the device with the longest matching route.
//!
//! A stack queries the routes, so a connection gets the MTU of its device and, if the rules leave a choice,
//! its address. Each device has its own queue for packets that it cannot take yet, so a stuck device delays
//! no other. A full queue drops and counts packets, as a network interface does. If a device fails, it is
//! removed, and its routes lead nowhere until another device has its name. When the last device fails, all
//! fail.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ackclock_wire::{Egress, HeldPacket, Route, TxPacket};

use crate::configure::Cidr;
use crate::{Capabilities, Counters, Device, Medium, ReceiveBatch};

/// Several devices that a stack uses as one.
///
/// ```
/// use ackclock_device::several::Several;
/// use ackclock_device::{Device, memory};
///
/// let (wan, _world) = memory::pair(memory::Config { mtu: 1400, ..memory::Config::default() });
/// let (lan, _office) = memory::pair(memory::Config::default());
/// let devices = Several::new()
///     .device("wan", wan)
///     .device("lan", lan)
///     .route("wan", "0.0.0.0/0".parse()?)
///     .route("lan", "10.0.0.0/8".parse()?);
/// // Devices and routes come and go while a stack has the whole.
/// let handle = devices.handle();
/// assert_eq!(devices.capabilities().mtu, 1400);
/// handle.add_route("lan", "192.168.0.0/16".parse()?);
/// # Ok::<(), ackclock_device::configure::CidrError>(())
/// ```
#[derive(Debug, Default)]
pub struct Several {
    links: Vec<Link>,
    shared: Arc<Mutex<Table>>,
    /// A copy of the routes, so that choosing a device takes no lock.
    routes: Vec<Route<String>>,
    version: u64,
    /// How many devices have failed.
    lost: u64,
    /// The device to poll first for packets, in rotation.
    first: usize,
    /// Woken when a device has room again.
    waker: Option<Waker>,
    /// The groups that the stack listens to, also for devices to come.
    groups: Vec<IpAddr>,
    counters: Counters,
}

/// Adds and removes devices and routes of a [`Several`] while it is in use.
#[derive(Clone, Debug)]
pub struct SeveralHandle {
    shared: Arc<Mutex<Table>>,
}

/// The wanted devices and routes.
#[derive(Debug, Default)]
struct Table {
    /// Each to a device by its name.
    routes: Vec<Route<String>>,
    added: Vec<Link>,
    removed: Vec<String>,
    names: Vec<String>,
    version: u64,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Link {
    name: String,
    device: Box<dyn Device>,
    /// The packets for which the device had no room.
    waiting: VecDeque<HeldPacket>,
}

impl Several {
    /// No devices yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a device under a name.
    #[must_use]
    pub fn device(mut self, name: &str, device: impl Device + 'static) -> Self {
        self.lock().names.push(name.to_owned());
        self.links.push(Link::new(name, Box::new(device)));
        self
    }

    /// Routes `destination` to the device of this name. Of matching routes the one with the longest prefix
    /// counts, and of equals the last.
    #[must_use]
    pub fn route(self, device: &str, destination: Cidr) -> Self {
        self.handle().add_route(device, destination);
        self
    }

    /// A handle for changing devices and routes while they are in use.
    #[must_use]
    pub fn handle(&self) -> SeveralHandle {
        SeveralHandle { shared: Arc::clone(&self.shared) }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        lock(&self.shared)
    }

    /// Applies the changes made by handles.
    fn refresh(&mut self, cx: &Context<'_>) {
        let same = |known: &Option<Waker>| known.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if !same(&self.waker) {
            self.waker = Some(cx.waker().clone());
        }
        let shared = Arc::clone(&self.shared);
        let mut table = lock(&shared);
        if !same(&table.waker) {
            table.waker = Some(cx.waker().clone());
        }
        if table.version == self.version {
            return;
        }
        self.version = table.version;
        let removed = std::mem::take(&mut table.removed);
        self.links.retain(|link| !removed.contains(&link.name));
        if !self.groups.is_empty() {
            table.added.iter_mut().for_each(|link| link.device.listen_to(&self.groups));
        }
        self.links.append(&mut table.added);
        self.routes.clone_from(&table.routes);
    }

    /// Removes a failed device. The others go on.
    fn lose(&mut self, index: usize, error: io::Error) -> io::Result<()> {
        let link = self.links.remove(index);
        self.lost += 1;
        self.lock().names.retain(|name| *name != link.name);
        self.counters.send_link_down += link.waiting.len() as u64;
        if self.links.is_empty() { Err(error) } else { Ok(()) }
    }

    /// Sends what waits for devices that have room again. Returns whether any device has room.
    fn flush_waiting(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        // Without a device, packets are dropped and counted, as with a link that is down.
        let (mut index, mut room) = (0, self.links.is_empty());
        while let Some(link) = self.links.get_mut(index) {
            match link.drain(cx) {
                Ok(has_room) => {
                    room |= has_room;
                    index += 1;
                }
                Err(error) => self.lose(index, error)?,
            }
        }
        Ok(room)
    }

    /// The device for a packet: that of the longest matching route, or the only one if there are no routes.
    fn link_for(&mut self, destination: Option<IpAddr>) -> Option<usize> {
        if self.routes.is_empty() && self.links.len() == 1 {
            return Some(0);
        }
        let destination = destination?;
        let route = Route::longest(&self.routes, destination)?;
        self.links.iter().position(|link| link.name == route.to)
    }
}

impl SeveralHandle {
    /// Adds a device, or replaces the one of this name.
    pub fn add_device(&self, name: &str, device: impl Device + 'static) {
        self.change(|table| {
            table.added.retain(|link| link.name != name);
            table.removed.push(name.to_owned());
            table.added.push(Link::new(name, Box::new(device)));
            if !table.names.iter().any(|known| known == name) {
                table.names.push(name.to_owned());
            }
        });
    }

    /// Removes and drops a device. Its routes stay for another one of this name.
    pub fn remove_device(&self, name: &str) {
        self.change(|table| {
            table.added.retain(|link| link.name != name);
            table.removed.push(name.to_owned());
            table.names.retain(|known| known != name);
        });
    }

    /// Adds a route, as [`Several::route`] does.
    pub fn add_route(&self, device: &str, destination: Cidr) {
        let route = Route::new(destination.network(), device.to_owned());
        self.change(|table| {
            table.routes.retain(|known| *known != route);
            table.routes.push(route);
        });
    }

    /// Removes a route. Returns whether it existed.
    pub fn remove_route(&self, device: &str, destination: Cidr) -> bool {
        let route = Route::new(destination.network(), device.to_owned());
        self.change(|table| {
            let before = table.routes.len();
            table.routes.retain(|known| *known != route);
            table.routes.len() < before
        })
    }

    /// The names of the devices.
    #[must_use]
    pub fn devices(&self) -> Vec<String> {
        lock(&self.shared).names.clone()
    }

    fn change<R>(&self, f: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = lock(&self.shared);
        let result = f(&mut table);
        table.version += 1;
        let waker = table.waker.take();
        drop(table);
        waker.into_iter().for_each(Waker::wake);
        result
    }
}

impl Device for Several {
    fn capabilities(&self) -> Capabilities {
        let each = self.links.iter().map(|link| link.device.capabilities());
        each.reduce(common).unwrap_or(Capabilities::ip(MTU_WITHOUT_DEVICES))
    }

    fn routes(&self) -> Vec<Route<Egress>> {
        let table = self.lock();
        let led = table.routes.iter().filter_map(|route| {
            let link = self.links.iter().position(|link| link.name == route.to)?;
            let mtu = self.links[link].device.capabilities().mtu;
            Some(Route::new(route.destination, Egress { link, mtu }))
        });
        led.collect()
    }

    fn generation(&self) -> u64 {
        self.version.wrapping_add(self.lost)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        self.refresh(cx);
        self.flush_waiting(cx)?;
        self.first = self.first.wrapping_add(1);
        let (before, all) = (batch.len(), self.links.len());
        let mut lost = None;
        for step in 0..all {
            let index = (self.first + step) % all;
            if !batch.is_empty() && batch.slot(PACKET_MAX).is_none() {
                // The others come next time, at once after a batch that is not empty.
                break;
            }
            if let Poll::Ready(Err(error)) = self.links[index].device.poll_receive(cx, batch)
                && error.kind() != io::ErrorKind::Interrupted
            {
                lost = Some((index, error));
                break;
            }
        }
        if let Some((index, error)) = lost {
            self.lose(index, error)?;
            // The others have not all been polled.
            cx.waker().wake_by_ref();
        }
        let received = batch.len() - before;
        self.counters.received += received as u64;
        if received > 0 { Poll::Ready(Ok(received)) } else { Poll::Pending }
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.refresh(cx);
        if self.flush_waiting(cx)? { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        let Some(index) = self.link_for(destination(packet.header)) else {
            self.counters.send_link_down += 1;
            return Ok(());
        };
        let mut cx = Context::from_waker(self.waker.as_ref().unwrap_or(Waker::noop()));
        match self.links[index].send(packet, &mut cx) {
            Ok(true) => self.counters.sent += 1,
            Ok(false) => self.counters.send_no_room += 1,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => self.lose(index, error)?,
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut index = 0;
        while let Some(link) = self.links.get_mut(index) {
            match link.device.flush() {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => self.lose(index, error)?,
                Ok(()) | Err(_) => index += 1,
            }
        }
        Ok(())
    }

    fn listen_to(&mut self, groups: &[IpAddr]) {
        self.groups = groups.to_vec();
        self.links.iter_mut().for_each(|link| link.device.listen_to(groups));
    }

    fn reached(&mut self, addr: IpAddr) {
        if let Some(index) = self.link_for(Some(addr)) {
            self.links[index].device.reached(addr);
        }
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn link_up(&self) -> bool {
        self.links.iter().any(|link| link.device.link_up())
    }

    fn leads_to_kernel(&self) -> bool {
        self.links.iter().any(|link| link.device.leads_to_kernel())
    }
}

impl Link {
    fn new(name: &str, device: Box<dyn Device>) -> Self {
        Self { name: name.to_owned(), device, waiting: VecDeque::new() }
    }

    /// Sends what waits, as far as there is room. Returns whether the queue has room for more.
    fn drain(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let before = self.waiting.len();
        let room = self.send_waiting(cx)?;
        // This may happen between two batches of the caller, which then has nothing to flush.
        if self.waiting.len() < before {
            self.device.flush()?;
        }
        Ok(room)
    }

    fn send_waiting(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        loop {
            match self.device.poll_send_ready(cx) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => return Ok(self.waiting.len() < WAITING_MAX / 2),
            }
            let Some(waiting) = self.waiting.pop_front() else { return Ok(true) };
            self.device.send(&waiting.packet())?;
        }
    }

    /// Sends a packet, or keeps it for later. Returns `false` if there is no room.
    fn send(&mut self, packet: &TxPacket<'_>, cx: &mut Context<'_>) -> io::Result<bool> {
        if self.waiting.is_empty()
            && let Poll::Ready(ready) = self.device.poll_send_ready(cx)
        {
            ready?;
            return self.device.send(packet).map(|()| true);
        }
        if self.waiting.len() >= WAITING_MAX {
            return Ok(false);
        }
        self.waiting.push_back(packet.into());
        Ok(true)
    }
}

/// The capabilities that both have.
fn common(one: Capabilities, other: Capabilities) -> Capabilities {
    let mtu = one.mtu.min(other.mtu);
    let gso = |max: fn(&Capabilities) -> usize| {
        let cuts = |device: &Capabilities| max(device) > device.mtu;
        if cuts(&one) && cuts(&other) { max(&one).min(max(&other)) } else { mtu }
    };
    Capabilities {
        medium: if one.medium == Medium::Ip { other.medium } else { one.medium },
        mtu,
        gso_max_v4: gso(|device| device.gso_max_v4),
        gso_max_v6: gso(|device| device.gso_max_v6),
        tx_checksum: one.tx_checksum && other.tx_checksum,
        queues: 1,
    }
}

/// The destination in an IP header.
fn destination(header: &[u8]) -> Option<IpAddr> {
    match header.first()? >> 4 {
        4 => Some((*header.get(16..)?.first_chunk::<4>()?).into()),
        6 => Some((*header.get(24..)?.first_chunk::<16>()?).into()),
        _ => None,
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    // A table is consistent between any two statements that can panic.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The longest packet of any device, with the device's header.
const PACKET_MAX: usize = 65_600;
/// The most packets that wait for one device.
const WAITING_MAX: usize = 256;
/// The MTU while there is no device.
const MTU_WITHOUT_DEVICES: usize = 1500;

#[cfg(test)]
mod tests;
