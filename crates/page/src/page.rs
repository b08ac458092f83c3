//! The document, its style and its blocks.

use crate::escape::escaped;
use std::fmt;

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

    /// Adds a heading below the last one, to which `#id` links. `id` has letters, digits and hyphens.
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

    /// Adds a block of HTML, such as a [`Table`](crate::Table) or a [`Chart`](crate::Chart). It is not escaped.
    pub fn push(&mut self, html: impl fmt::Display) -> &mut Page {
        self.body += &html.to_string();
        self
    }

    /// Adds HTML that is shown when the reader opens its summary. It is not escaped.
    pub fn folded(&mut self, summary: &str, html: impl fmt::Display) -> &mut Page {
        let summary = escaped(summary);
        self.body += &format!("<details><summary>{summary}</summary>\n{html}</details>\n");
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
