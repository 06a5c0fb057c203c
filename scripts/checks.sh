# Sourced by ./test: lints and licences.

lints() {
    cargo fmt --check
    cargo clippy --quiet --workspace --all-targets --locked -- -D warnings
    cargo fmt --check --manifest-path fuzz/Cargo.toml
    cargo clippy --quiet --locked --manifest-path fuzz/Cargo.toml --target-dir target/fuzz -- -D warnings
    .venv/bin/ruff format --check --quiet python tests scripts
    .venv/bin/ruff check --quiet python tests scripts
    .venv/bin/mypy
}

# cargo-deny is built once, into the cache.
DENY_VERSION=0.20.2
licences() {
    deny_root="${WIRETIME_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wiretime}/cargo-deny-$DENY_VERSION"
    if [ ! -x "$deny_root/bin/cargo-deny" ]; then
        say "building cargo-deny $DENY_VERSION, once (a minute or two)"
        # It runs for two seconds: not worth an optimised build.
        CARGO_PROFILE_DEV_DEBUG=false cargo install --quiet --locked --debug --root "$deny_root" "cargo-deny@$DENY_VERSION"
    fi
    PATH="$deny_root/bin:$PATH" cargo deny --log-level error check licenses bans sources
}
