# Sourced by ./run and ./test: system packages, Python environment, the Python extension. Idempotent.

say() { printf '%s\n' "$*" >&2; }
fail() { say "wiretime: $*"; exit 2; }

# The oldest Rust that builds this (Cargo.toml, rust-version).
RUST_MINIMUM=85

have() { command -v "$1" >/dev/null 2>&1; }

rust_is_new_enough() {
    have rustc && have cargo || return 1
    minor=$(rustc --version | sed 's/rustc 1\.\([0-9]*\).*/\1/')
    [ "$minor" -ge "$RUST_MINIMUM" ] 2>/dev/null
}

# Ubuntu keeps newer releases of Rust beside its own, each in a folder of its own. Of the numbers read, the lowest that will do.
lowest_rust() {
    sort -n | while read -r minor; do
        [ "$minor" -lt "$RUST_MINIMUM" ] || { echo "$minor"; break; }
    done
}

# Puts such a release before all others, where there is one.
use_rust_beside() {
    rust_is_new_enough && return
    minor=$(ls -d /usr/lib/rust-1.*/bin 2>/dev/null | sed -n 's|.*/rust-1\.\([0-9]*\)/bin$|\1|p' | lowest_rust)
    [ -z "$minor" ] || export PATH="/usr/lib/rust-1.$minor/bin:$PATH"
}

# Prints the packages of Rust that this system offers.
rust_packages() {
    # Debian 12 keeps a current Rust for browsers beside its own, old one.
    if apt-cache show cargo-web >/dev/null 2>&1; then
        echo cargo-web rustc-web rustfmt-web rust-web-clippy
        return
    fi
    own=$(apt-cache policy rustc 2>/dev/null | sed -n 's/.*Candidate: 1\.\([0-9]*\).*/\1/p')
    beside=$(apt-cache search --names-only '^cargo-1\.[0-9]+$' | sed -n 's/^cargo-1\.\([0-9]*\) .*/\1/p' | lowest_rust)
    if [ "${own:-0}" -lt "$RUST_MINIMUM" ] && [ -n "$beside" ]; then
        echo "cargo-1.$beside rustc-1.$beside rustfmt-1.$beside rust-1.$beside-clippy"
    else
        echo cargo rustc rustfmt rust-clippy
    fi
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        # It forgets the user's proxies.
        sudo ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
            ${no_proxy:+no_proxy="$no_proxy"} "$@"
    fi
}

# Prints the packages that are missing. $1: "test" adds what only the tests need.
missing_packages() {
    have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3 python3-venv
    have cpio || echo cpio
    if [ -d bundle/cache ]; then
        # An export (wiretime setup --export) has what the others would make.
        return
    fi
    have mmdebstrap || echo mmdebstrap
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || echo debian-archive-keyring
    have make || echo make
    have pkg-config || echo pkgconf
    have aarch64-linux-gnu-gcc || echo gcc-aarch64-linux-gnu
    [ -e /usr/aarch64-linux-gnu/include/stdio.h ] || echo libc6-dev-arm64-cross
    [ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
    if [ "${1:-}" = test ]; then
        have tshark || echo tshark
        have g++ || echo g++
        have dpkg-source || echo dpkg-dev
        # Ubuntu's is a snap: there the tests in a browser are skipped.
        { have chromium && have chromedriver; } || grep -q '^ID=ubuntu' /etc/os-release || echo chromium chromium-driver
    fi
    # A release (wiretime setup --release) has what is compiled for this machine.
    if [ -e bundle/_native.abi3.so ] && [ "${1:-}" != test ]; then
        return
    fi
    have gcc || echo gcc libc6-dev
    if ! rust_is_new_enough; then
        rust_packages
    elif [ "${1:-}" = test ]; then
        cargo clippy --version >/dev/null 2>&1 || echo rust-clippy
        cargo fmt --version >/dev/null 2>&1 || echo rustfmt
    fi
}

system_packages() {
    use_rust_beside
    [ -n "$(missing_packages "$@")" ] || return 0
    have apt-get || fail "this is no Debian; install by hand:" $(missing_packages "$@")
    [ "$(id -u)" -eq 0 ] || have sudo || fail "needs root or sudo, or somebody who installs:" $(missing_packages "$@")
    # Some other archive may be what could not be read.
    as_root apt-get update -qq || say "apt-get update failed; going on with the package lists that are here"
    # Asked again: what the archive offers was not known before.
    list=$(missing_packages "$@" | tr '\n' ' ')
    say "installing system packages: $list"
    # shellcheck disable=SC2086 # a list of words
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $list >/dev/null ||
        fail "apt-get install failed: is the package archive reachable? Missing here: $list"
    use_rust_beside
    [ -e bundle/_native.abi3.so ] || rust_is_new_enough || fail "Rust 1.$RUST_MINIMUM or newer is needed, found: $(rustc --version 2>&1)"
}

# Prints a hash of what files hold, those in folders among them.
hash_of() {
    find "$@" -type f -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256sum | cut -c1-16
}

# Prints what the engine and the extension are built from, as a hash.
sources_key() {
    hash_of crates Cargo.toml Cargo.lock pyproject.toml
}

# The same of the Python extension.
extension_key() {
    hash_of crates/base crates/capture crates/experiment crates/hw crates/packet crates/py Cargo.toml Cargo.lock pyproject.toml
}

python_environment() {
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Python 3.11 or newer is needed"
    offline="" size="260 MB"
    if [ -d bundle/wheels ]; then
        python3 -c 'import json, sys; sys.exit(json.load(open("bundle/manifest.json"))["python"] != "%d.%d" % sys.version_info[:2])' ||
            fail "this export is for another Python: $(grep python bundle/manifest.json), this is $(python3 --version)"
        size=nothing
        offline="--no-index --find-links bundle/wheels"
    fi
    # An environment holds its own path and Python: neither moved nor copied, nor under another Python, it works.
    key=$({ cat requirements.lock; pwd -P; python3 -V; } | sha256sum | cut -c1-16)
    if [ ! -e ".venv/.requirements-$key" ]; then
        say "making the Python environment ($size to fetch)"
        rm -rf .venv
        python3 -m venv .venv
        # shellcheck disable=SC2086 # a list of words
        .venv/bin/pip install --quiet --disable-pip-version-check $offline --require-hashes -r requirements.lock ||
            fail "pip install failed: is the Python package index reachable?"
        touch ".venv/.requirements-$key"
    fi
    if [ -e bundle/_native.abi3.so ]; then
        grep -q "\"$(sources_key)\"" bundle/manifest.json ||
            fail "the sources were changed, and the engine in bundle/ was built from them as they were: remove bundle/ to build it here (that needs Rust)"
        bundled_extension
        return
    fi
    key=$(extension_key)
    if [ ! -e ".venv/.native-$key" ]; then
        say "building the Python extension"
        if ! log=$(VIRTUAL_ENV="$PWD/.venv" PATH="$PWD/.venv/bin:$PATH" maturin develop --release --locked --quiet 2>&1)
        then
            say "$log"
            fail "building the Python extension failed"
        fi
        rm -f .venv/.native-*
        touch ".venv/.native-$key"
    fi
}

# The extension is a release's: the package is where it is unpacked.
bundled_extension() {
    # Replaced, not overwritten: processes that run have it mapped.
    if ! cmp -s bundle/_native.abi3.so python/wiretime/_native.abi3.so; then
        cp bundle/_native.abi3.so python/wiretime/.native.new
        mv python/wiretime/.native.new python/wiretime/_native.abi3.so
    fi
    [ ! -e .venv/bin/.wiretime ] || return 0
    echo "$PWD/python" >"$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/wiretime.pth"
    # Guarded: processes that it starts read it again.
    printf '#!%s\nfrom wiretime.__main__ import main\nif __name__ == "__main__":\n    main()\n' "$PWD/.venv/bin/python" >.venv/bin/wiretime
    chmod +x .venv/bin/wiretime
    touch .venv/bin/.wiretime
}

prepare() {
    [ "$(uname -m)" = x86_64 ] || fail "needs an amd64 host, this is $(uname -m)"
    case "$PWD" in
        *[[:space:]]*) fail "a path with a blank in it, which make and pkg-config cannot take: $PWD" ;;
    esac
    system_packages "$@"
    # One at a time: two would remove each other's environment.
    (
        flock 9
        python_environment
    ) 9<scripts/prepare.sh
}
