//! x
fn main() {
    println!("{}", bpe_openai_probe());
}
fn bpe_openai_probe() -> usize {
    1
}
