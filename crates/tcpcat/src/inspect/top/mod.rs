//! `tcpcat top`: a stack's connections, live.

mod history;
mod screen;
mod view;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ackclock_cli::{Exit, Failure};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::SIGTERM;

pub(crate) use self::history::Sort;
use self::screen::Screen;
use self::view::{Below, View};
use super::{Client, Look};
use crate::args::TopArgs;

/// Shows the stack until `q`.
pub(crate) fn run(args: &TopArgs) -> Exit {
    let done = Client::connect(args.control.path())
        .and_then(|mut client| if args.once { once(&mut client, args) } else { live(&mut client, args) });
    match done {
        Ok(exit) => exit,
        Err(failure) => {
            say!("tcpcat: {failure}");
            failure.exit()
        }
    }
}

/// Prints one frame as text. A rate needs two looks.
fn once(client: &mut Client, args: &TopArgs) -> Result<Exit, Failure> {
    let mut view = View::new(args.sort.unwrap_or(Sort::Rate));
    view.histories.add(Look::take(client)?);
    std::thread::sleep(args.interval.min(ONCE_APART));
    view.histories.add(Look::take(client)?);
    // A terminal in memory does not fail.
    let Ok(mut terminal) = Terminal::new(TestBackend::new(ONCE_SIZE.0, ONCE_SIZE.1));
    let Ok(_) = terminal.draw(|frame| view.draw(frame));
    for line in text(terminal.backend()).lines() {
        show!("{line}");
    }
    Ok(Exit::Done)
}

/// The text on a screen, without its colours.
pub(super) fn text(screen: &TestBackend) -> String {
    let buffer = screen.buffer();
    let row = |y: u16| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    let rows: Vec<String> = (0..buffer.area.height).map(|y| row(y).trim_end().to_owned()).collect();
    rows.join("\n").trim_end().to_owned() + "\n"
}

fn live(client: &mut Client, args: &TopArgs) -> Result<Exit, Failure> {
    let terminated = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, Arc::clone(&terminated))
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot handle signals: {error}")))?;
    let mut view = View::new(args.sort.unwrap_or(Sort::Rate));
    view.histories.add(Look::take(client)?);
    let mut screen = Screen::take().map_err(|error| {
        Failure::new(Exit::Failed, format!("this is not a terminal that can be drawn on: {error}"))
            .remedy("print one frame as text: tcpcat top --once")
    })?;
    let mut next = Instant::now() + args.interval;
    loop {
        screen.0.draw(|frame| view.draw(frame)).map_err(|error| failed(&error))?;
        let wait = next.saturating_duration_since(Instant::now()).min(SIGNAL_POLL);
        if event::poll(wait).map_err(|error| failed(&error))? {
            match event::read().map_err(|error| failed(&error))? {
                Event::Key(key) if key.kind != KeyEventKind::Release && press(&mut view, key) => {
                    return Ok(Exit::Done);
                }
                _ => {}
            }
        }
        if terminated.load(Ordering::Relaxed) {
            return Ok(Exit::Terminated);
        }
        if Instant::now() >= next {
            view.histories.add(Look::take(client)?);
            next = Instant::now() + args.interval;
        }
    }
}

/// Handles a key. Returns whether it ends the program.
fn press(view: &mut View, key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
        KeyCode::Char('q') | KeyCode::Esc => return true,
        KeyCode::Up | KeyCode::Char('k') => view.select(-1),
        KeyCode::Down | KeyCode::Char('j') => view.select(1),
        KeyCode::PageUp => view.select(-10),
        KeyCode::PageDown => view.select(10),
        KeyCode::Enter => view.toggle(Below::Figures),
        KeyCode::Char('?') => view.toggle(Below::Keys),
        KeyCode::Char(letter) => {
            if let Some(sort) = Sort::of_key(letter) {
                view.histories.sort_by(sort);
            }
        }
        _ => {}
    }
    false
}

fn failed(error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("the terminal cannot be used any more: {error}"))
}

/// How long a signal may wait.
const SIGNAL_POLL: Duration = Duration::from_millis(100);
const ONCE_APART: Duration = Duration::from_millis(500);
const ONCE_SIZE: (u16, u16) = (100, 24);
