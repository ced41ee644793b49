//! A terminal that is drawn on, and left as it was.

use std::io;

use ratatui::DefaultTerminal;

/// Dropping this restores the terminal, and so does a panic: `ratatui::try_init` installs the hook.
pub(crate) struct Screen(pub(crate) DefaultTerminal);

impl Screen {
    pub fn take() -> io::Result<Self> {
        ratatui::try_init().map(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // After a panic the hook has done so. A second time would move the cursor back over the panic's
        // message.
        if !std::thread::panicking() {
            ratatui::restore();
        }
    }
}
