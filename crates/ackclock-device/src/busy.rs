//! Devices that were just given up and are not free yet.

use std::thread;
use std::time::Duration;

/// Opens something of which there is one, and asks again for [a moment](ASKED_MAX) while it is busy.
///
/// The kernel frees a queue of AF_XDP a moment after its socket was closed. A child that another thread makes
/// keeps every descriptor of this process from its fork to its exec, closed ones too.
pub(crate) fn when_free<T, E>(
    mut open: impl FnMut() -> Result<T, E>,
    code: impl Fn(&E) -> Option<i32>,
) -> Result<T, E> {
    for _ in 0..ASKED_MAX {
        match open() {
            Err(error) if code(&error) == Some(libc::EBUSY) => thread::sleep(ASKED_EVERY),
            opened => return opened,
        }
    }
    open()
}

/// How often it is asked for again, and after which time each.
const ASKED_MAX: u32 = 20;
const ASKED_EVERY: Duration = Duration::from_millis(5);
