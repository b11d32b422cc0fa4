//! A table for people: columns as wide as their widest cell, the last one open.

use super::paint::{Paint, Tone};

/// One cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn toned(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: text.into(), tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(Tone::Neutral, text)
    }
}

/// Rows under a head, without the line's end after the last one.
pub(crate) fn table<const N: usize>(
    paint: Paint,
    head: [&str; N],
    rows: impl IntoIterator<Item = [Cell; N]>,
) -> String {
    let cells: Vec<[Cell; N]> = std::iter::once(head.map(Cell::from)).chain(rows).collect();
    let widths: [usize; N] =
        std::array::from_fn(|i| cells.iter().map(|row| row[i].text.chars().count()).max().unwrap_or(0));
    let line = |row: &[Cell; N]| {
        let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or(0);
        let shown = row.iter().zip(widths).take(last + 1).enumerate().map(|(i, (cell, width))| {
            let padding = if i == last { 0 } else { width + 2 - cell.text.chars().count() };
            paint.tint(cell.tone, &cell.text) + &" ".repeat(padding)
        });
        shown.collect::<String>()
    };
    cells.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = || [["ä", "much longer"], ["longer", ""]].map(|row| row.map(Cell::from));
        assert_eq!(table(Paint::Plain, ["A", "B"], rows()), "A       B\nä       much longer\nlonger");
        let [[_, text], rest] = rows();
        let toned = [[Cell::toned(Tone::Good, "ä"), text], rest];
        assert_eq!(
            table(Paint::Colours, ["A", "B"], toned),
            "A       B\n\x1b[32mä\x1b[0m       much longer\nlonger",
            "colours take no room"
        );
    }
}
