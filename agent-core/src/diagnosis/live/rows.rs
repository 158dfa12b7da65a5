//! List of VIPs on the screen: filter, order, scrolling and keys.

use std::cmp::Reverse;

use super::{Rates, Status, VipStatus};

/// Key with a meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// A letter. It goes to the filter while the filter is being typed.
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// The end of typing the filter.
    Enter,
    /// Clears the filter.
    Escape,
    /// Deletes the last letter of the filter.
    Backspace,
    /// Ctrl-C.
    Interrupt,
}

/// Consequence of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Continue,
    Quit,
}

/// Part of the list that is shown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct List {
    /// Words that a row must contain to be shown.
    pub filter: String,
    /// True if letters go to the filter.
    pub typing: bool,
    pub top: usize,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Row<'a> {
    pub vip: &'a VipStatus,
    /// Its rates. None at the first reading, and for VIPs without counters.
    pub rates: Option<Rates>,
}

impl Row<'_> {
    /// Returns true if an operator should see the VIP first. The reasons are a
    /// conflict that goes on, silence, or a yield.
    pub fn is_troubled(&self) -> bool {
        self.rates.is_some_and(|rates| !rates.conflicts.is_none()) || self.vip.is_in_trouble()
    }

    /// Returns true if the row contains every word of the filter.
    fn matches(&self, filter: &str) -> bool {
        let vip = self.vip;
        let mut text = format!("{} {} {}", vip.address, vip.interface, vip.part.name());
        let mac = vip.mac.map(|mac| mac.to_string());
        let silent_because = vip.part.silent_because();
        for more in [mac.as_deref(), silent_because].into_iter().flatten() {
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
    /// Returns the rows that pass the filter: troubled ones first, then by address.
    pub fn rows<'a>(&self, before: Option<&Status>, after: &'a Status) -> Vec<Row<'a>> {
        let known = before.map(Status::vips_by_id).unwrap_or_default();
        let row = |vip: &'a VipStatus| {
            let rates = before.and_then(|before| after.rates_of(vip, known.get(&vip.id()).copied(), before));
            Row { vip, rates }
        };
        let mut rows: Vec<_> = after.vips.iter().map(row).filter(|row| row.matches(&self.filter)).collect();
        rows.sort_by_key(|row| (Reverse(row.is_troubled()), row.vip.id()));
        rows
    }

    /// Returns the first of `count` rows to show, if `page` rows fit on the screen.
    pub fn top_of(&self, count: usize, page: usize) -> usize {
        self.top.min(count.saturating_sub(page))
    }

    /// Handles a key, if `page` of `count` rows fit on the screen.
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
