//! A terminal's screen after some output: the part of ECMA-48 that `watch` uses.

const ROWS: usize = 30;

/// Returns the lines on a screen with so many columns, without the blanks at their ends.
pub(crate) fn shown(written: &str, columns: usize) -> String {
    let blank = vec![vec![' '; columns]; ROWS];
    let mut cells = blank.clone();
    let (mut row, mut column) = (0, 0);
    let mut letters = written.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => {
                let Some('[') = letters.next() else { continue };
                let mut numbers = String::new();
                let Some(command) = letters.by_ref().find(|letter| {
                    let is_final = ('@'..='~').contains(letter);
                    if !is_final {
                        numbers.push(*letter);
                    }
                    is_final
                }) else {
                    break;
                };
                match command {
                    // CUP: row and column, from 1.
                    'H' => {
                        let mut numbers = numbers.split(';').map(|number| number.parse().unwrap_or(1));
                        row = numbers.next().unwrap_or(1_usize) - 1;
                        column = numbers.next().unwrap_or(1_usize) - 1;
                    }
                    // ED, all of it.
                    'J' => cells.clone_from(&blank),
                    _ => {}
                }
            }
            '\r' => column = 0,
            '\n' => row += 1,
            letter => {
                if let Some(cell) = cells.get_mut(row).and_then(|row| row.get_mut(column)) {
                    *cell = letter;
                }
                column += 1;
            }
        }
    }
    let line = |row: &Vec<char>| row.iter().collect::<String>().trim_end().to_owned();
    cells.iter().map(line).collect::<Vec<_>>().join("\n")
}
