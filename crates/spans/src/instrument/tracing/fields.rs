//! What a layer keeps of a span of `tracing` in the registry: what its fields tell, and its whole time.

use crate::instrument::whole::Whole;
use crate::record::Site;
use ::tracing::field::{Field, Visit};
use std::fmt;

/// What a layer keeps of a span.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// If a field names it.
    pub(super) site: Option<&'static Site>,
    pub(super) number: Option<u64>,
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
