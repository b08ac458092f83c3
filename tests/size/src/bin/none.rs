//! The same without the library.
fn main() {
    println!("{:?}", std::env::args().nth(1));
}
