#ifndef CBROTLI_H
#define CBROTLI_H

#include <stddef.h>

// libbrotlidec is loaded when it is first used: wherever libcurl is, it is, too, and only a look at a folder of precompressed files needs it.

/// Loads libbrotlidec; 0, or -1 where the system has none.
int cbrotli_load(void);

/// Decodes `encoded` into `decoded`, which has room for `*decoded_size` bytes; 1 where all of it is one brotli stream that fits, and
/// `*decoded_size` is then what it has. To be called after a `cbrotli_load` that gave 0.
int cbrotli_decode(size_t encoded_size, const void *encoded, size_t *decoded_size, void *decoded);

#endif
