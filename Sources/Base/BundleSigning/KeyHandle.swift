import COpenSSL

/// Owns one `EVP_PKEY`.
struct KeyHandle: ~Copyable {
    let pointer: OpaquePointer

    init(owning pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit {
        EVP_PKEY_free(pointer)
    }

    /// Reads a SubjectPublicKeyInfo (RFC 5280) that fills `der` to its last byte.
    init(parsingPublic der: [UInt8]) throws(KeyError) {
        let library = try KeyError.wrapping { () throws(OpenSSLFailure) in try LibraryContext.current() }
        self = try Self.parsed(der, as: "a public key") { cursor, length in
            d2i_PUBKEY_ex(nil, &cursor, length, library.pointer, nil)
        }
    }

    /// The key's SubjectPublicKeyInfo in DER.
    func publicDER() throws(OpenSSLFailure) -> [UInt8] {
        try derBytes(of: "a public key") { i2d_PUBKEY(pointer, $0) }
    }

    /// Runs a `d2i` function and insists that it consumed every byte.
    static func parsed(
        _ der: [UInt8], as kind: String,
        with decode: (inout UnsafePointer<UInt8>?, Int) -> OpaquePointer?
    ) throws(KeyError) -> KeyHandle {
        var consumed = 0
        let pointer = der.withUnsafeBufferPointer { buffer -> OpaquePointer? in
            var cursor = buffer.baseAddress
            let pointer = decode(&cursor, buffer.count)
            if let start = buffer.baseAddress, let cursor { consumed = cursor - start }
            return pointer
        }
        guard let pointer else { throw .malformedDER(OpenSSLFailure(draining: "reading \(kind)")) }
        let key = KeyHandle(owning: pointer)
        guard consumed == der.count else { throw .trailingBytes(count: der.count - consumed) }
        return key
    }
}

/// Runs an `i2d` function: once for the length, once for the bytes.
func derBytes(
    of kind: String, _ encode: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32
) throws(OpenSSLFailure) -> [UInt8] {
    let length = encode(nil)
    guard length > 0 else { throw OpenSSLFailure(draining: "writing \(kind)") }
    let bytes = [UInt8](unsafeUninitializedCapacity: Int(length)) { buffer, count in
        var cursor = buffer.baseAddress
        count = encode(&cursor) == length ? Int(length) : 0
    }
    guard !bytes.isEmpty else { throw OpenSSLFailure(draining: "writing \(kind)") }
    return bytes
}

extension KeyError {
    /// Runs `body`, and turns a failure of OpenSSL into a `KeyError`.
    static func wrapping<Value: ~Copyable>(
        _ body: () throws(OpenSSLFailure) -> Value
    ) throws(KeyError) -> Value {
        do {
            return try body()
        } catch {
            throw .openSSL(error)
        }
    }
}
