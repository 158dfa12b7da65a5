//! The live screen: the terminal, its keys, and the signals that end it.
//!
//! The terminal is restored when this module returns, and when the process panics. One thread reads
//! keys; it ends with the process.

use std::{
    io::{self, IsTerminal, Stdout},
    thread,
};

use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};
use vipward_core::diagnosis::{
    live::{Key, List, Step},
    pinned::Status,
};

use super::{
    draw,
    watching::{LiveError, Watching},
};
use crate::shell::logging::errors::chain;

/// The most keys that wait. Later keys are lost.
const KEYS: usize = 64;

/// A guard that restores the terminal when it is dropped.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Draws until the operator leaves.
pub async fn screen(watching: &Watching) -> Result<(), LiveError> {
    if !io::stdout().is_terminal() {
        return Err(LiveError::NoTerminal);
    }
    // The first error is printed before the terminal changes.
    let first = watching.look().await?;
    let mut terminate = signal(SignalKind::terminate()).map_err(LiveError::Signals)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(LiveError::Signals)?;
    // Its panic hook restores the terminal too.
    let mut terminal =
        ratatui::try_init().map_err(|source| LiveError::Terminal { what: "set up", source })?;
    let _restore = Restore;
    let mut keys = keys();
    let mut ticks = interval(watching.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    let mut shown = Shown { before: None, now: first, trouble: None, list: List::default() };
    loop {
        shown.draw(&mut terminal)?;
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
            pressed = keys.recv() => match pressed {
                Some(Some(key)) => {
                    let page = draw::page(terminal.size().map_err(read_failed)?, &shown.screen());
                    let count = shown.list.rows(shown.before.as_ref(), &shown.now).len();
                    if shown.list.on_key(key, count, page) == Step::Quit {
                        return Ok(());
                    }
                }
                // The terminal has another size.
                Some(None) => {}
                None => return Ok(()),
            },
            _ = ticks.tick() => shown.look(watching).await,
        }
    }
}

fn read_failed(source: io::Error) -> LiveError {
    LiveError::Terminal { what: "read the size of", source }
}

struct Shown {
    before: Option<Status>,
    now: Status,
    trouble: Option<String>,
    list: List,
}

impl Shown {
    async fn look(&mut self, watching: &Watching) {
        match watching.look().await {
            Ok(after) => {
                self.before = Some(std::mem::replace(&mut self.now, after));
                self.trouble = None;
            }
            // The last reading stays, marked as old.
            Err(error) => self.trouble = Some(chain(&error)),
        }
    }

    fn screen(&self) -> draw::Screen<'_> {
        draw::Screen {
            before: self.before.as_ref(),
            now: &self.now,
            trouble: self.trouble.as_deref(),
            list: &self.list,
        }
    }

    fn draw(&self, terminal: &mut Terminal<CrosstermBackend<Stdout>>) -> Result<(), LiveError> {
        let screen = self.screen();
        let drawn = terminal.draw(|frame| draw::draw(frame, &screen));
        drawn.map(drop).map_err(|source| LiveError::Terminal { what: "draw on", source })
    }
}

/// Returns the pressed keys, and `None` for a new size of the
/// terminal. The channel ends with the terminal.
fn keys() -> mpsc::Receiver<Option<Key>> {
    let (sender, receiver) = mpsc::channel(KEYS);
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            let message = match event {
                Event::Key(key) if key.kind != KeyEventKind::Release => match meaning(key) {
                    Some(key) => Some(key),
                    None => continue,
                },
                Event::Resize(..) => None,
                _ => continue,
            };
            if sender.blocking_send(message).is_err() {
                return;
            }
        }
    });
    receiver
}

fn meaning(key: KeyEvent) -> Option<Key> {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if is_control => Key::Interrupt,
        KeyCode::Char(_) if is_control => return None,
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}
