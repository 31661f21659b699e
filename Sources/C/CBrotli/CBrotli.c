#include "CBrotli.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

// From brotli/decode.h. The version number of libbrotlidec has not changed since its first release.
static const char library_name[] = "libbrotlidec.so.1";
static int (*decompress)(size_t, const uint8_t *, size_t *, uint8_t *);
static const int result_success = 1;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (library) decompress = (int (*)(size_t, const uint8_t *, size_t *, uint8_t *))dlsym(library, "BrotliDecoderDecompress");
}

int cbrotli_load(void) {
    pthread_once(&once, load);
    return decompress ? 0 : -1;
}

int cbrotli_decode(size_t encoded_size, const void *encoded, size_t *decoded_size, void *decoded) {
    return decompress(encoded_size, encoded, decoded_size, decoded) == result_success;
}
