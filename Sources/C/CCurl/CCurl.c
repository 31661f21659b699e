#define CCURL_STAND_INS
#include "CCurl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

// The ABI version of the header, unchanged since 2006.
static const char library_name[] = "libcurl.so.4";

// The functions in use, with the types of the header.
#define FUNCTIONS(USE) \
    USE(curl_global_init) USE(curl_easy_init) USE(curl_easy_cleanup) USE(curl_easy_reset) USE(curl_easy_setopt) \
    USE(curl_easy_strerror) USE(curl_easy_getinfo) USE(curl_easy_send) USE(curl_easy_recv) USE(curl_easy_pause) \
    USE(curl_multi_init) USE(curl_multi_cleanup) USE(curl_multi_add_handle) USE(curl_multi_remove_handle) \
    USE(curl_multi_perform) USE(curl_multi_poll) USE(curl_multi_wakeup) \
    USE(curl_multi_info_read) USE(curl_multi_setopt) USE(curl_multi_strerror) USE(curl_slist_append) USE(curl_slist_free_all)

#define MEMBER(name) __typeof__(name) *name;
static struct { FUNCTIONS(MEMBER) } loaded;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int is_loaded = 0;
static char load_error[256];

static void load(void) {
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *reason = dlerror();
        snprintf(load_error, sizeof load_error, "%s", reason ? reason : "it cannot be opened");
        return;
    }
#define FIND(name) \
    loaded.name = (__typeof__(name) *)dlsym(library, #name); \
    if (!loaded.name) { \
        snprintf(load_error, sizeof load_error, "it has no function " #name); \
        return; \
    }
    FUNCTIONS(FIND)
    is_loaded = 1;
}

int ccurl_load(void) {
    pthread_once(&once, load);
    return is_loaded ? 0 : -1;
}

const char *ccurl_load_error(void) { return ccurl_load() == 0 ? NULL : load_error; }

CURLcode ccurl_global_init(long flags) {
    return ccurl_load() == 0 ? loaded.curl_global_init(flags) : CURLE_FAILED_INIT;
}
CURL *ccurl_easy_init(void) { return loaded.curl_easy_init(); }
void ccurl_easy_cleanup(CURL *handle) { loaded.curl_easy_cleanup(handle); }
void ccurl_easy_reset(CURL *handle) { loaded.curl_easy_reset(handle); }
const char *ccurl_easy_strerror(CURLcode code) { return loaded.curl_easy_strerror(code); }
CURLcode ccurl_easy_send(CURL *handle, const void *bytes, size_t count, size_t *sent) {
    return loaded.curl_easy_send(handle, bytes, count, sent);
}
CURLcode ccurl_easy_recv(CURL *handle, void *bytes, size_t count, size_t *received) {
    return loaded.curl_easy_recv(handle, bytes, count, received);
}
CURLcode ccurl_easy_pause(CURL *handle, int mask) { return loaded.curl_easy_pause(handle, mask); }
CURLM *ccurl_multi_init(void) { return loaded.curl_multi_init(); }
CURLMcode ccurl_multi_cleanup(CURLM *multi) { return loaded.curl_multi_cleanup(multi); }
CURLMcode ccurl_multi_add_handle(CURLM *multi, CURL *handle) { return loaded.curl_multi_add_handle(multi, handle); }
CURLMcode ccurl_multi_remove_handle(CURLM *multi, CURL *handle) {
    return loaded.curl_multi_remove_handle(multi, handle);
}
CURLMcode ccurl_multi_perform(CURLM *multi, int *running) { return loaded.curl_multi_perform(multi, running); }
CURLMcode ccurl_multi_poll(CURLM *multi, struct curl_waitfd *extra, unsigned int count, int milliseconds, int *ready) {
    return loaded.curl_multi_poll(multi, extra, count, milliseconds, ready);
}
CURLMcode ccurl_multi_wakeup(CURLM *multi) { return loaded.curl_multi_wakeup(multi); }
CURLMsg *ccurl_multi_info_read(CURLM *multi, int *left) { return loaded.curl_multi_info_read(multi, left); }
const char *ccurl_multi_strerror(CURLMcode code) { return loaded.curl_multi_strerror(code); }
struct curl_slist *ccurl_slist_append(struct curl_slist *list, const char *text) {
    return loaded.curl_slist_append(list, text);
}
void ccurl_slist_free_all(struct curl_slist *list) { loaded.curl_slist_free_all(list); }

CURLMcode ccurl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return loaded.curl_multi_setopt(multi, option, value);
}
CURLcode ccurl_set_long(CURL *handle, CURLoption option, long value) {
    return loaded.curl_easy_setopt(handle, option, value);
}
CURLcode ccurl_set_offset(CURL *handle, CURLoption option, int64_t value) {
    return loaded.curl_easy_setopt(handle, option, (curl_off_t)value);
}
CURLcode ccurl_set_text(CURL *handle, CURLoption option, const char *value) {
    return loaded.curl_easy_setopt(handle, option, value);
}
CURLcode ccurl_set_pointer(CURL *handle, CURLoption option, void *value) {
    return loaded.curl_easy_setopt(handle, option, value);
}
CURLcode ccurl_set_header_list(CURL *handle, struct curl_slist *list) {
    return loaded.curl_easy_setopt(handle, CURLOPT_HTTPHEADER, list);
}
CURLcode ccurl_set_bytes_callback(CURL *handle, CURLoption option, ccurl_bytes_callback callback) {
    return loaded.curl_easy_setopt(handle, option, callback);
}
CURLcode ccurl_set_prereq_callback(CURL *handle, curl_prereq_callback callback) {
    return loaded.curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, callback);
}
CURLcode ccurl_active_socket(CURL *handle, curl_socket_t *socket) {
    return loaded.curl_easy_getinfo(handle, CURLINFO_ACTIVESOCKET, socket);
}
CURLcode ccurl_get_progress(CURL *handle, ccurl_progress *progress) {
    curl_off_t name = 0, connection = 0, tls = 0;
    long tunnel = 0;
    CURLcode code = loaded.curl_easy_getinfo(handle, CURLINFO_NAMELOOKUP_TIME_T, &name);
    if (code == CURLE_OK) code = loaded.curl_easy_getinfo(handle, CURLINFO_CONNECT_TIME_T, &connection);
    if (code == CURLE_OK) code = loaded.curl_easy_getinfo(handle, CURLINFO_APPCONNECT_TIME_T, &tls);
    if (code == CURLE_OK) code = loaded.curl_easy_getinfo(handle, CURLINFO_HTTP_CONNECTCODE, &tunnel);
    *progress = (ccurl_progress){name, connection, tls, tunnel};
    return code;
}
CURLcode ccurl_system_error(CURL *handle, long *code) {
    return loaded.curl_easy_getinfo(handle, CURLINFO_OS_ERRNO, code);
}
