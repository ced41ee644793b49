//! Three nodes of Raft in a simulated network choose a leader; a partition cuts it off; the others choose
//! another; the old one follows once the partition is healed. The votes are found in the network's packets.
//!
//!     cargo run --example virtual_raft
//!
//! Raft is openraft, with its own tasks and timers. Its messages travel as JSON over streams of the stacks.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ackclock::{Stack, TcpListener, TcpStream};
use ackclock_sim::observe::{Observer, PacketEvent, What};
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, Faults, Scenario, VirtualNetwork};
use anyhow::{Context, ensure};
use openraft::error::{InstallSnapshotError, RPCError, RaftError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::storage::Adaptor;
use openraft::{Config, RaftNetwork, RaftNetworkFactory};
use openraft_memstore::{ClientRequest, MemStore, TypeConfig};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

type Raft = openraft::Raft<TypeConfig>;

/// The hosts, by the numbers that Raft has for them.
const HOSTS: [&str; 3] = ["ann", "bob", "cy"];
const PORT: u16 = 7000;
/// A follower that hears nothing from its leader for this long, and a random time up to the double, stands
/// for election.
const ELECTION: Duration = Duration::from_millis(500);

fn main() -> anyhow::Result<()> {
    // ANCHOR: network
    let path = Direction::new(Rate::mbit(100), Span::millis(5));
    let scenario = Scenario::new(Span::seconds(60)).router("switch");
    let scenario =
        HOSTS.iter().fold(scenario, |scenario, host| scenario.host(*host).link(host, "switch", path.clone()));
    let mut net = VirtualNetwork::new(&scenario)?;
    // ANCHOR_END: network
    let votes = Rc::new(RefCell::new(Votes::default()));
    net.observe(Rc::clone(&votes));
    let stacks = HOSTS.iter().map(|host| net.stack(host)).collect::<Result<Vec<_>, _>>()?;
    let faults = net.faults();
    let [cut_off, elected] = net.run(broken_and_healed(stacks, faults))??;

    // The votes as the network saw them.
    let votes = votes.borrow();
    let after = votes.asked.iter().filter(|vote| vote.at > cut_off.at);
    let asked = after.filter(|vote| vote.host == elected.host).collect::<Vec<_>>();
    let first = asked.first().context("the new leader has asked for a vote")?;
    println!(
        "in the packets: {} asked for votes at {} ms, in one of {} bytes",
        HOSTS[first.host], first.at, first.len
    );
    let waited = Duration::from_millis(first.at - cut_off.at);
    // The last heartbeat was up to a tenth of the election timeout before the partition.
    ensure!(waited >= ELECTION - ELECTION / 5, "it asked after {waited:?} of silence");
    ensure!(waited <= 8 * ELECTION, "no node asked for {waited:?}");
    ensure!(first.at < elected.at, "it was elected after it had asked");
    Ok(())
}

/// Something at a time, in milliseconds, and whose it was.
struct Moment {
    at: u64,
    host: usize,
}

/// Runs the cluster. Returns when its first leader was cut off, and when the second was elected.
async fn broken_and_healed(stacks: Vec<Stack>, faults: Faults) -> anyhow::Result<[Moment; 2]> {
    let begun = Instant::now();
    let now = || begun.elapsed().as_millis() as u64;
    let config = Config {
        heartbeat_interval: ELECTION.as_millis() as u64 / 10,
        election_timeout_min: ELECTION.as_millis() as u64,
        election_timeout_max: 2 * ELECTION.as_millis() as u64,
        ..Config::default()
    };
    let config = Arc::new(config.validate()?);
    let (mut nodes, mut stores) = (Vec::new(), Vec::new());
    for (id, stack) in (0..).zip(stacks) {
        let store = MemStore::new_async().await;
        let (log, machine) = Adaptor::new(Arc::clone(&store));
        let node = Raft::new(id, Arc::clone(&config), Peers(stack.clone()), log, machine).await?;
        tokio::spawn(serve(TcpListener::bind(&stack, (HOSTS[id as usize], PORT)).await?, node.clone()));
        nodes.push(node);
        stores.push(store);
    }
    nodes[0].initialize(BTreeSet::from([0, 1, 2])).await?;
    let first = leader_of(&nodes[0], None).await?;
    println!("{:>6} ms  {} leads", now(), HOSTS[first]);
    nodes[first].client_write(put(1, "before the partition")).await?;

    // ANCHOR: broken
    faults.partition(HOSTS[first], "*")?;
    let cut_off = Moment { at: now(), host: first };
    println!("{:>6} ms  {} is cut off", cut_off.at, HOSTS[first]);
    // It cannot know yet, and takes a write that no majority will hold.
    let lost = timeout(ELECTION / 2, nodes[first].client_write(put(2, "from the old leader"))).await;
    ensure!(lost.is_err(), "a leader without a majority must not commit: {lost:?}");
    let other = (first + 1) % HOSTS.len();
    let second = leader_of(&nodes[other], Some(first)).await?;
    let elected = Moment { at: now(), host: second };
    // ANCHOR_END: broken
    println!("{:>6} ms  {} leads", elected.at, HOSTS[second]);
    let written = nodes[second].client_write(put(3, "from the new leader")).await?;

    faults.heal(HOSTS[first], "*")?;
    println!("{:>6} ms  the partition is healed", now());
    let caught_up = nodes[first].wait(Some(PATIENCE));
    caught_up.applied_index_at_least(Some(written.log_id.index), "it catches up").await?;
    println!("{:>6} ms  {} has what {} has", now(), HOSTS[first], HOSTS[second]);
    for store in stores {
        let machine = store.get_state_machine().await;
        ensure!(machine.client_status.get("client").is_some_and(|status| status == "from the new leader"));
    }
    Ok([cut_off, elected])
}

/// Waits until this node follows a leader other than `not`.
async fn leader_of(node: &Raft, not: Option<usize>) -> anyhow::Result<usize> {
    let other = |leader: Option<u64>| leader.map(|id| id as usize).filter(|id| Some(*id) != not);
    let wait = node.wait(Some(PATIENCE));
    let metrics = wait.metrics(|metrics| other(metrics.current_leader).is_some(), "a leader").await?;
    other(metrics.current_leader).context("a leader")
}

fn put(serial: u64, status: &str) -> ClientRequest {
    ClientRequest { client: "client".to_owned(), serial, status: status.to_owned() }
}

/// A request of one node to another.
#[derive(Serialize, Deserialize)]
enum Message {
    Vote(VoteRequest<u64>),
    Append(AppendEntriesRequest<TypeConfig>),
    Install(InstallSnapshotRequest<TypeConfig>),
}

/// Answers the other nodes.
async fn serve(listener: TcpListener, node: Raft) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let node = node.clone();
        tokio::spawn(async move {
            while let Ok(message) = receive(&mut stream).await {
                match message {
                    Message::Vote(vote) => send(&mut stream, &node.vote(vote).await).await?,
                    Message::Append(entries) => {
                        send(&mut stream, &node.append_entries(entries).await).await?
                    }
                    Message::Install(part) => send(&mut stream, &node.install_snapshot(part).await).await?,
                }
            }
            io::Result::Ok(())
        });
    }
}

/// The way to the other nodes.
struct Peers(Stack);

/// The way to one of them.
struct Peer {
    stack: Stack,
    host: &'static str,
    /// A stream on which every question has been answered.
    stream: Option<TcpStream>,
}

impl RaftNetworkFactory<TypeConfig> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, (): &()) -> Peer {
        Peer { stack: self.0.clone(), host: HOSTS[target as usize], stream: None }
    }
}

type Failed<E = RaftError<u64>> = RPCError<u64, (), E>;

impl Peer {
    /// Raft gives up on a question after its own time, by dropping this; the stream goes with it.
    async fn ask<T: DeserializeOwned, E: std::error::Error>(
        &mut self,
        message: Message,
    ) -> Result<T, Failed<E>> {
        let answered = async {
            let mut stream = match self.stream.take() {
                Some(stream) => stream,
                None => TcpStream::connect(&self.stack, (self.host, PORT)).await?,
            };
            send(&mut stream, &message).await?;
            let answer: Result<T, RaftError<u64>> = receive(&mut stream).await?;
            self.stream = Some(stream);
            answer.map_err(io::Error::other)
        };
        answered.await.map_err(|error| RPCError::Unreachable(Unreachable::new(&error)))
    }
}

impl RaftNetwork<TypeConfig> for Peer {
    async fn append_entries(
        &mut self,
        entries: AppendEntriesRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, Failed> {
        self.ask(Message::Append(entries)).await
    }

    async fn install_snapshot(
        &mut self,
        part: InstallSnapshotRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, Failed<RaftError<u64, InstallSnapshotError>>> {
        self.ask(Message::Install(part)).await
    }

    async fn vote(&mut self, vote: VoteRequest<u64>, _: RPCOption) -> Result<VoteResponse<u64>, Failed> {
        self.ask(Message::Vote(vote)).await
    }
}

/// Sends a value as JSON, behind its length.
async fn send(stream: &mut TcpStream, value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(value)?;
    let len = u32::try_from(text.len()).map_err(io::Error::other)?;
    stream.write_all(&[&len.to_be_bytes()[..], &text].concat()).await
}

async fn receive<T: DeserializeOwned>(stream: &mut TcpStream) -> io::Result<T> {
    let mut text = vec![0; stream.read_u32().await? as usize];
    stream.read_exact(&mut text).await?;
    Ok(serde_json::from_slice(&text)?)
}

/// Finds the votes among the network's packets.
#[derive(Default)]
struct Votes {
    asked: Vec<Asked>,
}

/// A packet in which a node asks for a vote.
struct Asked {
    at: u64,
    host: usize,
    len: u32,
}

// ANCHOR: observer
impl Observer for Votes {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        let is_vote = |payload: &[u8]| payload.get(4..).is_some_and(|text| text.starts_with(b"{\"Vote\""));
        if event.what == What::Sent && is_vote(event.packet.payload()) {
            let (at, len) = (event.at.as_nanos() / 1_000_000, event.packet.len());
            self.asked.push(Asked { at, host: event.node as usize, len });
        }
    }
}
// ANCHOR_END: observer

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn election_after_a_partition_is_found_in_the_packets() {
    main().unwrap();
}
