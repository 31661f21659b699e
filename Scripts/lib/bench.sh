# Sourced by the benchmarks: the release binary, a real client, a release, and results.jsonl.
# They set $root, $tools and $short (the name of the script in messages) first.

client=home-assistant
clients_dir=""
work_parent=${TMPDIR:-/tmp}
binary=""
keep=no
runs=5
short_runs=20

say() { printf '%s: %s\n' "$short" "$*" >&2; }
fail() { printf '%s: %s\n' "$short" "$*" >&2; exit 1; }

positive() { # NUMBER ...
    local number
    for number in "$@"; do
        case $number in "" | 0 | *[!0-9]*) say "'$number' is not a positive number"; exit 64 ;; esac
    done
}

# options OPTION[=VARIABLE] ... -- ARGUMENT ...: parses a command line. An option without a variable calls the function
# with its name.
# --help prints the heading of the script.
options() {
    local known=" " name
    while [ "$1" != -- ]; do
        known="$known$1 "
        shift
    done
    shift
    while [ $# -gt 0 ]; do
        case $1 in
            -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
            *)
                case $known in
                    *" $1 "*)
                        "${1#--}"
                        shift
                        continue
                        ;;
                    *" $1="*) ;;
                    *) say "unknown option $1"; exit 64 ;;
                esac
                [ $# -ge 2 ] || { say "$1 needs a value"; exit 64; }
                name=${known#*" $1="}
                printf -v "${name%% *}" %s "$2"
                shift
                ;;
        esac
        shift
    done
    [ -z "$binary" ] || binary=$(realpath "$binary")
}

keep() { keep=yes; }

# Sets $work, which is removed at the end. nginx may be started in it.
make_work() { # BOOTSTRAP_OPTION ...
    "$root/Scripts/bootstrap" "$@" >&2
    PATH=$PATH:/usr/sbin:/sbin
    work=$(mktemp -d "$work_parent/swap-clients-bench.XXXXXX")
    . "$root/Scripts/lib/nginx.sh"
    trap clean_up EXIT
    trap 'exit 130' HUP INT TERM
}
clean_up() {
    stop_nginx
    if [ "$keep" = yes ]; then say "kept $work"; else rm -rf "$work"; fi
}

# Sets $binary, unless one was given.
build_binary() {
    [ -z "$binary" ] || return 0
    say "building the release binary"
    binary=$("$root/Scripts/release" "$work/clientctl")
}

# ext4 skips recently deleted inodes one by one for every new file, so an installation after the removal of a tree takes
# ten times as long. Every run therefore gets a new folder in $spot, nothing is removed before the end, and the T
# attribute places these folders in different parts of the disk.
make_spot() {
    spot=$work/runs
    mkdir "$spot"
    chattr +T "$spot" 2>/dev/null || true
}

# Sets $old, $new and $kind.
get_client() { # NAME [CLIENTS_FOLDER]
    local line
    say "getting the client"
    "$root/Scripts/lib/real-clients" --only "$1" ${2:+"$2"} >"$work/clients"
    cat "$work/clients" >&2
    line=$(tail -n 1 "$work/clients")
    old=${line#* old=}
    new=${old#* new=}
    old=${old%% new=*}
    kind=${line#CLIENTS kind=}
    kind=${kind%% *}
    [ -d "$old" ] && [ -d "$new" ] || fail "no client to measure with"
}

publish() { # FOLDER VERSION FEED LEVEL [OPTION ...]
    local folder=$1 version=$2 feed=$3 publish_level=$4
    shift 4
    "$binary" publish "$folder" --version "$version" --feed "$feed" --key "$work/bench.key.pem" --min-shell 1.0.0 \
        --app-id org.example.bench --level "$publish_level" --json "$@"
}

# measure ROW SIDE COMMAND...: adds one line to results.jsonl. The command's stdout stays in $work/stdout.
measure() {
    local row=$1 side=$2
    shift 2
    if ! "$root/Scripts/bench.d/cost" --out "$work/one.json" --stdout "$work/stdout" --stderr "$work/stderr" "$@"; then
        cat "$work/stderr" "$work/stdout" >&2
        fail "'$row' of $side failed: $*"
    fi
    result "$row" "$side" "$(cat "$work/one.json")" "$(python3 "$tools/answer" "$work/stdout")"
}
result() { # ROW SIDE COST ANSWER
    printf '{"row": "%s", "side": "%s", "cost": %s, "answer": %s}\n' "$@" >>"$work/results.jsonl"
}
fact() { printf '{"fact": "%s", "value": %s}\n' "$1" "$2" >>"$work/results.jsonl"; }

# The facts in the heading of every table.
facts_of_client() { # FOLDER
    disk_kind=$(df --output=fstype "$work" | tail -n 1)
    fact kind "\"$kind\""
    fact files "$(find "$1" -type f | wc -l)"
    fact bytes "$(find "$1" -type f -printf '%s\n' | awk '{ s += $1 } END { print s }')"
    fact disk "\"$disk_kind\""
    fact cores "$(nproc)"
    [ "$disk_kind" != tmpfs ] || say "NOTE: $work is in memory, not on a disk; use --work"
}
