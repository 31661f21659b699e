// Functions for the portable programs (Scripts/release --portable, --arch arm64): newer ones of glibc, so that the program starts with glibc 2.34,
// and those of libraries that libarchive uses for formats that this package refuses.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define HIDDEN __attribute__((visibility("hidden")))

// The Debian packages of the libraries inside, as "name version" lines; CLinux reads it.
const char clinux_packages[] HIDDEN = PACKAGES;

// Since glibc 2.36.
HIDDEN void arc4random_buf(void *bytes, size_t count) {
    for (char *next = bytes; count > 0;) {
        ssize_t received = getrandom(next, count, 0);
        if (received <= 0) continue;
        next += received;
        count -= (size_t)received;
    }
}

// glibc 2.35 changed its version.
HIDDEN float hypotf(float x, float y) {
    if (isinf(x) || isinf(y)) return INFINITY;
    return (float)sqrt((double)x * x + (double)y * y);
}

#ifdef __aarch64__
// Since glibc 2.38, for which Debian compiled the static libraries of Swift.
HIDDEN long __isoc23_strtol(const char *text, char **end, int base) { return strtol(text, end, base); }
HIDDEN long long __isoc23_strtoll(const char *text, char **end, int base) { return strtoll(text, end, base); }
HIDDEN int __isoc23_sscanf(const char *text, const char *format, ...) {
    va_list values;
    va_start(values, format);
    int count = vsscanf(text, format, values);
    va_end(values);
    return count;
}
HIDDEN size_t strlcpy(char *to, const char *from, size_t space) {
    size_t length = strlen(from);
    if (space > 0) {
        size_t copied = length < space ? length : space - 1;
        memcpy(to, from, copied);
        to[copied] = 0;
    }
    return length;
}
#endif

// bzip2 and lzma: libarchive reports the result as an error of the entry (BZ_CONFIG_ERROR, LZMA_OPTIONS_ERROR).
#define FAILS(name, result) HIDDEN int name(void) { return result; }
FAILS(BZ2_bzDecompressInit, -9) FAILS(BZ2_bzDecompress, -9) FAILS(BZ2_bzDecompressEnd, 0)
FAILS(lzma_alone_decoder, 8) FAILS(lzma_stream_decoder, 8) FAILS(lzma_code, 8) FAILS(lzma_end, 0)

// nettle (LGPL): libarchive calls it for encrypted entries only, which have no passphrase here.
#define UNREACHED(name) HIDDEN void name(void) { abort(); }
UNREACHED(nettle_aes128_encrypt) UNREACHED(nettle_aes128_set_encrypt_key)
UNREACHED(nettle_aes192_encrypt) UNREACHED(nettle_aes192_set_encrypt_key)
UNREACHED(nettle_aes256_encrypt) UNREACHED(nettle_aes256_set_encrypt_key)
UNREACHED(nettle_hmac_sha1_digest) UNREACHED(nettle_hmac_sha1_set_key) UNREACHED(nettle_hmac_sha1_update)
UNREACHED(nettle_pbkdf2_hmac_sha1)
