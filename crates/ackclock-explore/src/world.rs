//! [`World`]: two endpoints, what is on the way between them, and what may still happen.

use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use ackclock_core::{
    ConnectionError, ConnectionId, Decision, Endpoint, EndpointConfig, Event, IncomingId, Instant, Limits,
    ListenAddr, ListenOptions, ReadError, State,
};
use ackclock_form::Writer;
use ackclock_test_script::step::Step;
use ackclock_wire::{Flags, Segment};
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::judge::{self, Breach, Rule, Unfinished};
use crate::linux::{self, Act, Answer, Arrival, Scene, Seen, Variation};
use crate::setup::Setup;
use crate::step::{Call, Move, Side};
use crate::tape::Tape;
use crate::wire::{META, Wire, byte, parse};

/// One state of a setup.
pub struct World {
    setup: &'static Setup,
    now: Instant,
    ends: [End; 2],
    /// The packets on the way to each side, the oldest first.
    on_the_way: [Vec<Vec<u8>>; 2],
    /// How many of these the last move sent.
    fresh: [usize; 2],
    faults_left: u8,
    variations_left: u8,
    has_slept: bool,
}

/// One endpoint with its application.
pub(crate) struct End {
    endpoint: Endpoint,
    pub wire: Wire,
    tape: Tape,
    connection: Option<ConnectionId>,
    incoming: Option<IncomingId>,
    has_decided: bool,
    /// The SYN that it decided to accept, until it learns what came of that.
    promised: Option<IncomingId>,
    /// Bit n: call n of the setup was made.
    made: u16,
    written: u8,
    read: u8,
    /// Whether the application ended its stream, gave the connection up, or reset it.
    shut: bool,
    released: bool,
    aborted: bool,
    /// Whether it read the end of the peer's stream.
    ended: bool,
    error: Option<ConnectionError>,
}

impl World {
    /// The world before its first move.
    #[must_use]
    pub fn begin(setup: &'static Setup) -> Self {
        Self::begin_with(setup, Tape::default)
    }

    /// The world before its first move, whose ends have a tape on.
    pub(crate) fn begin_on_tape(setup: &'static Setup) -> Self {
        Self::begin_with(setup, || Tape::from(START))
    }

    fn begin_with(setup: &'static Setup, tape: fn() -> Tape) -> Self {
        let mut world = Self {
            setup,
            now: START,
            ends: Side::BOTH.map(|side| End::new(side, setup, tape())),
            on_the_way: Default::default(),
            fresh: [0; 2],
            faults_left: setup.faults,
            variations_left: setup.variations,
            has_slept: false,
        };
        if setup.open {
            let opens = [Move::Call(Side::Client, Call::Connect)]
                .into_iter()
                .chain([Side::Server, Side::Client, Side::Server].map(|to| Move::Deliver(to, 0)));
            for step in opens {
                world.advance(step).expect("a handshake without faults");
            }
            world.fresh = [0; 2];
        }
        world
    }

    /// Appends what may happen next.
    pub fn moves(&self, moves: &mut Vec<Move>) {
        for side in Side::BOTH {
            let waiting = u8::try_from(self.to(side).len()).unwrap_or(u8::MAX);
            moves.extend((0..waiting.min(1)).map(|at| Move::Deliver(side, at)));
            if self.faults_left > 0 {
                moves.extend((1..waiting).map(|at| Move::Deliver(side, at)));
                moves.extend((0..waiting).map(|at| Move::Lose(side, at)));
                moves.extend((0..waiting).map(|at| Move::Duplicate(side, at)));
            }
        }
        if self.variations_left > 0 {
            self.variations(moves);
        }
        let delays = self.on_the_way.iter().any(|packets| !packets.is_empty());
        if !delays || self.faults_left > 0 {
            let dues = Side::BOTH.map(|side| self.end(side).endpoint.poll_timeout());
            let first = dues.iter().flatten().min();
            let first = first.filter(|&&due| !delays || due <= self.now + DELAY_MAX);
            let fires =
                |&&side: &&Side| dues[side as usize].is_some() && dues[side as usize].as_ref() == first;
            moves.extend(Side::BOTH.iter().filter(fires).map(|&side| Move::Timer(side)));
            if self.setup.sleeps && !self.has_slept && self.faults_left > 0 {
                moves.push(Move::Sleep);
            }
        }
        for side in Side::BOTH {
            let end = self.end(side);
            let calls = self.setup.calls[side as usize];
            for (at, &call) in calls.iter().enumerate() {
                // Of equal calls only the first that is left counts.
                let is_left = |at: usize| end.made >> at & 1 == 0;
                if is_left(at)
                    && end.allows(call)
                    && !(0..at).any(|before| calls[before] == call && is_left(before))
                {
                    moves.push(Move::Call(side, call));
                }
            }
            if end.allows(Call::Read) {
                moves.push(Move::Call(side, Call::Read));
            }
        }
    }

    /// Makes a move.
    ///
    /// # Errors
    /// The breach to which it leads, if any.
    pub fn advance(&mut self, step: Move) -> Result<(), Breach> {
        // Of the last answers, several may be those of a Linux.
        let answers = matches!(step, Move::Vary(variation, _) if variation.is_answer());
        self.fresh = [if answers { self.fresh[Side::Client as usize] } else { 0 }, 0];
        let waits = self.on_the_way.iter().any(|packets| !packets.is_empty());
        let is_fault = match step {
            Move::Deliver(_, at) => at > 0,
            Move::Timer(_) => waits,
            Move::Lose(..) | Move::Duplicate(..) | Move::Sleep => true,
            Move::Call(..) | Move::Vary(..) => false,
        };
        self.faults_left = self.faults_left.saturating_sub(u8::from(is_fault));
        match step {
            Move::Deliver(to, at) | Move::Duplicate(to, at) | Move::Lose(to, at)
                if usize::from(at) >= self.to(to).len() =>
            {
                return Err(Breach::misfit(format_args!("no packet {at} is on the way")));
            }
            Move::Deliver(to, at) => {
                let packet = self.on_the_way[to as usize].remove(usize::from(at));
                self.deliver(to, &packet)?;
            }
            Move::Duplicate(to, at) => {
                let packet = self.to(to)[usize::from(at)].clone();
                self.deliver(to, &packet)?;
            }
            Move::Lose(to, at) => drop(self.on_the_way[to as usize].remove(usize::from(at))),
            Move::Vary(variation, at) => {
                self.variations_left = self.variations_left.saturating_sub(1);
                if self.vary(variation, at)?.is_none() {
                    return Err(Breach::misfit(format_args!("Linux acts no differently at {at}")));
                }
            }
            Move::Timer(of) => {
                let end = &mut self.ends[of as usize];
                if let Some(due) = end.endpoint.poll_timeout() {
                    self.now = self.now.max(due);
                    end.tape.record_timers(self.now);
                    end.endpoint.handle_timeout(self.now);
                }
            }
            Move::Sleep => {
                self.has_slept = true;
                let (began, now) = (self.now, self.now + NIGHT);
                self.now = now;
                for end in &mut self.ends {
                    end.tape.record_sleep(began, now);
                    end.endpoint.handle_timeout(now);
                }
            }
            Move::Call(by, call) => {
                let calls = self.setup.calls[by as usize];
                let end = &mut self.ends[by as usize];
                let at = (0..calls.len()).find(|&at| calls[at] == call && end.made >> at & 1 == 0);
                end.made |= at.map_or(0, |at| 1 << at);
                end.call(self.now, by, call)?;
            }
        }
        self.settle()
    }

    /// Checks what must hold in every state.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&self) -> Result<(), Breach> {
        let quiet = self.on_the_way.iter().all(Vec::is_empty);
        for side in Side::BOTH {
            let (end, peer) = (self.end(side), self.end(side.peer()));
            let Some(connection) = end.connection.and_then(|id| end.endpoint.connection(id)) else {
                continue;
            };
            let info = connection.info(self.now);
            // A client gives up in the end if the application never decides on its SYN.
            let undecided = self.setup.deferred && peer.connection.is_none();
            let failure = connection.error().filter(|_| !undecided).and_then(|error| {
                let unheard = self.handshakes_may_fail() || peer.is_gone();
                judge::failure(
                    error,
                    end.resets_peer(peer) || peer.resets_peer(end) || end.aborted || unheard,
                )
            });
            if end.incoming.is_some_and(|id| end.endpoint.incoming(id).is_none()) {
                let what = "a SYN that waited is gone without a word";
                return Err(Breach::by(side, Rule::TellOfSyn, what));
            }
            let shut = quiet
                && self.faults_left == self.setup.faults
                && !end.ended
                && end.keeps_its_window_shut(&info);
            if let Some((rule, what)) = end.wrong_belief(&info) {
                return Err(Breach::by(side, rule, what));
            }
            if let Some(what) = failure {
                return Err(Breach::by(side, Rule::Live, what));
            }
            if shut {
                let what = "a window stays closed although its buffer is empty (RFC 9293 MUST-39)";
                return Err(Breach::by(side, Rule::OpenWindow(end.wire.edge), what));
            }
        }
        Ok(())
    }

    /// Lets a healthy network go on, with applications that read, until nothing more happens. Everything must
    /// come to its end. Appends what happens to `trail`.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn run_out(&mut self, trail: &mut Vec<Move>) -> Result<(), Breach> {
        let mut progressed = self.now;
        let mut moves = Vec::new();
        for _ in 0..STEPS_MAX {
            let before = self.ends.each_ref().map(|end| end.read);
            let unfinished = self.unfinished();
            (self.faults_left, self.variations_left) = (0, 0);
            moves.clear();
            self.moves(&mut moves);
            let reads = |step: &&Move| matches!(step, Move::Call(_, Call::Read | Call::Decide));
            let quiet = |step: &&Move| !matches!(step, Move::Call(..));
            let next = moves.iter().find(reads).or(moves.iter().find(quiet)).copied();
            let Some(step) = next else {
                return unfinished.map_or(Ok(()), |what| {
                    let told = format_args!("{what}, and nothing is on the way and no timer runs");
                    Err(Breach::of_world(Rule::GoOn(what), told))
                });
            };
            trail.push(step);
            self.advance(step)?;
            self.check()?;
            if unfinished.is_none() || self.ends.each_ref().map(|end| end.read) != before {
                progressed = self.now;
            } else if let Some(what) = unfinished
                && self.now.saturating_since(progressed) > PATIENCE
            {
                let seconds = PATIENCE.as_secs();
                let told = format_args!("{what} for more than {seconds} s of a healthy network");
                return Err(Breach::of_world(Rule::GoOn(what), told));
            }
            if unfinished.is_none() && self.setup.settings(Side::Client).keepalive.is_some() {
                return Ok(());
            }
        }
        let what = format_args!("no rest after {STEPS_MAX} moves of a healthy network");
        Err(Breach::of_world(Rule::Rest, what))
    }

    /// Names a thing that has not come to its end, if any.
    fn unfinished(&self) -> Option<Unfinished> {
        let [client, server] = &self.ends;
        let reset = client.resets_peer(server)
            || server.resets_peer(client)
            || (self.handshakes_may_fail() || self.ends.iter().any(End::is_gone))
                && self.ends.iter().any(|end| end.error.is_some())
            || self.ends.iter().any(|end| end.wire.is_mixed);
        for side in Side::BOTH {
            let (end, peer) = (self.end(side), self.end(side.peer()));
            let reads = peer.connection.is_some() && !peer.released;
            if !reset && reads && peer.read < end.written {
                return Some(Unfinished::Bytes(side));
            }
            if !reset && reads && (end.shut || end.released) && !peer.ended {
                return Some(Unfinished::End(side));
            }
            if client.released && server.released && end.endpoint.connection_count() > 0 {
                return Some(Unfinished::Connection(side));
            }
        }
        if self.ends.iter().any(|end| end.promised.is_some()) {
            return Some(Unfinished::Syn);
        }
        None
    }

    /// Whether an end may find nothing at its peer: one that opens to a port on which nothing listens yet; an
    /// old duplicate of a SYN leaves an end with a connection that the other never had.
    fn handshakes_may_fail(&self) -> bool {
        let crosses = self.setup.calls[Side::Server as usize].contains(&Call::Connect);
        crosses || self.ends.iter().any(|end| end.wire.is_mixed)
    }

    /// A hash of what is to come: equal for states that go on alike.
    pub(crate) fn digest(&self, writer: &mut Writer) -> u128 {
        let mut hasher = SipHasher13::new();
        for side in Side::BOTH {
            let end = self.end(side);
            writer.set_origin(end.endpoint.own_time(self.now).as_nanos());
            end.endpoint.freeze_to(writer).expect("one endpoint of its host, without keys");
            hasher.write_usize(writer.len());
            hasher.write(writer.bytes());
            end.wire.numbers().into_iter().for_each(|number| hasher.write_u64(number));
            hasher.write_u16(end.made);
            let flags = [end.shut, end.released, end.aborted, end.ended, end.error.is_some()];
            hasher.write(&[end.read, end.written, end.has_decided.into(), end.promised.is_some().into()]);
            flags.into_iter().for_each(|flag| hasher.write_u8(flag.into()));
            let waiting = self.to(side);
            hasher.write_usize(waiting.len());
            for packet in waiting {
                hasher.write_usize(packet.len());
                hasher.write(packet);
            }
        }
        hasher.write(&[self.faults_left, self.variations_left, u8::from(self.has_slept)]);
        hasher.finish128().as_u128()
    }

    /// The packet that a move delivers or loses, to be read.
    pub(crate) fn shown(&self, step: Move) -> Option<String> {
        let (to, at) = match step {
            Move::Deliver(to, at) | Move::Lose(to, at) | Move::Duplicate(to, at) => (to, at),
            Move::Vary(variation, at) => match variation.entry()?.rule {
                linux::Rule::Answer(_) => (Side::Client, at),
                linux::Rule::Arrival(_) => (Side::Server, at),
                linux::Rule::Call(_) => return None,
            },
            _ => return None,
        };
        self.to(to).get(usize::from(at)).map(|packet| self.line(to, packet))
    }

    /// The packets of the last move, to be read.
    pub(crate) fn sent(&self) -> Vec<String> {
        let of = |to: Side| {
            let packets = self.to(to);
            packets[packets.len().saturating_sub(self.fresh[to as usize])..]
                .iter()
                .map(move |one| self.line(to, one))
        };
        Side::BOTH.into_iter().rev().flat_map(of).collect()
    }

    fn line(&self, to: Side, packet: &[u8]) -> String {
        let (from, into) = (&self.end(to.peer()).wire, &self.end(to).wire);
        format!("{} > {}: {}", to.peer().name(), to.name(), from.notation(packet, into))
    }

    /// Appends how the server may act as a Linux.
    fn variations(&self, moves: &mut Vec<Move>) {
        let scene = self.scene();
        let count = |of: usize| u8::try_from(of).unwrap_or(u8::MAX);
        let only = self.setup.only;
        for entry in Variation::entries().filter(|it| only.is_empty() || only.contains(&it.variation)) {
            let is_possible = |&at: &u8| match entry.rule {
                linux::Rule::Answer(rule) => self.answer(at).and_then(|it| rule(&scene, &it)).is_some(),
                linux::Rule::Arrival(rule) => self.arrival(at).and_then(|it| rule(&scene, &it)).is_some(),
                linux::Rule::Call(rule) => self.server_call(at).and_then(|call| rule(&scene, call)).is_some(),
            };
            let end = match entry.rule {
                linux::Rule::Answer(_) => self.to(Side::Client).len(),
                linux::Rule::Arrival(_) => 1,
                linux::Rule::Call(_) => self.setup.calls[Side::Server as usize].len(),
            };
            let possible = (0..count(end)).filter(is_possible);
            moves.extend(possible.map(|at| Move::Vary(entry.variation, at)));
        }
    }

    /// Lets the server act as a Linux. `None`: it acts no differently there.
    fn vary(&mut self, variation: Variation, at: u8) -> Result<Option<()>, Breach> {
        let (scene, place) = (self.scene(), usize::from(at));
        let Some(entry) = variation.entry() else { return Ok(None) };
        match entry.rule {
            linux::Rule::Answer(rule) => {
                let Some(answer) = self.answer(at).and_then(|it| rule(&scene, &it)) else { return Ok(None) };
                let packet = &self.to(Side::Client)[place];
                let instead = match answer {
                    Answer::Header(header) => linux::with_header(packet, &header, true),
                    Answer::Nothing => None,
                };
                instead.iter().for_each(|packet| self.note_answer(packet));
                self.fresh[Side::Client as usize] -= usize::from(instead.is_none());
                self.on_the_way[Side::Client as usize].splice(place..=place, instead);
            }
            linux::Rule::Arrival(rule) => {
                let Some(how) = self.arrival(at).and_then(|it| rule(&scene, &it)) else { return Ok(None) };
                let packet = self.on_the_way[Side::Server as usize].remove(place);
                self.arrive(&packet, &how)?;
            }
            linux::Rule::Call(rule) => {
                let Some(call) = self.server_call(at) else { return Ok(None) };
                let Some(act) = rule(&scene, call) else { return Ok(None) };
                self.ends[Side::Server as usize].made |= 1 << at;
                self.act(call, act)?;
            }
        }
        Ok(Some(()))
    }

    /// Lets the server take a packet as a Linux takes it.
    fn arrive(&mut self, packet: &[u8], how: &Arrival) -> Result<(), Breach> {
        match how {
            Arrival::After(header) => {
                if let Some(first) = linux::with_header(packet, header, false) {
                    self.deliver(Side::Server, &first)?;
                }
                self.deliver(Side::Server, packet)?;
            }
            Arrival::Header(header) => {
                if let Some(instead) = linux::with_header(packet, header, true) {
                    self.deliver(Side::Server, &instead)?;
                }
            }
            Arrival::Answered(header) => {
                if let Some(answer) = linux::answer_to(packet, header) {
                    self.note_answer(&answer);
                    self.on_the_way[Side::Client as usize].push(answer);
                    self.fresh[Side::Client as usize] += 1;
                }
            }
            Arrival::Reset => {
                let server = &mut self.ends[Side::Server as usize];
                server.tape.try_record(self.now, || Err("a Linux resets what its program has left".into()));
                server.endpoint.reset_orphans(self.now);
            }
        }
        Ok(())
    }

    /// Makes a call of the server's application as a Linux makes it.
    fn act(&mut self, call: Call, act: Act) -> Result<(), Breach> {
        let now = self.now;
        let set_nodelay = |world: &mut Self, nodelay| {
            let end = &mut world.ends[Side::Server as usize];
            if let Some(id) = end.connection {
                end.endpoint.update(now, id, |connection, now| connection.set_nodelay(now, nodelay));
            }
        };
        match act {
            Act::As(call) => self.ends[Side::Server as usize].call(now, Side::Server, call),
            Act::AtOnce => {
                let tape = &mut self.ends[Side::Server as usize].tape;
                tape.try_record(now, || Err("a Linux sends less than a segment at once".into()));
                set_nodelay(self, true);
                self.ends[Side::Server as usize].call(now, Side::Server, call)?;
                self.settle()?;
                set_nodelay(self, false);
                Ok(())
            }
        }
    }

    /// Notes an answer that the server's endpoint did not give itself. It breaks no rule of this stack.
    fn note_answer(&mut self, packet: &[u8]) {
        let [client, server] = &mut self.ends;
        if let Some(segment) = parse(packet) {
            let _ = server.wire.on_sent(&client.wire, &segment);
        }
    }

    /// A packet that the server has just sent: a Linux has sent another, or none.
    fn answer(&self, at: u8) -> Option<Segment<'_>> {
        let side = Side::Client as usize;
        let is_fresh = usize::from(at) + self.fresh[side] >= self.on_the_way[side].len();
        self.to(Side::Client)
            .get(usize::from(at))
            .and_then(|packet| parse(packet))
            .filter(|_| is_fresh && self.has_places())
    }

    fn arrival(&self, at: u8) -> Option<Segment<'_>> {
        self.to(Side::Server)
            .get(usize::from(at))
            .and_then(|packet| parse(packet))
            .filter(|_| self.has_places())
    }

    /// A call that the server's application has left.
    fn server_call(&self, at: u8) -> Option<Call> {
        let (calls, end) = (self.setup.calls[Side::Server as usize], self.end(Side::Server));
        let &call = calls.get(usize::from(at)).filter(|_| end.made >> at & 1 == 0)?;
        // Of equal calls only the first that is left counts.
        let before = (0..at).any(|before| calls[usize::from(before)] == call && end.made >> before & 1 == 0);
        (!before && !end.released && end.connection.is_some()).then_some(call)
    }

    /// Whether sequence numbers are places of one connection.
    fn has_places(&self) -> bool {
        !self.ends.iter().any(|end| end.wire.is_mixed)
    }

    fn scene(&self) -> Scene {
        let [client, server] = self.ends.each_ref().map(End::seen);
        let settings = self.setup.settings(Side::Server);
        // It goes on when its application has released it.
        let connection =
            self.end(Side::Server).endpoint.connections().map(|(_, connection)| connection).next();
        Scene {
            client,
            server,
            info: connection.map(|connection| connection.info(self.now)),
            receive_buffer: self.setup.receive_buffer,
            offers_sack: settings.choices.sack,
            nagle: !settings.nodelay,
        }
    }

    /// The steps of one end so far.
    ///
    /// # Errors
    /// Why they make no protocol test.
    pub(crate) fn steps(&self, side: Side) -> Result<&[Step], String> {
        let end = self.end(side);
        if end.wire.mixes_with(&self.end(side.peer()).wire) {
            return Err("an old duplicate of a SYN has begun another connection".into());
        }
        end.tape.gap().map_or_else(|| Ok(end.tape.steps()), |why| Err(why.into()))
    }

    /// The oldest place that an end has to send until it hears that it has arrived.
    pub(crate) fn owed(&self, side: Side) -> Option<u32> {
        let end = self.end(side);
        let past = 1 + u32::from(end.written) + u32::from(end.shut || end.released);
        Some(end.wire.una().max(1)).filter(|una| *una < past && !end.aborted)
    }

    /// How far the peer's stream can be read at this end: past the last byte that has arrived in order and in
    /// the window, and whether the end of the stream follows.
    pub(crate) fn readable(&self, side: Side) -> (u32, bool) {
        let (end, peer) = (self.end(side), self.end(side.peer()));
        let past = 1 + u32::from(peer.written);
        let known = peer.wire.known();
        (known.min(past).min(end.wire.edge.max(1)), known > past)
    }

    /// How many bytes an end has read.
    pub(crate) fn read(&self, side: Side) -> u32 {
        self.end(side).read.into()
    }

    pub(crate) fn end(&self, side: Side) -> &End {
        &self.ends[side as usize]
    }

    fn to(&self, side: Side) -> &[Vec<u8>] {
        &self.on_the_way[side as usize]
    }

    fn deliver(&mut self, to: Side, packet: &[u8]) -> Result<(), Breach> {
        let [client, server] = &mut self.ends;
        let (end, peer) = if to == Side::Client { (client, server) } else { (server, client) };
        let Some(segment) = parse(packet) else { return Ok(()) };
        end.wire.on_received(&mut peer.wire, &segment);
        end.tape.try_record(self.now, || peer.wire.arrives(packet, &end.wire));
        let info = end
            .connection
            .and_then(|id| end.endpoint.connection(id))
            .map(|connection| connection.info(self.now));
        end.endpoint.handle_packet(self.now, packet, META);
        // RFC 9293 §3.10.7.4, second (RFC 5961 §3.2): only a reset at RCV.NXT ends a connection.
        if segment.flags.contains(Flags::RST)
            && !(end.wire.is_mixed || peer.wire.is_mixed)
            && let Some(info) = info.filter(|info| !matches!(info.state, State::SynSent | State::Closed))
            && peer.wire.place(segment.seq).map(u64::from) != Some(judge::rcv_nxt(&info))
            && end
                .connection
                .and_then(|id| end.endpoint.connection(id))
                .is_none_or(|it| it.state() == State::Closed)
        {
            return Err(Breach::by(to, Rule::StayOpen, "a reset beside RCV.NXT ends a connection"));
        }
        Ok(())
    }

    /// Takes the packets and events that follow from a move.
    fn settle(&mut self) -> Result<(), Breach> {
        let [client, server] = &mut self.ends;
        client.settle(self.now, Side::Client, server, &mut self.on_the_way, &mut self.fresh)?;
        server.settle(self.now, Side::Server, client, &mut self.on_the_way, &mut self.fresh)
    }
}

impl End {
    fn new(side: Side, setup: &Setup, mut tape: Tape) -> Self {
        let mut config = EndpointConfig::new(vec![IpAddr::V4(addr(side))], [1 + side as u8; 32]);
        config.histograms = false;
        config.tcp = setup.settings(side).into();
        let mut endpoint = Endpoint::new(config, START);
        if side == Side::Server {
            let at = ListenAddr { addr: None, port: Some(PORT) };
            let options = ListenOptions { deferred: setup.deferred, ..ListenOptions::new(at) };
            endpoint.listen(START, options).expect("nothing else listens");
            tape.record(START, || Step::AcceptAtOnce);
        }
        Self {
            endpoint,
            wire: Wire::new(side),
            tape,
            connection: None,
            incoming: None,
            has_decided: false,
            promised: None,
            made: 0,
            written: 0,
            read: 0,
            shut: false,
            released: false,
            aborted: false,
            ended: false,
            error: None,
        }
    }

    fn seen(&self) -> Seen {
        Seen {
            wire: self.wire.clone(),
            written: self.written.into(),
            read: self.read.into(),
            shut: self.shut,
            released: self.released,
            aborted: self.aborted,
        }
    }

    /// Whether the call makes sense now.
    fn allows(&self, call: Call) -> bool {
        let open = self.connection.filter(|_| !self.released).and_then(|id| self.endpoint.connection(id));
        match (call, open) {
            (Call::Connect, _) => self.connection.is_none(),
            (Call::Decide, _) => self.incoming.is_some_and(|id| self.endpoint.incoming(id).is_some()),
            (_, None) => false,
            (Call::Write(_), Some(connection)) => {
                !self.shut && connection.is_writable() && connection.write_room() > 0
            }
            (Call::Read, Some(connection)) => !self.ended && self.error.is_none() && connection.is_readable(),
            (Call::Shutdown, Some(connection)) => !self.shut && connection.is_established(),
            (Call::Close | Call::Abort, Some(_)) => true,
        }
    }

    fn call(&mut self, now: Instant, by: Side, call: Call) -> Result<(), Breach> {
        if call == Call::Connect {
            let to = SocketAddr::new(addr(by.peer()).into(), PORT);
            let local = if by == Side::Client { CLIENT_PORT } else { PORT };
            let to = if by == Side::Client { to } else { SocketAddr::new(to.ip(), CLIENT_PORT) };
            self.connection = self.endpoint.connect(now, to, (None, local), None).ok();
            if self.connection.is_some() {
                self.tape.record(now, || Step::Connect);
            }
            return Ok(());
        }
        if call == Call::Decide {
            if let Some(id) = self.incoming.take() {
                self.has_decided = true;
                self.tape.record(now, || Step::Decide(Decision::Accept));
                self.promised = self.endpoint.decide(now, id, Decision::Accept).then_some(id);
            }
            return Ok(());
        }
        let Some(id) = self.connection else { return Ok(()) };
        match call {
            Call::Connect | Call::Decide => {}
            Call::Write(bytes) => {
                let (place, len) = (u32::from(self.written) + 1, usize::from(bytes));
                self.tape.record(now, || Step::Write(place, len));
                let bytes: Vec<u8> = (self.written..).take(len).map(|at| byte(by, at)).collect();
                let wrote = self.endpoint.update(now, id, |connection, now| connection.write(now, &bytes));
                let wrote = wrote.and_then(Result::ok).unwrap_or_default();
                if wrote != len {
                    self.tape.unrecord();
                }
                if 0 < wrote && wrote < len {
                    self.tape.record(now, || Step::Write(place, wrote));
                }
                self.written = self.written.saturating_add(u8::try_from(wrote).unwrap_or(u8::MAX));
            }
            Call::Read => return self.take(now, by, id),
            Call::Shutdown => {
                self.tape.record(now, || Step::Shutdown);
                let result = self.endpoint.update(now, id, |connection, now| connection.shutdown(now));
                if matches!(result, Some(Ok(()))) {
                    self.shut = true;
                } else {
                    self.tape.unrecord();
                }
            }
            Call::Close => {
                // RFC 9293 §3.10.4: in SYN-SENT the attempt is given up.
                let state = self.endpoint.connection(id).map(ackclock_core::Connection::state);
                self.aborted |= state == Some(State::SynSent);
                self.tape.record(now, || Step::Release);
                self.endpoint.release(now, id);
                self.released = true;
            }
            Call::Abort => {
                self.tape.record(now, || Step::Abort);
                self.tape.record(now, || Step::Release);
                self.endpoint.update(now, id, |connection, now| connection.abort(now));
                self.endpoint.release(now, id);
                (self.released, self.aborted) = (true, true);
            }
        }
        Ok(())
    }

    /// Empties the receive buffer. No byte may be lost, repeated or foreign.
    fn take(&mut self, now: Instant, by: Side, id: ConnectionId) -> Result<(), Breach> {
        let mut into = [0; 16];
        let begun = self.read;
        loop {
            let result = self.endpoint.update(now, id, |connection, now| connection.read(now, &mut into));
            if let Some(Ok(bytes @ 1..)) = result {
                for &got in into.iter().take(bytes) {
                    if got != byte(by.peer(), self.read) {
                        let what = format_args!("byte {} of the stream is read as {got:#04x}", self.read);
                        return Err(Breach::by(by, Rule::Read, what));
                    }
                    self.read = self.read.saturating_add(1);
                }
                continue;
            }
            if let Some(Err(ReadError::Connection(error))) = result {
                self.error = Some(error);
                let info = self.endpoint.connection(id).map(|connection| connection.info(now));
                // However a connection ends, what was received in order is read first.
                if info.is_some_and(|info| u64::from(self.read) < info.bytes_received) {
                    return Err(Breach::by(by, Rule::Read, "received bytes are lost with the connection"));
                }
            }
            self.ended |= result == Some(Ok(0));
            self.record_read(now, begun);
            return Ok(());
        }
    }

    /// Records a call that has read from byte `begun` on.
    fn record_read(&mut self, now: Instant, begun: u8) {
        let (place, len) = (u32::from(begun) + 1, usize::from(self.read - begun));
        let over = self.ended.then_some(Step::ExpectEnd).or(self.error.map(Step::ExpectError));
        if len > 0 || over.is_none() {
            self.tape.record(now, || Step::ExpectRead(place, len));
        }
        if let Some(over) = over {
            self.tape.record(now, || over);
        }
    }

    /// Whether its calls may reset the peer: it aborted, or closed with bytes that it had not read, or may
    /// not have been sent yet.
    fn resets_peer(&self, peer: &Self) -> bool {
        self.aborted || self.released && self.read < peer.written
    }

    /// Whether its endpoint has forgotten the connection: an orphan waits in FIN-WAIT-2 for a minute, and a
    /// reset answers what comes after that.
    fn is_gone(&self) -> bool {
        self.released && self.endpoint.connection_count() == 0
    }

    fn settle(
        &mut self,
        now: Instant,
        side: Side,
        peer: &Self,
        on_the_way: &mut [Vec<Vec<u8>>; 2],
        fresh: &mut [usize; 2],
    ) -> Result<(), Breach> {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Acceptable(listener) => {
                    while let Some((accepted, of)) = self.endpoint.accept_decided(now, listener) {
                        self.promised = self.promised.filter(|it| Some(*it) != of);
                        match self.connection {
                            None => self.connection = Some(accepted),
                            // An old duplicate of a SYN may begin another, which this application ends.
                            Some(_) => self.endpoint.release(now, accepted),
                        }
                    }
                }
                Event::Incoming(_, incoming) if self.has_decided => {
                    self.tape.record(now, || Step::Decide(Decision::Reset));
                    self.endpoint.decide(now, incoming, Decision::Reset);
                }
                Event::Incoming(_, incoming) => self.incoming = Some(incoming),
                Event::IncomingGone(_, incoming) => {
                    self.incoming = self.incoming.filter(|it| *it != incoming);
                    self.promised = self.promised.filter(|it| *it != incoming);
                }
                _ => {}
            }
        }
        let to = side.peer() as usize;
        while let Some(packet) = self.endpoint.poll_transmit(now, LIMITS) {
            let bytes = packet.to_vec();
            let breach = parse(&bytes).and_then(|segment| self.wire.on_sent(&peer.wire, &segment));
            if breach.is_none() {
                self.tape.try_record(now, || self.wire.leaves(&bytes, &peer.wire));
            }
            on_the_way[to].push(bytes);
            fresh[to] += 1;
            if let Some((rule, what)) = breach {
                return Err(Breach::by(side, rule, what));
            }
        }
        Ok(())
    }
}

fn addr(side: Side) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + side as u8)
}

const PORT: u16 = 7;
const CLIENT_PORT: u16 = 4242;
/// Zero would mean none.
const START: Instant = Instant::from_millis(3_600_000);
/// How long a packet may be on the way beyond another's time: well below the life of a segment.
const DELAY_MAX: Duration = Duration::from_secs(3);
const NIGHT: Duration = Duration::from_secs(3600);
/// RFC 9293 SHLD-30: probes back off; this stack's, and its retransmission timer, to a minute at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const STEPS_MAX: usize = 500;
const LIMITS: Limits = Limits { gso_max_v4: 0, gso_max_v6: 0, tx_checksum: false };
