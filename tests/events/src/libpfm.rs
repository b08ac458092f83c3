//! What `libpfm4.c` prints.

/// An event of a PMU.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) pmu: String,
    event: String,
    umask: String,
    pub(crate) config: u64,
    pub(crate) config1: u64,
    pub(crate) description: String,
}

impl Line {
    /// Returns the event's name, and after this character, its unit mask.
    pub(crate) fn name(&self, between: char) -> String {
        match self.umask.as_str() {
            "" => self.event.clone(),
            umask => format!("{}{between}{umask}", self.event),
        }
    }
}

pub(crate) fn parse(text: &str) -> Result<Vec<Line>, String> {
    text.lines().map(line).collect()
}

fn line(text: &str) -> Result<Line, String> {
    let fields: Vec<&str> = text.split('\t').collect();
    let not_understood = || format!("not understood: {text}");
    let [pmu, event, umask, config, config1, _, description] = fields[..] else {
        return Err(not_understood());
    };
    let number = |text: &str| u64::from_str_radix(text, 16).map_err(|_| not_understood());
    Ok(Line {
        pmu: pmu.to_owned(),
        event: event.to_owned(),
        umask: umask.to_owned(),
        config: number(config)?,
        config1: number(config1)?,
        description: description.to_owned(),
    })
}
