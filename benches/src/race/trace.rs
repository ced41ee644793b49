//! The trace of this stack's sender, written to a file while it runs.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use ackclock::Stack;
use ackclock_trace::file::{Origin, Writer};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A trace that is being written.
#[derive(Debug)]
pub(super) struct Tracing {
    writing: JoinHandle<io::Result<()>>,
    end: oneshot::Sender<()>,
    runtime: Handle,
}

impl Tracing {
    pub(super) fn start(path: &Path, stack: &Stack, runtime: &Handle) -> io::Result<Self> {
        let origin =
            Origin { program: concat!("loss ", env!("CARGO_PKG_VERSION")).to_owned(), ..Origin::default() };
        let mut writer = Writer::new(BufWriter::new(File::create(path)?), &origin)?;
        let (end, mut ended) = oneshot::channel();
        let stack = stack.clone();
        let writing = runtime.spawn(async move {
            loop {
                let batch = tokio::select! {
                    biased;
                    batch = stack.next_trace() => batch,
                    _ = &mut ended => None,
                };
                match batch {
                    Some(batch) => writer.batch("", &batch)?,
                    None => return writer.flush(),
                }
            }
        });
        Ok(Self { writing, end, runtime: runtime.clone() })
    }

    /// Waits until everything recorded has been written.
    pub(super) fn end(self, stack: &Stack) -> io::Result<()> {
        stack.request_traces();
        let _ = self.end.send(());
        self.runtime.block_on(self.writing).map_err(io::Error::other)?
    }
}
