//! The plugin finds QEMU's symbols in the process that loads it; its unit tests, which call none of them, link without.

fn main() {
    println!("cargo:rustc-link-arg=-Wl,--unresolved-symbols=ignore-all");
}
