//! The document, its style and its blocks.

use super::chart::Chart;
use super::date::date;
use super::escape::escaped;
use super::table::Table;
use super::timeline::Timeline;
use std::fmt;
use std::time::SystemTime;

/// A block of a page: a [`Table`], a [`Chart`] or a [`Timeline`].
pub trait Block: fmt::Display + private::Escaped {}

mod private {
    /// Its text is escaped.
    pub trait Escaped {}
}

impl private::Escaped for Table {}
impl private::Escaped for Chart {}
impl private::Escaped for Timeline {}
impl Block for Table {}
impl Block for Chart {}
impl Block for Timeline {}

/// A page. `Display` writes it as an HTML document, which loads nothing else.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// Begins a page.
    pub fn new(title: &str) -> Page {
        Page { title: escaped(title), body: String::new() }
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: &str) -> &mut Page {
        self.body += &format!("<h2>{}</h2>\n", escaped(text));
        self
    }

    /// Adds a heading below the last one, to which `#id` links. `id` may contain only letters, digits and hyphens.
    pub fn subheading(&mut self, id: &str, text: &str) -> &mut Page {
        self.body += &format!("<h3 id=\"{}\">{}</h3>\n", escaped(id), escaped(text));
        self
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) -> &mut Page {
        self.body += &format!("<p>{}</p>\n", escaped(text));
        self
    }

    /// Adds a list of sentences.
    pub fn list<T: AsRef<str>>(&mut self, items: impl IntoIterator<Item = T>) -> &mut Page {
        self.body += "<ul>\n";
        for item in items {
            self.body += &format!("<li>{}</li>\n", escaped(item.as_ref()));
        }
        self.body += "</ul>\n";
        self
    }

    /// Adds a paragraph that is a link to this address, such as `#row-1` or `report/index.html`.
    pub fn link(&mut self, text: &str, to: &str) -> &mut Page {
        self.body += &format!("<p><a href=\"{}\">{}</a></p>\n", escaped(to), escaped(text));
        self
    }

    /// Adds a paragraph with the program, the CPU model, if known, and a time.
    pub fn origin(
        &mut self,
        program: &str,
        processor: Option<&str>,
        time: SystemTime,
    ) -> &mut Page {
        let processor = processor.map(|name| format!(" on {name}")).unwrap_or_default();
        self.paragraph(&format!("{program}{processor}, {}.", date(time)))
    }

    /// Adds a table, a chart or a timeline.
    pub fn push(&mut self, block: &impl Block) -> &mut Page {
        self.body += &block.to_string();
        self
    }

    /// Adds blocks that are collapsed on screen and expanded in print.
    pub fn folded(&mut self, summary: &str, blocks: &[&dyn Block]) -> &mut Page {
        self.body += &format!("<details><summary>{}</summary>\n", escaped(summary));
        blocks.iter().for_each(|block| self.body += &block.to_string());
        self.body += "</details>\n";
        self
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Page { title, body } = self;
        let style = include_str!("style.css");
        write!(
            f,
            "<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n\
             <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
             <meta name=color-scheme content=\"light dark\">\n\
             <meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
        )
    }
}
