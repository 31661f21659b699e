#include "CSQLite.h"

#include <dlfcn.h>
#include <pthread.h>

// The ABI version of version 3, unchanged since 2004.
static const char library_name[] = "libsqlite3.so.0";

typedef int (*exec_callback)(void *, int, char **, char **);
typedef void (*destructor)(void *);
// Makes the library copy the bytes.
#define TRANSIENT ((destructor)-1)

static struct {
    int (*open_v2)(const char *, sqlite3 **, int, const char *);
    int (*close_v2)(sqlite3 *);
    int (*busy_timeout)(sqlite3 *, int);
    int (*exec)(sqlite3 *, const char *, exec_callback, void *, char **);
    int (*prepare_v2)(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
    int (*step)(sqlite3_stmt *);
    int (*reset)(sqlite3_stmt *);
    int (*finalize)(sqlite3_stmt *);
    int (*bind_text)(sqlite3_stmt *, int, const char *, int, destructor);
    int (*bind_blob)(sqlite3_stmt *, int, const void *, int, destructor);
    int (*bind_int64)(sqlite3_stmt *, int, int64_t);
    int (*bind_null)(sqlite3_stmt *, int);
    int (*column_type)(sqlite3_stmt *, int);
    int64_t (*column_int64)(sqlite3_stmt *, int);
    const void *(*column_blob)(sqlite3_stmt *, int);
    const unsigned char *(*column_text)(sqlite3_stmt *, int);
    int (*column_bytes)(sqlite3_stmt *, int);
    const char *(*errmsg)(sqlite3 *);
} loaded;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int is_loaded = 0;

static void load(void) {
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
#define FIND(name) \
    loaded.name = (__typeof__(loaded.name))dlsym(library, "sqlite3_" #name); \
    if (!loaded.name) return;
    FIND(open_v2) FIND(close_v2) FIND(busy_timeout) FIND(exec) FIND(prepare_v2) FIND(step) FIND(reset) FIND(finalize)
    FIND(bind_text) FIND(bind_int64) FIND(bind_null) FIND(column_type) FIND(column_int64) FIND(column_text)
    FIND(column_bytes) FIND(errmsg) FIND(bind_blob) FIND(column_blob)
    is_loaded = 1;
}

int csqlite_load(void) {
    pthread_once(&once, load);
    return is_loaded ? 0 : -1;
}

int csqlite_open(const char *path, sqlite3 **database, int flags) { return loaded.open_v2(path, database, flags, 0); }
int csqlite_close(sqlite3 *database) { return loaded.close_v2(database); }
int csqlite_busy_timeout(sqlite3 *database, int milliseconds) { return loaded.busy_timeout(database, milliseconds); }
int csqlite_exec(sqlite3 *database, const char *sql) { return loaded.exec(database, sql, 0, 0, 0); }
int csqlite_prepare(sqlite3 *database, const char *sql, sqlite3_stmt **statement) {
    return loaded.prepare_v2(database, sql, -1, statement, 0);
}
int csqlite_step(sqlite3_stmt *statement) { return loaded.step(statement); }
int csqlite_reset(sqlite3_stmt *statement) { return loaded.reset(statement); }
int csqlite_finalize(sqlite3_stmt *statement) { return loaded.finalize(statement); }
int csqlite_bind_text(sqlite3_stmt *statement, int index, const char *text, int count) {
    return loaded.bind_text(statement, index, text, count, TRANSIENT);
}
int csqlite_bind_blob(sqlite3_stmt *statement, int index, const void *bytes, int count) {
    return loaded.bind_blob(statement, index, bytes, count, TRANSIENT);
}
int csqlite_bind_int64(sqlite3_stmt *statement, int index, int64_t value) {
    return loaded.bind_int64(statement, index, value);
}
int csqlite_bind_null(sqlite3_stmt *statement, int index) { return loaded.bind_null(statement, index); }
int csqlite_column_type(sqlite3_stmt *statement, int column) { return loaded.column_type(statement, column); }
int64_t csqlite_column_int64(sqlite3_stmt *statement, int column) { return loaded.column_int64(statement, column); }
const void *csqlite_column_blob(sqlite3_stmt *statement, int column) { return loaded.column_blob(statement, column); }
const unsigned char *csqlite_column_text(sqlite3_stmt *statement, int column) {
    return loaded.column_text(statement, column);
}
int csqlite_column_bytes(sqlite3_stmt *statement, int column) { return loaded.column_bytes(statement, column); }
const char *csqlite_errmsg(sqlite3 *database) { return loaded.errmsg(database); }
