//! What a layer keeps of a span of `tracing` in the registry: what its fields tell, and its whole time.

use super::TracingLayer;
use super::sites::site_named;
use crate::instrument::whole::Whole;
use crate::record::Site;
use crate::thread;
use ::tracing::Subscriber;
use ::tracing::field::{Field, Visit};
use ::tracing::span::Id;
use std::fmt;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// What a layer keeps of a span.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The site of the name and the number that fields have given it, each with the place of its field among those that are looked for.
    pub(super) name: Option<(usize, &'static Site)>,
    pub(super) number: Option<(usize, u64)>,
    pub(super) whole: Option<Whole>,
}

/// That of each layer, by the layer's number.
#[derive(Debug, Default)]
pub(super) struct KeptByLayers(pub(super) Vec<(u64, Kept)>);

impl KeptByLayers {
    pub(super) fn of(&mut self, layer: u64) -> Option<&mut Kept> {
        self.0.iter_mut().find(|(of, _)| *of == layer).map(|(_, kept)| kept)
    }
}

/// The fields that name a span and number it, and what has been found of them: a value, and the place of its field among these.
pub(super) struct Fields<'a> {
    pub(super) names: &'a [&'static str],
    pub(super) numbers: &'a [&'static str],
    pub(super) name: Option<(usize, String)>,
    pub(super) number: Option<(usize, u64)>,
}

impl Fields<'_> {
    fn see_name(&mut self, field: &Field, value: impl FnOnce() -> String) {
        let place = self.names.iter().position(|name| *name == field.name());
        let known = self.name.as_ref().map_or(usize::MAX, |(place, _)| *place);
        if let Some(place) = place.filter(|place| *place < known) {
            self.name = Some((place, value()));
        }
    }

    fn see_number(&mut self, field: &Field, value: Option<u64>) {
        let place = self.numbers.iter().position(|name| *name == field.name());
        let known = self.number.map_or(usize::MAX, |(place, _)| place);
        if let Some((place, value)) = place.zip(value).filter(|(place, _)| *place < known) {
            self.number = Some((place, value));
        }
    }
}

impl Kept {
    /// Returns the site, if a field names it.
    pub(super) fn site(&self) -> Option<&'static Site> {
        self.name.map(|(_, site)| site)
    }

    pub(super) fn number(&self) -> Option<u64> {
        self.number.map(|(_, number)| number)
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.see_name(field, || format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.see_name(field, || value.to_owned());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.see_number(field, Some(value));
        self.see_name(field, || value.to_string());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.see_number(field, u64::try_from(value).ok());
        self.see_name(field, || value.to_string());
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.see_number(field, u64::try_from(value).ok());
        self.see_name(field, || value.to_string());
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.see_number(field, u64::try_from(value).ok());
        self.see_name(field, || value.to_string());
    }
}

impl TracingLayer {
    /// Keeps what the fields of a span tell.
    pub(super) fn keep<S: Subscriber + for<'a> LookupSpan<'a>>(
        &self,
        id: &Id,
        context: &Context<'_, S>,
        visit: impl FnOnce(&mut Fields<'_>),
        is_new: bool,
    ) {
        let Some(span) = context.span(id) else { return };
        let (names, numbers) = (&*self.names, &*self.numbers);
        let mut fields = Fields { names, numbers, name: None, number: None };
        visit(&mut fields);
        let name = fields.name.map(|(place, value)| (place, site_named(span.metadata(), &value)));
        let number = fields.number;
        let whole = (is_new && self.has_whole_times && thread::recording() != 0).then(Whole::begin);
        if name.is_none() && number.is_none() && whole.is_none() {
            return;
        }
        let mut extensions = span.extensions_mut();
        if extensions.get_mut::<KeptByLayers>().is_none() {
            extensions.insert(KeptByLayers::default());
        }
        let Some(all) = extensions.get_mut::<KeptByLayers>() else { return };
        if all.of(self.number).is_none() {
            all.0.push((self.number, Kept::default()));
        }
        if let Some(kept) = all.of(self.number) {
            // Of several fields, the first that has a value counts, whenever it gets that.
            let is_first = |new: usize, old: Option<usize>| old.is_none_or(|old| new <= old);
            kept.name =
                name.filter(|(new, _)| is_first(*new, kept.name.map(|(old, _)| old))).or(kept.name);
            kept.number = number
                .filter(|(new, _)| is_first(*new, kept.number.map(|(old, _)| old)))
                .or(kept.number);
            kept.whole = whole.or(kept.whole.take());
        }
    }

    /// Calls `see` with what is kept of a span.
    pub(super) fn with_kept<S: Subscriber + for<'a> LookupSpan<'a>, R>(
        &self,
        id: &Id,
        context: &Context<'_, S>,
        see: impl FnOnce(&mut Kept) -> R,
    ) -> Option<R> {
        if !self.keeps_more() {
            return None;
        }
        let span = context.span(id)?;
        let mut extensions = span.extensions_mut();
        extensions.get_mut::<KeptByLayers>()?.of(self.number).map(see)
    }
}
