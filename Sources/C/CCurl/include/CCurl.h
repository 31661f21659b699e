#ifndef CCURL_H
#define CCURL_H

// libcurl is loaded when it is first used, not with the program: it brings some thirty libraries with it, which would cost
// every `clientctl list` several milliseconds. Callers see libcurl's own functions; the labels below give each of them the
// symbol of a stand-in in CCurl.c, which calls the loaded one, so that nothing is linked against libcurl itself.

// The type checks of curl.h work on constant options only; the wrappers below carry the types instead.
#define CURL_DISABLE_TYPECHECK 1
#include <curl/curl.h>
#include <stdint.h>

/// Loads libcurl; 0, or -1 where the system has none. Called before any other function; more calls cost nothing.
int ccurl_load(void);

#ifndef CCURL_STAND_INS
CURLcode curl_global_init(long flags) __asm__("ccurl_global_init");
CURL *curl_easy_init(void) __asm__("ccurl_easy_init");
void curl_easy_cleanup(CURL *handle) __asm__("ccurl_easy_cleanup");
void curl_easy_reset(CURL *handle) __asm__("ccurl_easy_reset");
const char *curl_easy_strerror(CURLcode code) __asm__("ccurl_easy_strerror");
CURLcode curl_easy_send(CURL *handle, const void *bytes, size_t count, size_t *sent) __asm__("ccurl_easy_send");
CURLcode curl_easy_recv(CURL *handle, void *bytes, size_t count, size_t *received) __asm__("ccurl_easy_recv");
CURLM *curl_multi_init(void) __asm__("ccurl_multi_init");
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

// Swift cannot call variadic functions, so every argument type of curl_easy_setopt gets a function of its own.

// Of the write, the read and the header callback, which share this type.
typedef size_t (*ccurl_bytes_callback)(char *bytes, size_t size, size_t count, void *context);

CURLMcode ccurl_multi_set_long(CURLM *multi, CURLMoption option, long value);
CURLcode ccurl_set_long(CURL *handle, CURLoption option, long value);
CURLcode ccurl_set_offset(CURL *handle, CURLoption option, int64_t value);
CURLcode ccurl_set_text(CURL *handle, CURLoption option, const char *value);
CURLcode ccurl_set_pointer(CURL *handle, CURLoption option, void *value);
CURLcode ccurl_set_header_list(CURL *handle, struct curl_slist *list);
CURLcode ccurl_set_bytes_callback(CURL *handle, CURLoption option, ccurl_bytes_callback callback);
CURLcode ccurl_set_prereq_callback(CURL *handle, curl_prereq_callback callback);

// curl_easy_getinfo likewise: the socket of an open connection, and `errno` of the last attempt that failed.
CURLcode ccurl_active_socket(CURL *handle, curl_socket_t *socket);
CURLcode ccurl_system_error(CURL *handle, long *code);

// How far a transfer came: microseconds until the name had an address, the connection stood, and TLS did, each 0 before that; and
// what a proxy answered to CONNECT, 0 where it was not asked.
typedef struct {
    int64_t name, connection, tls;
    long tunnel;
} ccurl_progress;
CURLcode ccurl_get_progress(CURL *handle, ccurl_progress *progress);

#endif
