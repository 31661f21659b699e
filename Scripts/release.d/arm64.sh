# shellcheck shell=sh disable=SC2016,SC2034,SC2154 # the hooks expand it; Scripts/release has the variables
# Sourced by Scripts/release --arch arm64. Makes in $folder what the build for ARM64 needs: a root with Debian's Swift for this machine,
# the libraries of Debian 12 for ARM64, and a Swift SDK of both.
folder=$folder/arm64
sysroot=$folder/sysroot
target="--target=aarch64-linux-gnu --sysroot=$sysroot"
version_of() { sed -n "s/^$1 //p" "$sysroot/packages"; }
mkdir -p "$folder/sdk.artifactbundle"
[ "$(id -u)" -eq 0 ] || fail '--arch arm64 requires root, for mmdebstrap and chroot'
command -v mmdebstrap >/dev/null || fail 'mmdebstrap is not installed. Run Scripts/bootstrap --arm64'
sources=$(grep -l -s -E '^(URIs:|deb ).*/debian' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list | head -n 1)
[ -n "$sources" ] || fail 'neither /etc/apt/sources.list.d/debian.sources nor /etc/apt/sources.list names a Debian mirror'
mirror=$(sed -n -E 's,^(URIs:|deb ).*(https?://[^ ]*/debian)/?( .*)?$,\2,p' "$sources" | head -n 1)

# The packages are extracted, not installed, so that nothing of them runs: extract FOLDER ARCHITECTURES SUITE SOURCES PACKAGES HOOK
extract() {
    rm -rf --one-file-system "$1.new" "$1"
    mmdebstrap --quiet --mode=root --variant=extract --architectures="$2" --aptopt='Acquire::Check-Valid-Until "false"' \
        --include="$5" --extract-hook="$6" "$3" "$1.new" "$4" >&2
    mv "$1.new" "$1"
}

# The compiler: 1.1 GB of downloads. Remains until the folder is deleted.
[ -d "$folder/root" ] || extract "$folder/root" amd64,arm64 sid "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" \
    swiftlang,libstdc++-14-dev,git,pkgconf,base-files,coreutils,dash '
    mkdir "$1/arm64" && cd "$1/arm64" && APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq -o APT::Sandbox::User=root download swiftlang:arm64
    dpkg-deb --fsys-tarfile swiftlang_*.deb |
        tar -x --strip-components=5 ./usr/libexec/swift/lib/clang ./usr/libexec/swift/lib/swift ./usr/libexec/swift/lib/swift_static
    rm swiftlang_*.deb'
extract "$sysroot" arm64 bookworm "$sources" libc6-dev,libstdc++-12-dev,libarchive-dev,libssl-dev,libzstd-dev,zlib1g-dev,libcurl4-openssl-dev '
    for deb in "$1"/var/cache/apt/archives/*.deb; do dpkg-deb --show --showformat "\${Package} \${Version}\n" "$deb"; done >"$1/packages"'
# Links such as libm.so are absolute, so they would lead out of the sysroot.
find "$sysroot/usr/lib" -lname '/lib/*' -exec sh -c 'ln -sf "../../..$(readlink "$1")" "$1"' sh {} \;
# The compiler looks for swiftrt.o here.
ln -s /arm64/swift_static "$sysroot/usr/lib/swift_static"

echo '{"schemaVersion": "1.0", "artifacts": {"arm64": {"type": "swiftSDK", "version": "1", "variants": [{"path": "."}]}}}' >"$folder/sdk.artifactbundle/info.json"
cat >"$folder/sdk.artifactbundle/swift-sdk.json" <<END
{"schemaVersion": "4.0", "targetTriples": {"aarch64-unknown-linux-gnu": {
    "sdkRootPath": "$sysroot", "swiftResourcesPath": "/arm64/swift", "swiftStaticResourcesPath": "/arm64/swift_static"}}}
END

# Runs a command in the root, which has this folder at the same path. The mounts end with the command.
in_root() {
    mkdir -p "$folder/root$root"
    unshare --mount sh -ec 'at=$1 root=$2 && shift 2
        mount -t proc proc "$at/proc" && mount --rbind /dev "$at/dev" && mount --bind "$root" "$at$root"
        exec chroot "$at" /usr/bin/env -i HOME=/root PATH=/usr/libexec/swift/bin:/usr/bin "$@"' sh "$folder/root" "$root" "$@"
}
