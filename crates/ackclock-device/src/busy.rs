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

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// How often it was asked for, if it answers so, and what came of it.
    fn asked(mut answer: impl FnMut(u32) -> Option<i32>) -> (u32, Option<i32>) {
        let mut asked = 0;
        let opened = when_free(
            || {
                asked += 1;
                answer(asked).map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
            },
            io::Error::raw_os_error,
        );
        (asked, opened.err().and_then(|error| error.raw_os_error()))
    }

    #[test]
    fn only_a_busy_device_is_asked_for_again_and_not_for_ever() {
        assert_eq!(asked(|_| None), (1, None));
        assert_eq!(asked(|number| (number < 4).then_some(libc::EBUSY)), (4, None));
        assert_eq!(asked(|_| Some(libc::EPERM)), (1, Some(libc::EPERM)));
        assert_eq!(asked(|_| Some(libc::EBUSY)), (ASKED_MAX + 1, Some(libc::EBUSY)));
    }
}
