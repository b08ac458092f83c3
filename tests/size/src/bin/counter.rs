//! One counter, read in user space.
use rdpmc::{Counter, Event};

fn main() {
    match Counter::open(Event::INSTRUCTIONS) {
        Ok(counter) => println!("{:?}", counter.read_user()),
        Err(_) => println!("no"),
    }
}
