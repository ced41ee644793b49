//! [`Faults`]: what a test does to its network while its program runs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ackclock::{Clock, Stack};
use tokio::sync::oneshot;

use super::pulse::Pulse;
use super::stage::{Request, Requests, span};
use crate::faults::Names;
use crate::scenario::{Change, Problem};
use crate::simulation::Simulation;
use crate::units::Span;

/// Makes faults, from within the program or beside it:
/// [`VirtualNetwork::faults`](super::VirtualNetwork::faults).
///
/// Hosts and links are named by patterns: `*` stands for any text, and commas separate several
/// (`"node-*, client"`). A fault happens at the present instant of the virtual time, or later with
/// [`at`](Self::at) and [`after`](Self::after).
///
/// ```
/// use std::time::Duration;
///
/// use ackclock_sim::units::{Rate, Span};
/// use ackclock_sim::{Direction, Scenario, VirtualNetwork};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tokio::time::{Instant, sleep};
///
/// let path = Direction::new(Rate::mbit(10), Span::millis(10));
/// let scenario = Scenario::new(Span::seconds(600)).host("a").host("b").link("a", "b", path);
/// let mut net = VirtualNetwork::new(&scenario)?;
/// let (client, faults) = (net.stack("a")?, net.faults());
/// net.start("b", |stack| async move {
///     let listener = stack.listen("0.0.0.0:7".parse().expect("an address")).expect("a free port");
///     while let Ok((mut stream, _)) = listener.accept().await {
///         let (mut reader, mut writer) = stream.split();
///         tokio::io::copy(&mut reader, &mut writer).await.ok();
///     }
/// })?;
/// let server = (net.lookup("b").expect("a host"), 7).into();
///
/// net.run(async move {
///     let mut stream = client.connect(server).await?;
///     // TCP survives a cut of ten seconds.
///     faults.partition("a", "b")?;
///     faults.after(Duration::from_secs(10)).heal("a", "b")?;
///     stream.write_all(b"through").await?;
///     stream.read_exact(&mut [0; 7]).await?;
///     assert!(Instant::now().elapsed() < Duration::from_secs(30));
///     // It does not survive the loss of the server's memory: the new stack knows nothing of it.
///     faults.crash("b")?;
///     faults.after(Duration::from_secs(5)).restart("b")?;
///     stream.write_all(b"hello?").await?;
///     let error = stream.read(&mut [0]).await.unwrap_err();
///     assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
///     // The program of the host runs again.
///     client.connect(server).await?;
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Faults {
    names: Arc<Names>,
    requests: Arc<Requests>,
    pulse: Arc<Pulse>,
    when: When,
}

#[derive(Clone, Copy, Debug)]
enum When {
    Now,
    At(Span),
}

impl Faults {
    pub(super) fn new(names: Arc<Names>, requests: Arc<Requests>, pulse: Arc<Pulse>) -> Self {
        Self { names, requests, pulse, when: When::Now }
    }

    /// Faults at this time after the beginning of the scenario; at once if it is over.
    #[must_use]
    pub fn at(&self, time: Duration) -> Self {
        Self { when: When::At(Span(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))), ..self.clone() }
    }

    /// Faults in so long a time from now.
    #[must_use]
    pub fn after(&self, time: Duration) -> Self {
        self.at(Duration::from_nanos(self.pulse.now().as_nanos()) + time)
    }

    /// Packets between the hosts of `a` and those of `b` are lost, both ways, those under way too, until they
    /// are [healed](Self::heal).
    ///
    /// # Errors
    /// A name that no host has.
    pub fn partition(&self, a: &str, b: &str) -> Result<(), Problem> {
        self.change(Change::partition(self.time(), a, b))
    }

    /// Ends partitions between the hosts of `a` and those of `b`; `heal("*", "*")` ends all.
    ///
    /// # Errors
    /// A name that no host has.
    pub fn heal(&self, a: &str, b: &str) -> Result<(), Problem> {
        self.change(Change::heal(self.time(), a, b))
    }

    /// Packets between the hosts of `a` and those of `b` wait where they arrive, until they are
    /// [released](Self::release).
    ///
    /// # Errors
    /// A name that no host has.
    pub fn hold(&self, a: &str, b: &str) -> Result<(), Problem> {
        self.change(Change::hold(self.time(), a, b))
    }

    /// Lets the packets arrive that waited, in their order.
    ///
    /// # Errors
    /// A name that no host has.
    pub fn release(&self, a: &str, b: &str) -> Result<(), Problem> {
        self.change(Change::release(self.time(), a, b))
    }

    /// The hosts lose their memory without a sound. Their stacks end, and so do the programs that
    /// [`start`](super::VirtualNetwork::start) runs on them. Their peers hear nothing, until they give up or
    /// the hosts restart and answer with resets.
    ///
    /// Tasks that such a program has spawned go on, with sockets that fail. Spawn them in a
    /// [`JoinSet`](tokio::task::JoinSet), which ends with its owner, where that matters.
    ///
    /// # Errors
    /// A name that no host has.
    pub fn crash(&self, hosts: &str) -> Result<(), Problem> {
        self.change(Change::crash(self.time(), hosts))
    }

    /// The hosts, which have crashed, start again: each with a new stack and its program from the beginning.
    /// A host that has had no program stays down.
    ///
    /// # Errors
    /// A name that no host has.
    pub fn restart(&self, hosts: &str) -> Result<(), Problem> {
        self.change(Change::restart(self.time(), hosts))
    }

    /// As [`restart`](Self::restart), with this program from then on.
    ///
    /// # Errors
    /// A name that no host has.
    pub fn restart_with<F>(
        &self,
        hosts: &str,
        program: impl Fn(Stack) -> F + Send + Sync + 'static,
    ) -> Result<(), Problem>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let program = super::program(Box::new(Ok), program);
        for &node in &*self.names.group(hosts, "restart")? {
            self.requests.ask(Request::Program(node, Arc::clone(&program)));
        }
        self.restart(hosts)
    }

    /// Gives the links of this name other values: [`Change::new`]`(at, link)` with `rate`, `delay`, `loss`
    /// and so on. The time of these `Faults` replaces the change's.
    ///
    /// # Errors
    /// A name that no link has, or an impossible value.
    pub fn degrade(&self, change: Change) -> Result<(), Problem> {
        self.change(Change { at: self.time(), ..change })
    }

    /// Calls `look` with the network in its present state, and returns the result.
    ///
    /// # Panics
    /// If the network is dropped meanwhile: only a task that outlives it could find out.
    pub async fn look<T: Send + 'static>(&self, look: impl FnOnce(&Simulation) -> T + Send + 'static) -> T {
        let (sender, receiver) = oneshot::channel();
        let look = move |simulation: &Simulation| {
            // The one who asked may be gone.
            let _ = sender.send(look(simulation));
        };
        self.requests.ask(Request::Look(Box::new(look)));
        self.pulse.wake_turn();
        receiver.await.expect("the network answers while it is there")
    }

    /// How late events were so far; see
    /// [`VirtualNetwork::lateness`](super::VirtualNetwork::lateness).
    #[cfg(feature = "real-time")]
    #[must_use]
    pub fn lateness(&self) -> Option<super::Lateness> {
        self.pulse.lateness()
    }

    /// Makes any change at its own time, or now if that is over.
    ///
    /// # Errors
    /// A name that nothing has, or an impossible value.
    pub fn change(&self, change: Change) -> Result<(), Problem> {
        self.names.act(&change)?;
        self.requests.ask(Request::Change(Box::new(change)));
        self.pulse.wake_turn();
        Ok(())
    }

    fn time(&self) -> Span {
        match self.when {
            When::Now => span(self.pulse.now()),
            When::At(at) => at,
        }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("when", &self.when).finish_non_exhaustive()
    }
}
