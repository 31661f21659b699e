// For ZSTD_getFrameProgression, which shared libraries export too.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>
#include <zstd_errors.h>
