package import BundleSigning

/// Whether the version of a manifest proves its list (METEOR section 1.6).
package enum ManifestIdentity: Sendable, Equatable {
    /// The version is the digest of the public settings and the entries, so each change of them changes the version.
    case computed
    /// The server's operator chose the version, or the list was changed. The two cannot be distinguished.
    case stated

    /// Returns the version that Meteor computes, in 40 hexadecimal digits.
    ///
    /// `publicSettings` is the compact JSON of that member, if there is one. `pathsAndHashes` has the path and hash of
    /// each entry for `client` or `internal`, in order.
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

    /// Returns a JSON text without white space between its tokens.
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
