//! As many events as there are names.
use rdpmc::{DynGroup, Error, Event};

fn main() -> Result<(), Error> {
    let names = std::env::args().skip(1);
    let events = names.map(|name| name.parse()).collect::<Result<Vec<Event>, Error>>()?;
    let group = DynGroup::open(&events)?;
    println!("{:?} {}", group.read(), group.access());
    Ok(())
}
