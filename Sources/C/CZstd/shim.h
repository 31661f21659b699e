// Declares ZSTD_getFrameProgression, which the shared library exports.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>
#include <zstd_errors.h>

// Reads the header of the frame at `bytes`. Returns 0 for a frame of content without a dictionary. The structure has two names in zstd's
// versions.
static inline int czstd_frame(const void *bytes, size_t count, unsigned long long *content, unsigned long long *window)
{
    ZSTD_frameHeader header;
    if (ZSTD_getFrameHeader(&header, bytes, count) != 0) return -1;
    if (header.frameType != ZSTD_frame || header.dictID != 0) return -1;
    *content = header.frameContentSize;
    *window = header.windowSize;
    return 0;
}
