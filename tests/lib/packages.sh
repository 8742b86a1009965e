# Sourced by ./run and ./test: what they need from Debian, and how it is had. Never run.

PACKAGES_BUILD=(gcc libc6-dev cmake ninja-build pkg-config python3 liburing-dev libzstd-dev
    liblz4-dev libsnappy-dev zlib1g-dev libisal-dev libjansson-dev libmicrohttpd-dev
    libcmocka-dev uthash-dev)
PACKAGES_TRY=(kcat)
# clang-format 15 or newer: the style file uses InsertBraces.
PACKAGES_TEST=(git clang libclang-rt-dev clang-tidy clang-format-16 cppcheck librdkafka-dev kcat
    util-linux)

# packages_need <why> <package...>: installs those that are missing, and says which. Ends the script
# when they cannot be had.
packages_need()
{
    local why=$1 package missing=() sudo=
    shift
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' ||
            missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null; then
        echo "$why needs ${missing[*]}, and there is no apt-get here: install them by hand" >&2
        exit 1
    fi
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || {
            echo "$why needs ${missing[*]}: run as root 'apt-get install ${missing[*]}'" >&2
            exit 1
        }
        sudo=sudo
    fi
    echo "$why needs ${missing[*]}: installing with apt-get" >&2
    $sudo apt-get update -q >/dev/null &&
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends \
            "${missing[@]}" </dev/null >/dev/null || {
        echo "apt-get could not install ${missing[*]}: see the lines above" >&2
        exit 1
    }
}
