//! Drops what a program gave to an endpoint after the program has released its lock.
//!
//! A program that shares an endpoint among threads calls it under a lock. The endpoint owns values whose
//! destructors are the program's code: slices ([`Connection::write_bytes`](crate::Connection::write_bytes)),
//! congestion controllers and their factories. If such a destructor takes the lock in turn, for instance
//! because it closes another connection, its thread waits for itself. So the holder of a lock enters a
//! [`Scope`] before it takes the lock, and leaves it after the release; only then do the values end. Without
//! a scope they end at once.
//!
//! ```
//! use std::sync::Mutex;
//! use ackclock_core::later::Scope;
//!
//! let lock = Mutex::new(());
//! let scope = Scope::enter();
//! let locked = lock.lock();
//! // Calls of an endpoint.
//! drop(locked);
//! drop(scope);
//! ```

use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use ackclock_control::congestion::{Controller, ControllerFactory};
use bytes::Bytes;

use crate::TcpConfig;

/// While it lives, destructors of a program's values wait on this thread. Where scopes are nested, they wait
/// for the outermost one's end.
#[derive(Debug)]
#[must_use = "destructors run at once without it"]
pub struct Scope {
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

/// A value whose destructor waits.
#[derive(Debug)]
pub(crate) enum Kept {
    Slice(#[expect(dead_code, reason = "it is there to be dropped")] Bytes),
    Settings(#[expect(dead_code, reason = "it is there to be dropped")] Arc<TcpConfig>),
    Factory(#[expect(dead_code, reason = "it is there to be dropped")] Arc<dyn ControllerFactory>),
    Controller(#[expect(dead_code, reason = "it is there to be dropped")] Box<dyn Controller>),
    Other(#[expect(dead_code, reason = "it is there to be dropped")] Box<dyn Any>),
}

struct Waiting {
    scopes: Cell<usize>,
    kept: Cell<Vec<Kept>>,
}

thread_local! {
    static WAITING: Waiting = const { Waiting { scopes: Cell::new(0), kept: Cell::new(Vec::new()) } };
}

impl Scope {
    /// Enters a scope.
    pub fn enter() -> Self {
        // In a thread's last moments there is none any more, and values end at once.
        let _ = WAITING.try_with(|waiting| waiting.scopes.set(waiting.scopes.get().saturating_add(1)));
        Self { thread: PhantomData }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let kept = WAITING.try_with(|waiting| {
            let scopes = waiting.scopes.get().saturating_sub(1);
            waiting.scopes.set(scopes);
            if scopes == 0 { waiting.kept.take() } else { Vec::new() }
        });
        let Ok(mut kept) = kept else { return };
        if kept.capacity() == 0 {
            return;
        }
        // A destructor may enter a scope of its own.
        kept.clear();
        if kept.capacity() <= MEMORY_MAX {
            let _ = WAITING.try_with(|waiting| waiting.kept.set(kept));
        }
    }
}

/// Drops a value after the thread's present scope, or now.
pub fn drop_later(value: impl Any) {
    keep(|| Kept::Other(Box::new(value)));
}

/// Keeps a value that the endpoint knows; `kept` is called only within a scope.
pub(crate) fn keep(kept: impl FnOnce() -> Kept) {
    let _ = WAITING.try_with(|waiting| {
        if waiting.scopes.get() > 0 {
            let mut all = waiting.kept.take();
            all.push(kept());
            waiting.kept.set(all);
        }
    });
}

/// Values for which a thread's list keeps its memory.
const MEMORY_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts its end.
    struct Ends(Arc<Cell<u32>>);

    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn values_end_with_the_outermost_scope_or_at_once() {
        #[expect(clippy::arc_with_non_send_sync, reason = "one thread")]
        let ended = Arc::new(Cell::new(0));
        drop_later(Ends(Arc::clone(&ended)));
        assert_eq!(ended.get(), 1, "without a scope");

        let (outer, inner) = (Scope::enter(), Scope::enter());
        drop_later(Ends(Arc::clone(&ended)));
        drop(inner);
        drop_later(Ends(Arc::clone(&ended)));
        assert_eq!(ended.get(), 1);
        drop(outer);
        assert_eq!(ended.get(), 3);
    }

    #[test]
    fn a_destructor_may_enter_scopes() {
        struct Enters(Arc<Cell<u32>>);
        impl Drop for Enters {
            fn drop(&mut self) {
                let scope = Scope::enter();
                drop_later(Ends(Arc::clone(&self.0)));
                assert_eq!(self.0.get(), 0, "its own scope lives");
                drop(scope);
                assert_eq!(self.0.get(), 1);
            }
        }
        #[expect(clippy::arc_with_non_send_sync, reason = "one thread")]
        let ended = Arc::new(Cell::new(0));
        let scope = Scope::enter();
        drop_later(Enters(Arc::clone(&ended)));
        drop(scope);
        assert_eq!(ended.get(), 1);
    }
}
