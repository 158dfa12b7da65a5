//! The list of VIPs on the screen: which are shown, in which order, and what a key does to that.

use std::cmp::Reverse;

use super::{Rates, Snapshot, Vip, VipId};

/// A key that means something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// A letter, also in the filter.
    Char(char),
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the first row.
    Home,
    /// To the last row.
    End,
    /// Ends typing the filter.
    Enter,
    /// Takes the filter away.
    Escape,
    /// Takes its last letter away.
    Backspace,
    /// Ctrl-C.
    Interrupt,
}

/// What to do after a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Go on.
    Continue,
    /// Leave.
    Quit,
}

/// What is shown of the list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct List {
    /// Only rows with this in them.
    pub filter: String,
    /// Whether letters go to the filter.
    pub typing: bool,
    /// The first row on the screen.
    pub top: usize,
}

/// A VIP as it is shown.
#[derive(Clone, PartialEq, Debug)]
pub struct Row<'a> {
    /// The VIP, and where.
    pub id: &'a VipId,
    /// Its entry.
    pub vip: &'a Vip,
    /// How fast its counts grow; none before the second snapshot, and for VIPs without counts.
    pub rates: Option<Rates>,
}

impl Row<'_> {
    /// Whether an operator should see it first: a conflict now, silence, or a VIP that was yielded.
    pub fn is_troubled(&self) -> bool {
        self.rates.is_some_and(|rates| !rates.conflicts.is_none())
            || self.vip.silent_because.is_some()
            || self.vip.yielded
    }

    /// Every word of the filter is somewhere in the row.
    fn matches(&self, filter: &str) -> bool {
        let mut text = format!("{} {} {}", self.id.address, self.id.interface, self.vip.role);
        for more in [self.vip.mac.as_deref(), self.vip.silent_because].into_iter().flatten() {
            text.push(' ');
            text.push_str(more);
        }
        if self.is_troubled() {
            text.push_str(" trouble");
        }
        filter.split_whitespace().all(|word| text.contains(&word.to_lowercase()))
    }
}

impl List {
    /// The rows that pass the filter: those in trouble first, then by address.
    pub fn rows<'a>(&self, before: Option<&Snapshot>, after: &'a Snapshot) -> Vec<Row<'a>> {
        let row = |(id, vip)| Row { id, vip, rates: after.rates_of(id, before) };
        let mut rows: Vec<_> = after.vips.iter().map(row).filter(|row| row.matches(&self.filter)).collect();
        rows.sort_by_key(|row| (Reverse(row.is_troubled()), row.id));
        rows
    }

    /// The first row to show of `count`, when `page` fit on the screen.
    pub fn top_of(&self, count: usize, page: usize) -> usize {
        self.top.min(count.saturating_sub(page))
    }

    /// What a key does, when `page` of `count` rows fit on the screen.
    pub fn on_key(&mut self, key: Key, count: usize, page: usize) -> Step {
        self.top = self.top_of(count, page);
        match key {
            Key::Char(letter) if self.typing => {
                self.filter.push(letter);
                self.top = 0;
            }
            Key::Interrupt | Key::Char('q') => return Step::Quit,
            Key::Char('/') => self.typing = true,
            Key::Char('k') | Key::Up => self.top = self.top.saturating_sub(1),
            Key::Char('j') | Key::Down => self.top = (self.top + 1).min(count.saturating_sub(page)),
            Key::PageUp => self.top = self.top.saturating_sub(page),
            Key::Char(' ') | Key::PageDown => self.top = (self.top + page).min(count.saturating_sub(page)),
            Key::Char('g') | Key::Home => self.top = 0,
            Key::Char('G') | Key::End => self.top = count.saturating_sub(page),
            Key::Enter => self.typing = false,
            Key::Escape => *self = Self::default(),
            Key::Backspace if self.typing => {
                self.filter.pop();
                self.top = 0;
            }
            Key::Backspace | Key::Char(_) => {}
        }
        Step::Continue
    }
}
