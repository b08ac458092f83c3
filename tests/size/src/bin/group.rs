//! Two events, one of them by its name, and messages.
use rdpmc::{Error, Event, Group};

fn main() -> Result<(), Error> {
    let event: Event = std::env::args().nth(1).unwrap_or("cycles".into()).parse()?;
    let group = Group::open([event, Event::INSTRUCTIONS])?;
    println!("{:?} {}", group.read(), group.access());
    Ok(())
}
