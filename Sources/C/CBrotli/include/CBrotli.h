#ifndef CBROTLI_H
#define CBROTLI_H

#include <stddef.h>

// libbrotlidec is loaded at its first use, because only the inspection of precompressed files needs it. It is installed with libcurl.

/// Loads libbrotlidec. Returns 0, or -1 if the system does not have it.
int cbrotli_load(void);

/// Decodes `encoded` into `decoded`, which has space for `*decoded_size` bytes. Returns 1 if `encoded` is exactly one brotli stream that
/// fits, and sets `*decoded_size` to its length. Call it only after `cbrotli_load` returned 0.
int cbrotli_decode(size_t encoded_size, const void *encoded, size_t *decoded_size, void *decoded);

#endif
