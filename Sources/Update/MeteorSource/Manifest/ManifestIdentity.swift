package import BundleSigning

/// Whether a manifest's version proves what it lists (METEOR section 1.6).
package enum ManifestIdentity: Sendable, Equatable {
    /// The version is the digest of the public settings and the entries: who changes one of them changes the version.
    case computed
    /// The version is a text that the server's operator chose, or the list was changed: there is no telling.
    case stated

    /// The version that Meteor computes, 40 hex digits.
    ///
    /// `publicSettings` is the compact JSON text of that member, nil where there is none; `pathsAndHashes` has, for every
    /// entry for `client` or `internal` in their order, the path and behind it the hash.
    package static func version(
        publicSettings: [UInt8]?, pathsAndHashes: [UInt8]
    ) throws(OpenSSLFailure) -> String {
        var hasher = try LabelHasher(.sha1)
        if let publicSettings {
            try hasher.update(Array("{\"PUBLIC_SETTINGS\":".utf8))
            try hasher.update(publicSettings)
            try hasher.update(Array("}".utf8))
        } else {
            try hasher.update(Array("{}".utf8))
        }
        try hasher.update(pathsAndHashes)
        return LabelHasher.hex(try hasher.finish())
    }

    /// A JSON text without the white space between its tokens.
    static func compact(_ text: ArraySlice<UInt8>) -> [UInt8] {
        var compact: [UInt8] = []
        compact.reserveCapacity(text.count)
        var isInString = false
        var isEscaped = false
        for byte in text {
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
            } else if [0x20, 0x09, 0x0A, 0x0D].contains(byte) {
                continue
            } else if byte == UInt8(ascii: "\"") {
                isInString = true
            }
            compact.append(byte)
        }
        return compact
    }
}
