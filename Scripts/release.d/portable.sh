# shellcheck shell=sh disable=SC2154 # Scripts/release has the variables
# Sourced by Scripts/release. Puts the C libraries that go into a program into the folder $static.
# $target has the options of clang for another architecture, and version_of prints the version of a package for it.
# The linker searches this folder first, and it contains no shared library. The package configurations name it.
static=$folder/static
rm -rf "$static"
mkdir "$static"
packages=""
while read -r name library package; do
    # shellcheck disable=SC2086 # one word per option
    archive=$(clang $target --print-file-name="lib$library.a")
    [ -f "$archive" ] || fail "lib$library.a is not installed. Run Scripts/bootstrap"
    cp "$archive" "$static"
    printf 'Name: %s\nDescription: static\nVersion: 0\nLibs: -L%s -l%s\n' "$name" "$static" "$library" >"$static/$name.pc"
    packages="$packages$package $(version_of "$package")\\n"
done <<END
libarchive archive libarchive-dev
libcrypto crypto libssl-dev
libzstd zstd libzstd-dev
zlib z zlib1g-dev
libstdc++ stdc++ libstdc++-12-dev
END
# publish compresses with threads. Debian's libzstd.a has none, so the script compiles the source of the package, once.
zstd=$folder/zstd-$(version_of libzstd-dev)
if [ ! -f "$zstd/libzstd.a" ]; then
    from_source() {
        apt-get -qq -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$zstd" -o "Dir::State::Lists=$zstd/lists" \
            -o "Dir::Cache=$zstd" "$@" >&2
    }
    mkdir -p "$zstd/lists/partial" "$zstd/archives/partial"
    for list in /etc/apt/sources.list.d/*.sources; do sed 's/^Types:.*/Types: deb-src/' "$list" >"$zstd/${list##*/}"; done
    from_source update
    (cd "$zstd" && from_source source "libzstd=${zstd##*/zstd-}")
    # shellcheck disable=SC2086
    (cd "$zstd"/libzstd-*/lib && clang $target -O3 -fPIC -DZSTD_MULTITHREAD -DXXH_NAMESPACE=ZSTD_ -c common/*.c compress/*.c decompress/*.[cS])
    ar rcsD "$zstd/libzstd.a" "$zstd"/libzstd-*/lib/*.o
fi
cp "$zstd/libzstd.a" "$static"
# shellcheck disable=SC2086
clang $target -Os -fPIC -ffunction-sections "-DPACKAGES=\"$packages\"" -c "$root/Scripts/release.d/portable.c" -o "$static/portable.o"
