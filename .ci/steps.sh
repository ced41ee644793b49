# What .ci/run and .ci/nightly share: how steps are chosen, run and timed, and how a clean machine is prepared.
# The caller defines `steps`, a function of `step` lines, and calls `main "$@"`.

install_asked=${CI:-false}
# Incremental compilation is for the next build of a changed tree; the first build of a clone would only pay for it.
export CI=true CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-always}" RUST_BACKTRACE=1 CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
# A machine that builds everything once does without line numbers in backtraces, which lengthen each build.
[[ $install_asked != true ]] || export CARGO_PROFILE_DEV_DEBUG="${CARGO_PROFILE_DEV_DEBUG:-0}"

packages=(build-essential ca-certificates chromium chromium-driver curl iperf3 iproute2 netcat-openbsd nodejs procps python3 tcpdump tmux util-linux valgrind)
commands=(cc chromedriver chromium curl ip iperf3 kill lsns nc node python3 setpriv tcpdump tmux unshare valgrind)

main() {
    local mode=run wanted=() word
    for word in "$@"; do
        case $word in
            --list) mode=list ;;
            --install) install_asked=true ;;
            -*) refuse "$word is not an option" ;;
            *) wanted+=("$word") ;;
        esac
    done
    check_names
    # A step alone installs only on request, in CI too.
    if [[ $mode == run && $install_asked == true && (${#wanted[@]} -eq 0 || " $* " == *" --install "*) ]]; then
        printf '\n=== installing what is missing\n'
        install
    fi
    steps
}

# Runs a step if it is wanted, and says how long it took. Not within a condition, where `set -e` would sleep.
step() {
    local name=$1 what=$2 began=$SECONDS
    shift 2
    if [[ $mode == list ]]; then
        printf '%-18s %s\n' "$name" "$what"
        return
    fi
    if ((${#wanted[@]} > 0)) && [[ " ${wanted[*]} " != *" $name "* ]]; then
        return
    fi
    printf '\n=== %s: %s: %s\n' "$name" "$what" "$*"
    perform "$@"
    # The tests say last what they say.
    [[ $name == tests ]] || printf '=== %s: %d s\n' "$name" $((SECONDS - began))
}

# A step that fails ends the run. .ci/nightly goes on instead, and reports.
perform() {
    "$@"
}

# Every wanted step must be one of the list.
check_names() {
    local known word
    known=$(mode=list steps | cut -d' ' -f1)
    for word in "${wanted[@]}"; do
        grep -qxF -- "$word" <<<"$known" || refuse "$word is not a step"
    done
}

refuse() {
    echo "$1; $0 --list lists the steps, and the head of $0 its options" >&2
    exit 2
}

install() {
    if missing_commands && [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
    fi
    if command -v rustup >/dev/null && ! { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1; then
        rustup component add rustfmt clippy
    fi
    if command -v cargo >/dev/null && ! command -v cargo-deny >/dev/null; then
        cargo install cargo-deny --version 0.20.2 --locked --quiet --debug
    fi
    if [[ $EUID -eq 0 && ! -e /dev/net/tun ]]; then
        mkdir -p /dev/net && mknod /dev/net/tun c 10 200 && chmod 666 /dev/net/tun
    fi
}

# Installs nothing: says what is missing, and how to get it.
tools() {
    if missing_commands; then
        echo "not installed: ${missing[*]}; as root on Debian: .ci/run --install tools, or apt-get install ${packages[*]}" >&2
        return 1
    fi
    if ! command -v cargo >/dev/null; then
        echo "cargo is not installed: https://rustup.rs" >&2
        return 1
    fi
    python3 -c 'import tomllib' || { echo "the scripts need Python 3.11 or later" >&2; return 1; }
    if ! { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1; then
        echo "rustfmt or clippy is not installed: rustup component add rustfmt clippy" >&2
        return 1
    fi
    if ! command -v cargo-deny >/dev/null; then
        echo "cargo-deny is not installed: .ci/run --install tools, or cargo install cargo-deny --locked" >&2
        return 1
    fi
    cargo fetch --locked --quiet
}

missing_commands() {
    local command
    missing=()
    for command in "${commands[@]}"; do
        command -v "$command" >/dev/null || missing+=("$command")
    done
    ((${#missing[@]} > 0))
}

# Where cargo puts what it builds.
target() {
    cargo metadata --locked --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])'
}

# Packs every crate that is published.
pack() {
    cargo package --locked --quiet --allow-dirty --workspace \
        --exclude ackclock-tests --exclude ackclock-test-features --exclude ackclock-test-script --exclude ackclock-test-support --exclude ackclock-explore --exclude ackclock-benches --exclude ackclock-examples --exclude ackclock-fuzz --exclude ackclock-packets \
        --exclude ackclock-restart --exclude ackclock-tun2socks --exclude ackclock-wireguard "$@"
}

build_plain() {
    cargo build --locked --profile plain -p tcplab -p ackclock-tests -p ackclock-packets -p ackclock-benches --bins
}

# Runs a program that is built without debug assertions.
plain() {
    build_plain && "$(target)/plain/$1" "${@:2}"
}
