//! The memory that hostile peers can make an endpoint keep, by the allocator's account, and the service of
//! others beside them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

mod crowd;
mod memory;
mod starvation;

struct Counting;

thread_local! {
    /// Bytes that this thread has allocated and not freed.
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// The size of a block in glibc's malloc: 8 bytes more, in steps of 16, and at least 32.
fn block(layout: Layout) -> isize {
    (layout.size() + 8).next_multiple_of(16).max(32) as isize
}

#[expect(unsafe_code, reason = "an allocator that counts")]
// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory that it manages.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.with(|live| live.set(live.get() + block(layout)));
        // SAFETY: the caller keeps to the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.with(|live| live.set(live.get() - block(layout)));
        // SAFETY: the caller keeps to the contract of `GlobalAlloc::dealloc`; `pointer` came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that this thread holds now.
fn live() -> isize {
    LIVE.with(Cell::get)
}
