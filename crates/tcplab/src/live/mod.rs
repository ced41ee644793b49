//! A scenario's page: what hosts, links and flows do while the network runs, and the same from a file.
//!
//! | question | file |
//! |---|---|
//! | What can be asked for? | `mod.rs` |
//! | What does the page show that stays? | `scene.rs` |
//! | What does it show of one moment? | `frame.rs` |
//! | Which moments are kept? | `record.rs` |
//! | Who looks at it now? | `board.rs` |
//! | What is it as HTML? | `page.rs`, `live.css`, `live.js` |
//!
//! The page is served by a thread of its own, so that a browser does not make a network in real time late.

mod board;
mod frame;
mod page;
mod record;
mod scene;

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ackclock_cli::{Exit, Failure, output};
use ackclock_sim::{Faults, Scenario, Simulation};
use tokio::sync::oneshot;

use crate::http::{self, is_here};
use crate::real_time::args::listener;
use crate::real_time::stacks::Stacks;
use board::Board;
pub(crate) use frame::Connection;
use scene::Scene;

/// Options of every command that runs a network.
#[derive(Debug, clap::Args)]
pub(crate) struct LiveArgs {
    /// Serve a page of the running network here, for a browser of this machine: its hosts and links, queues,
    /// windows, throughput and faults; port 0 is a free one
    #[arg(long, value_name = "ADDR:PORT")]
    live: Option<SocketAddr>,
    /// Write the same page to this file at the end, with the whole run in it
    #[arg(long, value_name = "FILE.html")]
    live_page: Option<PathBuf>,
}

/// A page that follows a network.
#[derive(Debug)]
pub(crate) struct Live {
    board: Arc<Board>,
    file: Option<PathBuf>,
    server: Option<Server>,
}

/// The thread that serves it. It ends with this value.
#[derive(Debug)]
struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LiveArgs {
    /// Whether to serve the page. If so, the network moves with the wall clock.
    pub fn serves(&self) -> bool {
        self.live.is_some()
    }

    /// The file for the page afterwards.
    pub fn page_file(&self) -> Option<&Path> {
        self.live_page.as_deref()
    }

    pub fn wanted(&self) -> bool {
        self.live.is_some() || self.live_page.is_some()
    }

    /// Begins to serve, if that or a file is asked for. `ends`: hosts whose stacks are of this program.
    pub fn start(
        &self,
        title: &Path,
        scenario: &Scenario,
        ends_by_itself: bool,
        ends: &[String],
    ) -> anyhow::Result<Option<Live>> {
        if !self.wanted() {
            return Ok(None);
        }
        let scene = Scene::new(title.display().to_string(), scenario, ends_by_itself, ends);
        let board = Arc::new(Board::new(scene));
        let server = self.live.map(|addr| Server::start(addr, &board)).transpose()?;
        Ok(Some(Live { board, file: self.live_page.clone(), server }))
    }
}

impl Live {
    /// Shows the present state.
    pub fn show(&self, simulation: &Simulation) {
        self.board.show(simulation, (Vec::new(), 0), None);
    }

    /// Shows a network in real time, several times a second.
    pub fn watch(&self, faults: Faults, stacks: Stacks) -> impl Future<Output = ()> + use<> {
        let board = Arc::clone(&self.board);
        async move {
            loop {
                let (board, late) = (Arc::clone(&board), faults.lateness());
                let late = late.filter(|late| !late.is_valid()).map(|late| late.to_string());
                let connections = stacks.connections(CONNECTIONS_SHOWN);
                faults.look(move |simulation| board.show(simulation, connections, late)).await;
                tokio::time::sleep(Self::EVERY).await;
            }
        }
    }

    /// Tells those who look that the run is over, and writes the file.
    pub fn end(mut self) -> Result<(), Failure> {
        self.board.end();
        drop(self.server.take());
        match &self.file {
            Some(path) => output::write_file(path, page::with(&self.board.state()).as_bytes()),
            None => Ok(()),
        }
    }

    /// The time between two states on the page.
    pub const EVERY: Duration = Duration::from_millis(200);
}

impl Server {
    fn start(addr: SocketAddr, board: &Arc<Board>) -> anyhow::Result<Self> {
        if !is_here(addr.ip()) {
            let what = format!("--live {addr} can be reached from other machines");
            let remedy = "use 127.0.0.1, and `ssh -L` to look from elsewhere";
            return Err(Failure::usage(what).remedy(remedy).into());
        }
        let listener = listener(addr)?;
        listener.set_nonblocking(true)?;
        output::say(format_args!("live: http://{}/", listener.local_addr()?));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let board = Arc::clone(board);
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let served = Arc::clone(&board);
            let answer = move |request| {
                let board = Arc::clone(&served);
                async move { board::answer(&request, &board) }
            };
            tokio::select! {
                () = http::serve(listener, answer) => {}
                _ = stopped => drop(tokio::time::timeout(FAREWELL, board.viewers_gone()).await),
            }
            std::io::Result::Ok(())
        };
        let thread = std::thread::Builder::new().name("live-page".to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(serve) {
                output::say(format_args!("tcplab: the page is not served: {error}"));
            }
        });
        let thread = thread.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Its panic is on stderr already.
            thread.join().ok();
        }
    }
}

/// How long pages may take to hear of the end.
const FAREWELL: Duration = Duration::from_millis(500);
/// The most connections of all stacks that are listed.
const CONNECTIONS_SHOWN: usize = 100;
