//! Ephemeral ports: which is chosen, and how many are looked at for that.

use proptest::prelude::*;

use super::*;
use crate::{
    BindOptions, BoundId, ConnectError, FourTuple, ListenError, Sharing, UdpOptions, UdpSocketError,
};

/// Linux's own range.
const RANGE: (u16, u16) = (32_768, 60_999);
const PORTS: u64 = 28_232;

fn host_with(ephemeral_ports: (u16, u16)) -> Host {
    let mut config = config(SERVER);
    config.addresses = ["10.0.0.1", "10.0.0.3", "fd00::1"].map(ip).to_vec();
    config.ephemeral_ports = ephemeral_ports;
    Host::with(config)
}

fn connect(host: &mut Host, to: SocketAddr) -> Result<ConnectionId, ConnectError> {
    host.endpoint.connect(host.now, to, (None, 0), None)
}

fn end(host: &mut Host, id: ConnectionId) {
    host.endpoint.update(host.now, id, |connection, now| connection.abort(now));
    host.endpoint.release(host.now, id);
}

fn port_of(host: &Host, id: ConnectionId) -> u16 {
    host.endpoint.connection(id).unwrap().tuple().local_port
}

/// How many ports `f` looks at.
fn looks<R>(host: &mut Host, f: impl FnOnce(&mut Host) -> R) -> (R, u64) {
    let before = host.endpoint.tuples.drawn();
    let result = f(host);
    (result, host.endpoint.tuples.drawn() - before)
}

/// Opens `count` connections. Returns how many ports were looked at, in all and at most for one.
fn open(host: &mut Host, to: SocketAddr, count: u64) -> (u64, u64) {
    let each = (0..count).map(|_| {
        let (id, looks) = looks(host, |host| connect(host, to));
        id.unwrap();
        looks
    });
    each.fold((0, 0), |(sum, most), looks| (sum + looks, most.max(looks)))
}

/// The first draw that hits a taken port comes after about √(πR/2) = 211 connections, and only the ports
/// taken before it are unknown: 0.75 % of 28,232. As draws are among the unknown and the free, that share
/// stays, and so does the number of draws. A run of 16 that hit has a chance of 10^-34, and of 10^-18 at ten
/// times that share. Without a memory, the last hundred connections look at 28,232/k ports for k = 1 to 100,
/// 146,000 in all, and the refusal at 28,232.
#[test]
fn a_port_is_found_and_none_is_found_missing_in_one_look_or_two_however_many_are_taken() {
    for to in [client(80), "[fd00::2]:80".parse().unwrap()] {
        let mut host = host_with(RANGE);
        let (mut sum, mut most) = (0, 0);
        for count in [14_000, 14_000, PORTS - 28_000] {
            let (looks, most_looks) = open(&mut host, to, count);
            assert!(looks <= count + count / 20, "{looks} for {count}");
            (sum, most) = (sum + looks, most.max(most_looks));
        }
        assert!(most <= 16, "{most} for one");
        let (refused, first) = looks(&mut host, |host| connect(host, to));
        assert_eq!(refused, Err(ConnectError::AddressInUse(to)));
        // Each port that was looked at in vain is known since, so this is what was left to learn.
        assert!(first <= 16, "{first} for the first refusal, {sum} before");
        let (refused, again) = looks(&mut host, |host| connect(host, to));
        assert_eq!((refused, again), (Err(ConnectError::AddressInUse(to)), 1));
    }
}

#[test]
fn the_one_port_that_becomes_free_is_found_at_once() {
    let mut host = host_with(RANGE);
    open(&mut host, client(80), PORTS);
    assert!(connect(&mut host, client(80)).is_err());
    let ids: Vec<ConnectionId> = host.endpoint.connections().map(|(id, _)| id).collect();
    for &id in ids.iter().step_by(1_000) {
        let port = port_of(&host, id);
        end(&mut host, id);
        let (next, looks) = looks(&mut host, |host| connect(host, client(80)));
        assert_eq!((port_of(&host, next.unwrap()), looks), (port, 1));
        assert!(connect(&mut host, client(80)).is_err());
    }
}

#[test]
fn ports_that_the_application_chose_are_known_too() {
    let mut host = host_with(RANGE);
    for port in RANGE.0..RANGE.1 {
        host.endpoint.connect(host.now, client(80), (None, port), None).unwrap();
    }
    let (id, most) = looks(&mut host, |host| connect(host, client(80)));
    assert_eq!(port_of(&host, id.unwrap()), RANGE.1);
    // Only those chosen before the first sample hit are unknown. That no sample hits among the first n has a
    // chance of e^(-n²/2R): 10^-10 for 1,115.
    assert!(most <= 1_115, "{most}");
    let (refused, looks) = looks(&mut host, |host| connect(host, client(80)));
    assert!(refused.is_err() && looks <= 1_115, "{looks}");
}

#[test]
fn several_endpoints_know_each_others_ports() {
    let config = EndpointConfig { ephemeral_ports: RANGE, ..config(SERVER) };
    let hosts: [EndpointConfig; 2] = config.split(2).try_into().unwrap();
    let mut hosts = hosts.map(Host::with);
    let (mut sum, mut most) = (0, 0);
    for number in 0..PORTS {
        let (looks, most_looks) = open(&mut hosts[number as usize % 2], client(80), 1);
        (sum, most) = (sum + looks, most.max(most_looks));
    }
    assert!(sum <= PORTS + PORTS / 20 && most <= 16, "{sum}, {most}");
    for host in &mut hosts {
        assert!(connect(host, client(80)).is_err());
        assert_eq!(looks(host, |host| connect(host, client(80)).is_err()), (true, 1));
    }
    // One ends at one endpoint, and the other gets its port.
    let (id, _) = hosts[0].endpoint.connections().next().unwrap();
    let port = port_of(&hosts[0], id);
    end(&mut hosts[0], id);
    let id = connect(&mut hosts[1], client(80)).unwrap();
    assert_eq!(port_of(&hosts[1], id), port);
}

#[test]
fn sockets_of_udp_and_bound_ones_are_found_a_port_in_one_look_or_two() {
    let mut host = host_with(RANGE);
    let bound = BindOptions { addr: Some(ip(SERVER)), port: 0, sharing: Sharing::default() };
    let named = UdpOptions::new(ListenAddr { addr: Some(ip(SERVER)), port: Some(0) });
    let (mut udp, mut ids) = (Vec::new(), Vec::new());
    let ((), sum) = looks(&mut host, |host| {
        for _ in 0..PORTS {
            ids.push(host.endpoint.bind(host.now, bound).unwrap());
            udp.push(host.endpoint.udp_bind(host.now, named).unwrap());
        }
    });
    assert!(sum <= 2 * (PORTS + PORTS / 20), "{sum}");
    for _ in 0..2 {
        let ((no_bound, no_udp), most) = looks(&mut host, |host| {
            (host.endpoint.bind(host.now, bound), host.endpoint.udp_bind(host.now, named))
        });
        assert_eq!((no_bound, no_udp), (Err(ListenError::AddressInUse), Err(UdpSocketError::AddressInUse)));
        assert!(most <= 32, "{most}");
    }
    let port = host.endpoint.bound_addr(ids[9]).unwrap().port;
    host.endpoint.release_bound(ids[9]);
    let next = host.endpoint.bind(host.now, bound).unwrap();
    assert_eq!(host.endpoint.bound_addr(next).unwrap().port, port);
    let port = host.endpoint.udp_names(udp[9]).unwrap().bound.port;
    host.endpoint.udp_close(udp[9]);
    let next = host.endpoint.udp_bind(host.now, named).unwrap();
    assert_eq!(host.endpoint.udp_names(next).unwrap().bound.port, port);
}

#[test]
fn a_bind_beside_many_connections_counts_them_once() {
    let mut host = host_with(RANGE);
    open(&mut host, client(80), 1_000);
    let alone = |port| BindOptions { addr: None, port, sharing: Sharing::default() };
    host.endpoint.bind(host.now, alone(0)).unwrap();
    assert!(host.endpoint.tuples.counts_connections());
    let id = host.endpoint.connect(host.now, client(81), (None, 30_000), None).unwrap();
    assert_eq!(host.endpoint.bind(host.now, alone(30_000)), Err(ListenError::AddressInUse));
    end(&mut host, id);
    host.endpoint.bind(host.now, alone(30_000)).unwrap();
    let ids: Vec<ConnectionId> = host.endpoint.connections().map(|(id, _)| id).collect();
    ids.into_iter().for_each(|id| end(&mut host, id));
    assert!(!host.endpoint.tuples.counts_connections(), "and forgets them when few are left");
}

/// A possible step, by numbers that choose among the ports and sockets that exist.
#[derive(Clone, Copy, Debug)]
enum Step {
    Connect { from: usize, to: usize, port: u16 },
    End(usize),
    Bind { addr: usize, port: u16, reuse: bool },
    Release(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let port = || prop_oneof![3 => Just(0_u16), 1 => 5_000_u16..5_010];
    prop_oneof![
        6 => (0_usize..2, 0_usize..3, port()).prop_map(|(from, to, port)| Step::Connect { from, to, port }),
        3 => any::<usize>().prop_map(Step::End),
        2 => (0_usize..4, port(), any::<bool>())
            .prop_map(|(addr, port, reuse)| Step::Bind { addr, port, reuse }),
        2 => any::<usize>().prop_map(Step::Release),
    ]
}

#[test]
fn sockets_that_share_find_the_port_that_they_share() {
    let mut host = Host::with(EndpointConfig { ephemeral_ports: (5_000, 5_001), ..config(SERVER) });
    let mut bind = |port, reuse_address| {
        let sharing = Sharing { reuse_address, reuse_port: false };
        let id = host.endpoint.bind(host.now, BindOptions { addr: None, port, sharing })?;
        Ok::<_, ListenError>(host.endpoint.bound_addr(id).unwrap().port)
    };
    bind(5_000, false).unwrap();
    // The first that meets 5,000 remembers it. The others may have 5,001 although one has it.
    assert_eq!([(); 16].map(|()| bind(0, true)), [(); 16].map(|()| Ok(Some(5_001))));
}

/// The taken ports, kept in lists that are searched whole.
#[derive(Default)]
struct Model {
    names: Vec<(ConnectionId, usize, FourTuple)>,
    bound: Vec<(BoundId, Option<IpAddr>, u16, bool)>,
}

impl Model {
    fn covers(addr: Option<IpAddr>, other: Option<IpAddr>) -> bool {
        let (Some(a), Some(b)) = (addr, other) else { return true };
        a == b || a.is_ipv4() == b.is_ipv4() && (a.is_unspecified() || b.is_unspecified())
    }

    fn connects(&self, name: &FourTuple, is_ephemeral: bool) -> bool {
        let is_bound = self
            .bound
            .iter()
            .any(|&(_, addr, port, _)| port == name.local_port && Self::covers(addr, Some(name.local_addr)));
        self.names.iter().all(|(_, _, other)| other != name) && !(is_ephemeral && is_bound)
    }

    fn binds(&self, addr: Option<IpAddr>, port: u16, reuse: bool) -> bool {
        let meets =
            |other: &FourTuple| other.local_port == port && Self::covers(addr, Some(other.local_addr));
        let conflicts = |&(_, other, on, reuses): &(BoundId, Option<IpAddr>, u16, bool)| {
            on == port && Self::covers(addr, other) && !(reuse && reuses)
        };
        (reuse || !self.names.iter().any(|(_, _, name)| meets(name))) && !self.bound.iter().any(conflicts)
    }
}

/// The first of these hosts binds, all connect.
fn agrees_with_the_model(hosts: &mut [Host], steps: &[Step]) -> Result<(), TestCaseError> {
    const RANGE: std::ops::RangeInclusive<u16> = 5_000..=5_007;
    let locals = [None, Some(ip("10.0.0.1")), Some(ip("0.0.0.0")), Some(ip("::"))];
    let mut model = Model::default();
    for &step in steps {
        match step {
            Step::Connect { from, to, port } => {
                let (at, host) = (from % hosts.len(), &mut hosts[from % hosts.len()]);
                let to = client(80 + to as u16);
                let local = ip(["10.0.0.1", "10.0.0.3"][from]);
                let name = |port| FourTuple::new(SocketAddr::new(local, port), to);
                let opened = host.endpoint.connect(host.now, to, (Some(local), port), None);
                let has_room = match port {
                    0 => RANGE.into_iter().any(|port| model.connects(&name(port), true)),
                    port => model.connects(&name(port), false),
                };
                prop_assert_eq!(opened.is_ok(), has_room, "{:?}", step);
                if let Ok(id) = opened {
                    let is_ephemeral = port == 0;
                    let port = port_of(host, id);
                    prop_assert!(model.connects(&name(port), is_ephemeral), "{:?}", name(port));
                    model.names.push((id, at, name(port)));
                }
            }
            Step::End(number) if !model.names.is_empty() => {
                let (id, at, _) = model.names.swap_remove(number % model.names.len());
                end(&mut hosts[at], id);
            }
            Step::Bind { addr, port, reuse } => {
                let (addr, host) = (locals[addr], &mut hosts[0]);
                let sharing = Sharing { reuse_address: reuse, reuse_port: false };
                let bound = host.endpoint.bind(host.now, BindOptions { addr, port, sharing });
                let has_room = match port {
                    0 => RANGE.into_iter().any(|port| model.binds(addr, port, reuse)),
                    port => model.binds(addr, port, reuse),
                };
                prop_assert_eq!(bound.is_ok(), has_room, "{:?}", step);
                if let Ok(id) = bound {
                    let port = host.endpoint.bound_addr(id).unwrap().port.unwrap();
                    prop_assert!(model.binds(addr, port, reuse));
                    for host in &mut hosts[1..] {
                        host.endpoint.bind_as(id, BindOptions { addr, port, sharing }).unwrap();
                    }
                    model.bound.push((id, addr, port, reuse));
                }
            }
            Step::Release(number) if !model.bound.is_empty() => {
                let (id, ..) = model.bound.swap_remove(number % model.bound.len());
                hosts.iter_mut().for_each(|host| host.endpoint.release_bound(id));
            }
            Step::End(_) | Step::Release(_) => {}
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_port_is_refused_only_if_none_is_free_and_chosen_only_if_it_is(
        steps in proptest::collection::vec(step(), 1..300),
        shards in 1_usize..=2,
        beside in prop_oneof![Just(0_u16), Just(400)],
    ) {
        let mut config = config(SERVER);
        config.addresses = ["10.0.0.1", "10.0.0.3"].map(ip).to_vec();
        config.ephemeral_ports = (5_000, 5_007);
        let mut hosts: Vec<Host> = config.split(shards).into_iter().map(Host::with).collect();
        // Enough that binds keep count of the names; on ports beside the range.
        for port in 0..beside {
            let host = &mut hosts[usize::from(port) % shards];
            host.endpoint.connect(host.now, client(80), (None, 6_000 + port), None).unwrap();
        }
        agrees_with_the_model(&mut hosts, &steps)?;
    }
}
