#ifndef CCURL_H
#define CCURL_H

// libcurl is loaded at its first use: it loads some thirty libraries, which would cost every `clientctl list` several
// milliseconds. Callers use libcurl's own names. The labels below map each function to a stand-in in CCurl.c that calls the
// loaded library, so that nothing is linked against libcurl.

// The type checks of curl.h work on constant options only; the wrappers below carry the types instead.
#define CURL_DISABLE_TYPECHECK 1
#include <curl/curl.h>
#include <stdint.h>

/// Loads libcurl. Returns 0, or -1 if the system does not have it. Call it before any other function; further calls are cheap.
int ccurl_load(void);

/// Returns the reason why libcurl cannot be loaded; NULL if it is loaded.
const char *ccurl_load_error(void);

#ifndef CCURL_STAND_INS
CURLcode curl_global_init(long flags) __asm__("ccurl_global_init");
CURL *curl_easy_init(void) __asm__("ccurl_easy_init");
void curl_easy_cleanup(CURL *handle) __asm__("ccurl_easy_cleanup");
void curl_easy_reset(CURL *handle) __asm__("ccurl_easy_reset");
const char *curl_easy_strerror(CURLcode code) __asm__("ccurl_easy_strerror");
CURLcode curl_easy_send(CURL *handle, const void *bytes, size_t count, size_t *sent) __asm__("ccurl_easy_send");
CURLcode curl_easy_recv(CURL *handle, void *bytes, size_t count, size_t *received) __asm__("ccurl_easy_recv");
CURLM *curl_multi_init(void) __asm__("ccurl_multi_init");
CURLcode curl_easy_pause(CURL *handle, int mask) __asm__("ccurl_easy_pause");
CURLMcode curl_multi_cleanup(CURLM *multi) __asm__("ccurl_multi_cleanup");
CURLMcode curl_multi_add_handle(CURLM *multi, CURL *handle) __asm__("ccurl_multi_add_handle");
CURLMcode curl_multi_remove_handle(CURLM *multi, CURL *handle) __asm__("ccurl_multi_remove_handle");
CURLMcode curl_multi_perform(CURLM *multi, int *running) __asm__("ccurl_multi_perform");
CURLMcode curl_multi_poll(CURLM *multi, struct curl_waitfd *extra, unsigned int count, int milliseconds, int *ready)
    __asm__("ccurl_multi_poll");
CURLMcode curl_multi_wakeup(CURLM *multi) __asm__("ccurl_multi_wakeup");
CURLMsg *curl_multi_info_read(CURLM *multi, int *left) __asm__("ccurl_multi_info_read");
const char *curl_multi_strerror(CURLMcode code) __asm__("ccurl_multi_strerror");
struct curl_slist *curl_slist_append(struct curl_slist *list, const char *text) __asm__("ccurl_slist_append");
void curl_slist_free_all(struct curl_slist *list) __asm__("ccurl_slist_free_all");
#endif

// Swift cannot call variadic functions, so curl_easy_setopt has one function for each argument type.

// The type of the write, read and header callbacks.
typedef size_t (*ccurl_bytes_callback)(char *bytes, size_t size, size_t count, void *context);

CURLMcode ccurl_multi_set_long(CURLM *multi, CURLMoption option, long value);
CURLcode ccurl_set_long(CURL *handle, CURLoption option, long value);
CURLcode ccurl_set_offset(CURL *handle, CURLoption option, int64_t value);
CURLcode ccurl_set_text(CURL *handle, CURLoption option, const char *value);
CURLcode ccurl_set_pointer(CURL *handle, CURLoption option, void *value);
CURLcode ccurl_set_header_list(CURL *handle, struct curl_slist *list);
CURLcode ccurl_set_bytes_callback(CURL *handle, CURLoption option, ccurl_bytes_callback callback);
CURLcode ccurl_set_prereq_callback(CURL *handle, curl_prereq_callback callback);

// The same for curl_easy_getinfo: the socket of an open connection, and `errno` of the last failed attempt.
CURLcode ccurl_active_socket(CURL *handle, curl_socket_t *socket);
CURLcode ccurl_system_error(CURL *handle, long *code);

// The progress of a transfer: the microseconds until the name was resolved, the connection was open, and TLS was set up, each 0
// before that; and the status of a proxy's response to CONNECT, 0 without a proxy.
typedef struct {
    int64_t name, connection, tls;
    long tunnel;
} ccurl_progress;
CURLcode ccurl_get_progress(CURL *handle, ccurl_progress *progress);

#endif
