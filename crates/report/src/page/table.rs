//! Rows of cells.

use super::escape::escaped;
use std::fmt;

/// A table. `Display` writes it as HTML.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(String, bool)>,
    rows: String,
}

impl Table {
    /// Begins a table with these columns: their names, and whether they have numbers, which are aligned to the right.
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, bool)>) -> Table {
        let columns = columns.into_iter().map(|(name, is_number)| (name.to_owned(), is_number));
        Table { columns: columns.collect(), rows: String::new() }
    }

    /// Adds a row with a cell for each column. The first cell is the head of the row.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) -> &mut Table {
        self.linked_row("", cells)
    }

    /// As [`row`](Table::row). The text of the first cell is a link to this address, such as `#slow-1` or `../report/index.html`.
    pub fn linked_row<T: AsRef<str>>(
        &mut self,
        to: &str,
        cells: impl IntoIterator<Item = T>,
    ) -> &mut Table {
        self.rows += "<tr>";
        for (place, cell) in cells.into_iter().enumerate() {
            let is_number = self.columns.get(place).is_some_and(|(_, is_number)| *is_number);
            let (class, text) = (if is_number { " class=n" } else { "" }, escaped(cell.as_ref()));
            self.rows += &match place {
                0 if to.is_empty() => format!("<th scope=row{class}>{text}</th>"),
                0 => format!("<th scope=row{class}><a href=\"{}\">{text}</a></th>", escaped(to)),
                _ => format!("<td{class}>{text}</td>"),
            };
        }
        self.rows += "</tr>\n";
        self
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Wide tables are scrolled, with the arrow keys as well.
        f.write_str(
            "<div class=wide role=region aria-label=table tabindex=0><table>\n<thead><tr>",
        )?;
        for (name, is_number) in &self.columns {
            let class = if *is_number { " class=n" } else { "" };
            write!(f, "<th scope=col{class}>{}</th>", escaped(name))?;
        }
        write!(f, "</tr></thead>\n<tbody>\n{}</tbody></table></div>\n", self.rows)
    }
}
