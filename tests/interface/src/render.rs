//! Types and declarations, as in the source. The cases are those of the crate `rustdoc-types`.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Interface<'a> {
    pub(crate) json: &'a Value,
    pub(crate) name: &'a str,
    /// The shortest public path of each item.
    pub(crate) public: BTreeMap<String, String>,
}

/// A field that every version of the format that this program reads has.
pub(crate) fn get<'a>(value: &'a Value, field: &str) -> &'a Value {
    value.get(field).unwrap_or_else(|| panic!("no field `{field}` in {value}"))
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

pub(crate) fn entries(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

fn flag<'a>(value: &Value, field: &str, word: &'a str) -> &'a str {
    match get(value, field) {
        Value::Bool(true) => word,
        Value::Bool(false) => "",
        other => panic!("`{field}` is neither true nor false: {other}"),
    }
}

/// The case of an enum, and its content. Null if it has none.
pub(crate) fn case(value: &Value) -> (&str, &Value) {
    match value {
        Value::String(name) => (name, &Value::Null),
        Value::Object(object) if object.len() == 1 => object
            .iter()
            .next()
            .map_or(("", &Value::Null), |(name, content)| (name.as_str(), content)),
        other => panic!("not a case: {other}"),
    }
}

/// `start`, the parts with `between` them, and `end`. Nothing if there are no parts.
fn joined(start: &str, parts: Vec<String>, between: &str, end: &str) -> String {
    if parts.is_empty() { String::new() } else { format!("{start}{}{end}", parts.join(between)) }
}

impl Interface<'_> {
    fn each(&self, list: &Value, render: impl Fn(&Self, &Value) -> String) -> Vec<String> {
        entries(list).iter().map(|value| render(self, value)).collect()
    }

    fn item(&self, id: &Value) -> Option<&Value> {
        get(self.json, "index").get(id.to_string())
    }

    /// The declaration of an item in one line. Members of traits are not `pub`, and tell whether they have a default.
    pub(crate) fn declaration(&self, item: &Value, path: &str, in_trait: bool) -> String {
        let (kind, inner) = case(get(item, "inner"));
        let visible = if in_trait { "" } else { "pub " };
        let generics = || self.generics(get(inner, "generics"));
        let rest = match kind {
            "module" => format!("pub mod {path}"),
            "struct" => {
                let (parameters, conditions) = generics();
                let (kind, content) = case(get(inner, "kind"));
                let body = match kind {
                    "unit" => String::new(),
                    "tuple" => format!("({})", self.tuple_fields(content)),
                    "plain" => {
                        flag(content, "has_stripped_fields", " { private fields }").to_owned()
                    }
                    other => panic!("unknown kind of struct: {other}"),
                };
                format!("pub struct {path}{parameters}{body}{conditions}")
            }
            "enum" | "union" => {
                let (parameters, conditions) = generics();
                format!("pub {kind} {path}{parameters}{conditions}")
            }
            "trait" => {
                let (parameters, conditions) = generics();
                let bounds = joined(": ", self.each(get(inner, "bounds"), Self::bound), " + ", "");
                let (unsafety, auto) =
                    (flag(inner, "is_unsafe", "unsafe "), flag(inner, "is_auto", "auto "));
                format!("pub {unsafety}{auto}trait {path}{parameters}{bounds}{conditions}")
            }
            "type_alias" => {
                let (parameters, conditions) = generics();
                format!(
                    "pub type {path}{parameters} = {}{conditions}",
                    self.of_type(get(inner, "type"))
                )
            }
            "struct_field" => format!("pub {path}: {}", self.of_type(inner)),
            "variant" => self.variant(inner, path),
            "function" => {
                let (parameters, conditions) = generics();
                let header = self.header(get(inner, "header"));
                let signature = self.signature(get(inner, "sig"), true);
                let default = if in_trait { flag(inner, "has_body", " { default }") } else { "" };
                format!("{visible}{header}fn {path}{parameters}{signature}{conditions}{default}")
            }
            "constant" => format!("pub const {path}: {}", self.of_type(get(inner, "type"))),
            "assoc_const" => {
                let default =
                    if in_trait && !get(inner, "value").is_null() { " { default }" } else { "" };
                format!("{visible}const {path}: {}{default}", self.of_type(get(inner, "type")))
            }
            "assoc_type" => {
                let (parameters, conditions) = generics();
                let bounds = joined(": ", self.each(get(inner, "bounds"), Self::bound), " + ", "");
                let is = match get(inner, "type") {
                    Value::Null => String::new(),
                    other => format!(" = {}", self.of_type(other)),
                };
                format!("{visible}type {path}{parameters}{bounds}{is}{conditions}")
            }
            "static" => {
                let (unsafety, mutable) =
                    (flag(inner, "is_unsafe", "unsafe "), flag(inner, "is_mutable", "mut "));
                format!(
                    "pub {unsafety}static {mutable}{path}: {}",
                    self.of_type(get(inner, "type"))
                )
            }
            // With the patterns that it accepts.
            "macro" => {
                let words: Vec<&str> = text(inner).split_whitespace().collect();
                format!("pub macro {path}: {}", words.join(" "))
            }
            "proc_macro" => format!("pub macro {path}: {}", text(get(inner, "kind"))),
            other => panic!("unknown kind of item: {other}"),
        };
        self.attributes(item) + &rest
    }

    /// The attributes that programs depend on.
    fn attributes(&self, item: &Value) -> String {
        let mut all = BTreeSet::new();
        if !get(item, "deprecation").is_null() {
            all.insert("#[deprecated] ".to_owned());
        }
        for attribute in entries(get(item, "attrs")) {
            match case(attribute) {
                (name @ ("non_exhaustive" | "must_use"), _) => all.insert(format!("#[{name}] ")),
                ("repr", content) => {
                    let fields = ["kind", "int", "align", "packed"];
                    let parts = fields.map(|field| match get(content, field) {
                        Value::Number(number) => format!("{field}({number})"),
                        Value::String(word) if word == "c" => "C".to_owned(),
                        Value::String(word) if word != "rust" => word.clone(),
                        _ => String::new(),
                    });
                    let parts = parts.into_iter().filter(|part| !part.is_empty()).collect();
                    all.insert(joined("#[repr(", parts, ", ", ")] "))
                }
                ("target_feature", content) => {
                    all.insert(format!("#[target_feature({})] ", get(content, "enable")))
                }
                _ => false,
            };
        }
        all.into_iter().collect()
    }

    fn tuple_fields(&self, fields: &Value) -> String {
        let field = |this: &Self, id: &Value| match this.item(id) {
            Some(field) => this.of_type(case(get(field, "inner")).1),
            None => "_".to_owned(),
        };
        self.each(fields, field).join(", ")
    }

    fn variant(&self, inner: &Value, path: &str) -> String {
        let (kind, content) = case(get(inner, "kind"));
        let body = match kind {
            "plain" => String::new(),
            "tuple" => format!("({})", self.tuple_fields(content)),
            "struct" => {
                let fields = entries(get(content, "fields")).iter().filter_map(|id| self.item(id));
                let mut fields: Vec<String> = fields
                    .map(|field| {
                        format!(
                            "{}: {}",
                            text(get(field, "name")),
                            self.of_type(case(get(field, "inner")).1)
                        )
                    })
                    .collect();
                if get(content, "has_stripped_fields") == true {
                    fields.push("..".to_owned());
                }
                format!(" {{ {} }}", fields.join(", "))
            }
            other => panic!("unknown kind of variant: {other}"),
        };
        let number = match get(inner, "discriminant") {
            Value::Null => String::new(),
            number => format!(" = {}", text(get(number, "value"))),
        };
        format!("{path}{body}{number}")
    }

    fn header(&self, header: &Value) -> String {
        let abi = match case(get(header, "abi")) {
            ("Rust", _) => String::new(),
            (abi, content) if content.is_null() => format!("extern {abi} "),
            (abi, content) => format!("extern {abi} {content} "),
        };
        let word = |field, word| flag(header, field, word);
        format!(
            "{}{}{}{abi}",
            word("is_const", "const "),
            word("is_async", "async "),
            word("is_unsafe", "unsafe ")
        )
    }

    fn signature(&self, signature: &Value, with_names: bool) -> String {
        let mut inputs = self.each(get(signature, "inputs"), |this, input| {
            let [name, kind] = entries(input) else { panic!("not a parameter: {input}") };
            let (name, of_type) = (text(name), this.of_type(kind));
            match (name, of_type.as_str()) {
                ("self", "Self") => "self".to_owned(),
                // `&self`, `&'a mut self`
                ("self", of_type) if of_type.starts_with('&') && of_type.ends_with("Self") => {
                    format!("{}self", of_type.strip_suffix("Self").unwrap_or(of_type))
                }
                ("_" | "", _) => of_type,
                _ if !with_names => of_type,
                _ => format!("{name}: {of_type}"),
            }
        });
        if get(signature, "is_c_variadic") == true {
            inputs.push("...".to_owned());
        }
        let output = match get(signature, "output") {
            Value::Null => String::new(),
            output => format!(" -> {}", self.of_type(output)),
        };
        format!("({}){output}", inputs.join(", "))
    }

    /// `impl<T> Trait for Type where T: Bound`
    pub(crate) fn implementation(&self, inner: &Value) -> String {
        let (parameters, conditions) = self.generics(get(inner, "generics"));
        let unsafety = flag(inner, "is_unsafe", "unsafe ");
        let of_trait = match get(inner, "trait") {
            Value::Null => String::new(),
            path => format!("{}{} for ", flag(inner, "is_negative", "!"), self.path(path)),
        };
        format!(
            "{unsafety}impl{parameters} {of_trait}{}{conditions}",
            self.of_type(get(inner, "for"))
        )
    }

    /// The parameters, and the conditions after `where`.
    fn generics(&self, generics: &Value) -> (String, String) {
        let conditions =
            self.each(get(generics, "where_predicates"), |this, predicate| match case(predicate) {
                ("bound_predicate", content) => {
                    let higher = this.higher(get(content, "generic_params"));
                    let bounds = this.each(get(content, "bounds"), Self::bound).join(" + ");
                    format!("{higher}{}: {bounds}", this.of_type(get(content, "type")))
                }
                ("lifetime_predicate", content) => {
                    let outlives = this
                        .each(get(content, "outlives"), |_, lifetime| text(lifetime).to_owned());
                    format!("{}: {}", text(get(content, "lifetime")), outlives.join(" + "))
                }
                ("eq_predicate", content) => {
                    format!(
                        "{} = {}",
                        this.of_type(get(content, "lhs")),
                        this.term(get(content, "rhs"))
                    )
                }
                (other, _) => panic!("unknown condition: {other}"),
            });
        (
            joined("<", self.parameters(get(generics, "params")), ", ", ">"),
            joined(" where ", conditions, ", ", ""),
        )
    }

    fn higher(&self, parameters: &Value) -> String {
        joined("for<", self.parameters(parameters), ", ", "> ")
    }

    fn parameters(&self, parameters: &Value) -> Vec<String> {
        let parameter = |parameter: &Value| {
            let name = text(get(parameter, "name"));
            let default = |content: &Value, render: &dyn Fn(&Value) -> String| match get(
                content, "default",
            ) {
                Value::Null => String::new(),
                default => format!(" = {}", render(default)),
            };
            match case(get(parameter, "kind")) {
                ("lifetime", content) => {
                    let outlives = self
                        .each(get(content, "outlives"), |_, lifetime| text(lifetime).to_owned());
                    Some(format!("{name}{}", joined(": ", outlives, " + ", "")))
                }
                // Of `impl Trait` in the place of a parameter's type.
                ("type", content) if get(content, "is_synthetic") == true => None,
                ("type", content) => {
                    let bounds =
                        joined(": ", self.each(get(content, "bounds"), Self::bound), " + ", "");
                    Some(format!(
                        "{name}{bounds}{}",
                        default(content, &|default| self.of_type(default))
                    ))
                }
                ("const", content) => {
                    let of_type = self.of_type(get(content, "type"));
                    Some(format!(
                        "const {name}: {of_type}{}",
                        default(content, &|default| text(default).to_owned())
                    ))
                }
                (other, _) => panic!("unknown parameter: {other}"),
            }
        };
        entries(parameters).iter().filter_map(parameter).collect()
    }

    fn bound(&self, bound: &Value) -> String {
        match case(bound) {
            ("trait_bound", content) => {
                let modifier = match text(get(content, "modifier")) {
                    "none" => "",
                    "maybe" => "?",
                    "maybe_const" => "~const ",
                    other => panic!("unknown modifier: {other}"),
                };
                format!(
                    "{}{modifier}{}",
                    self.higher(get(content, "generic_params")),
                    self.path(get(content, "trait"))
                )
            }
            ("outlives", lifetime) => text(lifetime).to_owned(),
            ("use", captured) => {
                format!(
                    "use<{}>",
                    self.each(captured, |_, captured| text(case(captured).1).to_owned()).join(", ")
                )
            }
            (other, _) => panic!("unknown bound: {other}"),
        }
    }

    /// A type or a constant.
    fn term(&self, term: &Value) -> String {
        match case(term) {
            ("type", content) => self.of_type(content),
            ("constant" | "const", content) => text(get(content, "expr")).to_owned(),
            (other, _) => panic!("unknown term: {other}"),
        }
    }

    pub(crate) fn of_type(&self, of_type: &Value) -> String {
        match case(of_type) {
            ("resolved_path", path) => self.path(path),
            ("generic" | "primitive", name) => text(name).to_owned(),
            ("infer", _) => "_".to_owned(),
            ("tuple", types) => {
                let types = self.each(types, Self::of_type);
                let comma = if types.len() == 1 { "," } else { "" };
                format!("({}{comma})", types.join(", "))
            }
            ("slice", content) => format!("[{}]", self.of_type(content)),
            ("array", content) => {
                format!("[{}; {}]", self.of_type(get(content, "type")), text(get(content, "len")))
            }
            ("impl_trait", bounds) => {
                format!("impl {}", self.each(bounds, Self::bound).join(" + "))
            }
            ("dyn_trait", content) => {
                let mut bounds = self.each(get(content, "traits"), |this, poly| {
                    format!(
                        "{}{}",
                        this.higher(get(poly, "generic_params")),
                        this.path(get(poly, "trait"))
                    )
                });
                bounds.extend(get(content, "lifetime").as_str().map(str::to_owned));
                format!("(dyn {})", bounds.join(" + "))
            }
            ("function_pointer", content) => {
                let higher = self.higher(get(content, "generic_params"));
                let header = self.header(get(content, "header"));
                format!("{higher}{header}fn{}", self.signature(get(content, "sig"), false))
            }
            ("raw_pointer", content) => {
                let kind = if get(content, "is_mutable") == true { "mut" } else { "const" };
                format!("*{kind} {}", self.of_type(get(content, "type")))
            }
            ("borrowed_ref", content) => {
                let lifetime = get(content, "lifetime")
                    .as_str()
                    .map_or(String::new(), |name| format!("{name} "));
                let mutable = flag(content, "is_mutable", "mut ");
                format!("&{lifetime}{mutable}{}", self.of_type(get(content, "type")))
            }
            ("qualified_path", content) => {
                let own = self.of_type(get(content, "self_type"));
                let end = format!(
                    "{}{}",
                    text(get(content, "name")),
                    self.arguments(get(content, "args"))
                );
                match get(content, "trait") {
                    Value::Null => format!("{own}::{end}"),
                    of_trait => format!("<{own} as {}>::{end}", self.path(of_trait)),
                }
            }
            (other, _) => panic!("unknown type: {other}"),
        }
    }

    /// The public path of a type, if it is one of this crate's.
    pub(crate) fn public_type(&self, of_type: &Value) -> Option<&str> {
        match case(of_type) {
            ("resolved_path", path) => {
                self.public.get(&get(path, "id").to_string()).map(String::as_str)
            }
            _ => None,
        }
    }

    /// The name of a type or trait, with its arguments.
    fn path(&self, path: &Value) -> String {
        let id = get(path, "id").to_string();
        let name = match self.public.get(&id) {
            Some(public) => public.clone(),
            None => {
                let written = text(get(path, "path"));
                let last = written.rsplit("::").next().unwrap_or(written);
                let defined =
                    get(self.json, "paths").get(&id).map(|defined| entries(get(defined, "path")));
                match defined.and_then(|path| Some((path.first()?, path.last()?))) {
                    Some((first, last)) if ["core", "alloc", "std"].contains(&text(first)) => {
                        text(last).to_owned()
                    }
                    Some((first, last)) => format!("{}::{}", text(first), text(last)),
                    // Private, such as a trait that seals another.
                    None => format!("{}::{last}", self.name),
                }
            }
        };
        name + &self.arguments(get(path, "args"))
    }

    fn arguments(&self, arguments: &Value) -> String {
        if arguments.is_null() {
            return String::new();
        }
        match case(arguments) {
            ("angle_bracketed", content) => {
                let mut all =
                    self.each(get(content, "args"), |this, argument| match case(argument) {
                        ("lifetime", name) => text(name).to_owned(),
                        ("infer", _) => "_".to_owned(),
                        _ => this.term(argument),
                    });
                all.extend(self.each(get(content, "constraints"), |this, constraint| {
                    let name = format!(
                        "{}{}",
                        text(get(constraint, "name")),
                        this.arguments(get(constraint, "args"))
                    );
                    match case(get(constraint, "binding")) {
                        ("equality", term) => format!("{name} = {}", this.term(term)),
                        ("constraint", bounds) => {
                            format!("{name}: {}", this.each(bounds, Self::bound).join(" + "))
                        }
                        (other, _) => panic!("unknown constraint: {other}"),
                    }
                }));
                joined("<", all, ", ", ">")
            }
            ("parenthesized", content) => {
                let output = match get(content, "output") {
                    Value::Null => String::new(),
                    output => format!(" -> {}", self.of_type(output)),
                };
                format!("({}){output}", self.each(get(content, "inputs"), Self::of_type).join(", "))
            }
            (other, _) => panic!("unknown arguments: {other}"),
        }
    }
}
