#ifndef CCURL_SHIM_H
#define CCURL_SHIM_H

// The type checks of curl.h work on constant options only; the wrappers below carry the types instead.
#define CURL_DISABLE_TYPECHECK 1
#include <curl/curl.h>

// Swift cannot call variadic functions, so every argument type of curl_easy_setopt gets a function of its own.

static inline CURLcode ccurl_set_long(CURL *handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode ccurl_set_text(CURL *handle, CURLoption option, const char *value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode ccurl_set_pointer(CURL *handle, CURLoption option, void *value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode ccurl_set_header_list(CURL *handle, struct curl_slist *list) {
    return curl_easy_setopt(handle, CURLOPT_HTTPHEADER, list);
}

// Of the write and the header callback, which share this type.
typedef size_t (*ccurl_bytes_callback)(char *bytes, size_t size, size_t count, void *context);

static inline CURLcode ccurl_set_bytes_callback(CURL *handle, CURLoption option, ccurl_bytes_callback callback) {
    return curl_easy_setopt(handle, option, callback);
}

static inline CURLcode ccurl_set_prereq_callback(CURL *handle, curl_prereq_callback callback) {
    return curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, callback);
}

#endif
