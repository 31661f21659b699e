#ifndef CSQLITE_H
#define CSQLITE_H

#include <stdint.h>

// libsqlite3 is loaded at its first use, because only a host with a roster needs it. Its C interface is stable since 2004, so the
// functions in use are declared here and no headers are needed.

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;

enum {
    csqlite_ok = 0,
    csqlite_row = 100,
    csqlite_done = 101,
    csqlite_type_null = 5,
    csqlite_open_readonly = 0x1,
    csqlite_open_readwrite = 0x2,
    csqlite_open_create = 0x4,
    csqlite_open_fullmutex = 0x10000,
};

/// Loads libsqlite3. Returns 0, or -1 if the system does not have it. Call it before any other function; further calls are cheap.
int csqlite_load(void);

int csqlite_open(const char *path, sqlite3 **database, int flags);
int csqlite_close(sqlite3 *database);
int csqlite_busy_timeout(sqlite3 *database, int milliseconds);
int csqlite_exec(sqlite3 *database, const char *sql);
int csqlite_prepare(sqlite3 *database, const char *sql, sqlite3_stmt **statement);
int csqlite_step(sqlite3_stmt *statement);
int csqlite_reset(sqlite3_stmt *statement);
int csqlite_finalize(sqlite3_stmt *statement);
/// Binds a copy of `count` bytes of UTF-8.
int csqlite_bind_text(sqlite3_stmt *statement, int index, const char *text, int count);
/// Binds a copy of `count` bytes.
int csqlite_bind_blob(sqlite3_stmt *statement, int index, const void *bytes, int count);
int csqlite_bind_int64(sqlite3_stmt *statement, int index, int64_t value);
int csqlite_bind_null(sqlite3_stmt *statement, int index);
int csqlite_column_type(sqlite3_stmt *statement, int column);
int64_t csqlite_column_int64(sqlite3_stmt *statement, int column);
const void *csqlite_column_blob(sqlite3_stmt *statement, int column);
const unsigned char *csqlite_column_text(sqlite3_stmt *statement, int column);
int csqlite_column_bytes(sqlite3_stmt *statement, int column);
const char *csqlite_errmsg(sqlite3 *database);

#endif
