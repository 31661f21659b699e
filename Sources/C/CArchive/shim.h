#include <archive.h>
#include <archive_entry.h>

// The AE_IF* constants are casts to a macro type, which Swift does not import.
static inline int carchive_is_file(unsigned int type) { return type == AE_IFREG; }
static inline int carchive_is_directory(unsigned int type) { return type == AE_IFDIR; }
static inline int carchive_is_symlink(unsigned int type) { return type == AE_IFLNK; }
static inline unsigned int carchive_regular(void) { return AE_IFREG; }
