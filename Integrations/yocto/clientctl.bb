# For Yocto kirkstone to scarthgap. Scripts/package writes the version and the digests.
SUMMARY = "Updates web clients on devices"
LICENSE = "Apache-2.0 & BSD-2-Clause & BSD-3-Clause & Zlib & GPL-3.0-with-GCC-exception"
LIC_FILES_CHKSUM = "file://${WORKDIR}/clientctl-${PV}-licenses.txt;md5=@MD5@"

# The address of the release's files.
CLIENTCTL_MIRROR ?= "https://updates.example.com/clientctl"
SRC_URI = "${CLIENTCTL_MIRROR}/@PROGRAM@;name=program \
           ${CLIENTCTL_MIRROR}/clientctl-${PV}-licenses.txt;name=licenses"
SRC_URI[program.sha256sum] = "@SHA256@"
SRC_URI[licenses.sha256sum] = "@LICENSES@"

S = "${WORKDIR}"

# The program is built and stripped. It needs glibc 2.34 or newer, and loads libcurl at its first transfer.
COMPATIBLE_HOST = "x86_64.*-linux"
RDEPENDS:${PN} = "libcurl ca-certificates libgcc"
INSANE_SKIP:${PN} = "already-stripped ldflags"

do_install() {
    install -D -m 0755 ${WORKDIR}/@PROGRAM@ ${D}${bindir}/clientctl
}
