//! The smallest program: what starting a process costs at the least.

#[expect(clippy::print_stdout, reason = "that is all it does")]
fn main() {
    println!("hello world");
}
