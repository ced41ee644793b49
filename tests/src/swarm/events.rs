//! The beginning and the end of each fault.

use std::rc::Rc;
use std::time::Duration;

use ackclock::Instant;

use super::faults::Fault;
use super::forgery::Forgery;
use super::judge::RATE_MIN;
use super::machine::DEVICE_MTU;
use super::path::addr;
use super::plan::Event;
use super::program;
use super::world::{SINK, SwarmRun};

impl SwarmRun {
    fn event(&self, event: usize) -> Event {
        self.plan.events[event].1
    }

    fn host_of(event: &Event) -> usize {
        if event.at_server { 0 } else { event.path + 1 }
    }

    fn now(&self) -> Instant {
        self.shared.time.now()
    }

    pub(super) fn begin(&mut self, number: usize) {
        let event = self.event(number);
        self.say(&format!("event {number} begins: {event:?}"));
        let ends = self.now() + event.lasts;
        self.schedule.insert((ends, number, false), ());
        match event.what {
            Fault::Reboot => self.crash(number, &event),
            Fault::AddressChange => self.change_address(number, &event),
            Fault::ClockStep => self.step_clock(number, &event),
            Fault::Suspend | Fault::ProcessStall => self.hold(number, &event),
            Fault::MemoryExhaustion => self.fill_memory(number, &event),
            Fault::DeviceMtu => self.change_device(number, &event),
            what if what.is_forged() => {
                let Event { path, size, .. } = event;
                self.forgeries.push(Forgery { event: number, what, host: Self::host_of(&event), path, size });
            }
            _ => self.change_path(number, &event),
        }
    }

    fn crash(&mut self, number: usize, event: &Event) {
        let host = Self::host_of(event);
        if self.machines[host].off.is_some() {
            return;
        }
        let under_way = match host {
            0 => self.paths.iter().map(super::path::ClientPath::under_way).sum(),
            _ => self.paths[host - 1].under_way(),
        };
        if under_way > 0 && self.machines[host].established() > 0 {
            self.strike(number);
        }
        self.excuses.add(self.now(), event.lasts, (host > 0).then_some(event.path));
        self.machines[host].off = Some(number);
        self.machines[host].crash();
        self.tasks.kill(host);
    }

    fn change_address(&mut self, number: usize, event: &Event) {
        let host = event.path + 1;
        if self.machines[host].established() > 0 {
            self.strike(number);
        }
        self.excuses.add(self.now(), Duration::ZERO, Some(event.path));
        let path = &mut self.paths[event.path];
        let old = path.client_addr();
        path.address += 1;
        let new = path.client_addr();
        if let Some(stack) = self.machines[host].stack() {
            let prefix = if new.is_ipv4() { 8 } else { 16 };
            stack.add_address(ackclock::Cidr::new(new, prefix).expect("a prefix")).expect("a host's");
            assert!(stack.remove_address(old), "the stack had {old}");
        }
        // Some programs are informed, others find out.
        if event.size.is_multiple_of(2) && self.machines[host].off.is_none() {
            self.tasks.kill(host);
            self.start_clients(host);
        }
        self.pump(host);
    }

    fn step_clock(&mut self, number: usize, event: &Event) {
        let host = Self::host_of(event);
        if self.machines[host].established() > 0 {
            self.strike(number);
        }
        self.machines[host].step_clock(event.step());
        if self.machines[host].suspended.is_none() {
            self.machines[host].handle_timeout();
        }
        self.pump(host);
    }

    fn hold(&mut self, number: usize, event: &Event) {
        let host = Self::host_of(event);
        if event.is_fatal() {
            self.excuses.add(self.now(), event.lasts, (host > 0).then_some(event.path));
        }
        let busy = self.machines[host].established() > 0;
        let machine = &mut self.machines[host];
        let slot = if event.what == Fault::Suspend { &mut machine.suspended } else { &mut machine.stalled };
        let held = slot.is_none();
        slot.get_or_insert(number);
        // A suspension counts once it holds up a packet.
        if held && busy && event.what == Fault::ProcessStall {
            self.strike(number);
        }
    }

    fn fill_memory(&mut self, number: usize, event: &Event) {
        let Some(stack) = self.machines[event.path + 1].stack().cloned() else { return };
        self.hogging = Some(number);
        let until = self.shared.hog_until.get().max(self.now() + event.lasts);
        self.shared.hog_until.set(until);
        let sink = std::net::SocketAddr::new(addr(self.plan.v6, 0, 1), SINK);
        for _ in 0..event.size {
            let job = program::hog(Rc::clone(&self.shared), stack.clone(), sink);
            self.shared.spawner.spawn(event.path + 1, job);
        }
    }

    fn change_device(&mut self, number: usize, event: &Event) {
        let host = Self::host_of(event);
        if self.machines[host].established() > 0 {
            self.strike(number);
        }
        let mtu = event.size as usize;
        self.set_device(host, mtu);
    }

    fn set_device(&mut self, host: usize, mtu: usize) {
        if let Some(stack) = self.machines[host].stack() {
            stack.set_mtu(Some(mtu)).expect("a size that is allowed");
            self.machines[host].mtu = mtu;
            self.pump(host);
        }
    }

    fn change_path(&mut self, number: usize, event: &Event) {
        let busy = self.machines[event.path + 1].established() > 0;
        let now = self.now();
        let path = &mut self.paths[event.path];
        match event.what {
            Fault::MtuDrop | Fault::MtuBlackHole => {
                path.set_mtu(event.size as usize);
                path.narrowed = Some((number, event.what == Fault::MtuDrop));
            }
            Fault::Split => path.boxes.switched.split = Some(number),
            Fault::AckThinning => path.boxes.switched.thin = Some(number),
            Fault::WindowClamp => path.boxes.switched.window = Some((number, event.size as u16)),
            Fault::WindowClosing => path.boxes.switched.window = Some((number, 0)),
            Fault::Coalesce | Fault::Merge => {
                path.merging = Some((number, event.what == Fault::Coalesce));
                path.moderate(true);
            }
            Fault::NatTimeout if path.boxes.has_nat() => {
                self.excuses.add(now, event.lasts, Some(event.path));
                if path.boxes.forget() && busy {
                    self.strike(number);
                }
            }
            Fault::LinkFlap => {
                path.flapped = Some(number);
                if event.is_fatal() {
                    self.excuses.add(now, event.lasts, Some(event.path));
                }
            }
            Fault::AsymmetricRate => {
                let link = &mut path.links[event.size as usize % 2];
                let slower = link.faults.rate_bps.map(|rate| (rate / event.size).max(RATE_MIN));
                link.faults.rate_bps = slower;
                if busy {
                    self.strike(number);
                }
            }
            _ => {}
        }
    }

    pub(super) fn end(&mut self, number: usize) {
        let event = self.event(number);
        self.say(&format!("event {number} ends: {event:?}"));
        let (now, host) = (self.now(), Self::host_of(&event));
        match event.what {
            Fault::Reboot if self.machines[host].off == Some(number) => {
                self.machines[host].off = None;
                self.excuses.add(now, Duration::ZERO, (host > 0).then_some(event.path));
                self.boot(host);
            }
            Fault::Suspend if self.machines[host].suspended == Some(number) => self.resume(host),
            Fault::ProcessStall if self.machines[host].stalled == Some(number) => {
                self.machines[host].stalled = None;
            }
            Fault::MemoryExhaustion if self.hogging == Some(number) => self.hogging = None,
            _ => self.end_on_path(number, &event),
        }
        self.forgeries.retain(|forgery| forgery.event != number);
    }

    /// A host resumes: first its device delivers what it held, then its timers run.
    fn resume(&mut self, host: usize) {
        self.machines[host].suspended = None;
        for (path, packet, meta) in std::mem::take(&mut self.machines[host].inbox) {
            self.receive(host, path, &packet, meta);
        }
        self.machines[host].handle_timeout();
        self.pump(host);
    }

    fn end_on_path(&mut self, number: usize, event: &Event) {
        let plan = &self.plan.paths[event.path];
        let path = &mut self.paths[event.path];
        let switched = &mut path.boxes.switched;
        match event.what {
            // The path stays narrow where a router reports it.
            Fault::MtuBlackHole if path.narrowed.is_some_and(|(by, _)| by == number) => {
                path.narrowed = None;
                path.set_mtu(DEVICE_MTU);
            }
            Fault::Split if switched.split == Some(number) => switched.split = None,
            Fault::AckThinning if switched.thin == Some(number) => switched.thin = None,
            Fault::WindowClamp | Fault::WindowClosing
                if switched.window.is_some_and(|(by, _)| by == number) =>
            {
                switched.window = None;
            }
            Fault::Coalesce | Fault::Merge if path.merging.is_some_and(|(by, _)| by == number) => {
                path.merging = None;
                path.moderate(false);
            }
            Fault::LinkFlap if path.flapped == Some(number) => {
                path.flapped = None;
            }
            Fault::AsymmetricRate => {
                let way = event.size as usize % 2;
                path.links[way].faults.rate_bps = plan.links[way].rate_bps;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_outage_that_peers_give_up_in_ends_connections() {
        let event = Event {
            at: Duration::ZERO,
            lasts: Duration::ZERO,
            path: 0,
            at_server: false,
            what: Fault::ClockStep,
            size: 3_600_000,
        };
        assert!(!event.is_fatal(), "a clock that steps by an hour ends no connection");
        let sleep = |secs| Event { what: Fault::Suspend, lasts: Duration::from_secs(secs), ..event };
        assert!(sleep(20).is_fatal() && !sleep(19).is_fatal());
    }
}
