//! A table for people: columns as wide as their widest cell, the last one open.

use std::fmt::Write;

/// Rows under a head, without the line's end after the last one.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let cells: Vec<[String; N]> = std::iter::once(head.map(ToOwned::to_owned)).chain(rows).collect();
    let widths: [usize; N] =
        std::array::from_fn(|i| cells.iter().map(|row| row[i].chars().count()).max().unwrap_or(0));
    let line = |row: &[String; N]| {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        line.truncate(line.trim_end().len());
        line
    };
    cells.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["ä", "much longer"], ["longer", ""]].map(|row| row.map(ToOwned::to_owned));
        assert_eq!(table(["A", "B"], rows), "A       B\nä       much longer\nlonger");
    }
}
