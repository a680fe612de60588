//! How the program is linked.

#[expect(clippy::disallowed_methods, reason = "Cargo says the target by a variable")]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // At a fixed address nothing has to be relocated when the program starts: 50,000 pointers, on pages that every start
    // would have to copy.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
