#ifndef SWAP_CLIENTS_COPENSSL_SHIM_H
#define SWAP_CLIENTS_COPENSSL_SHIM_H

#include <openssl/asn1.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/pkcs12err.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#if OPENSSL_VERSION_MAJOR < 3
#error "OpenSSL 3.0 or later is needed: install libssl-dev"
#endif

#endif
