import COpenSSL

/// A call into OpenSSL that failed, with everything that OpenSSL said about it.
///
/// Making one empties the calling thread's error queue, so no later call can be blamed for it.
package struct OpenSSLFailure: Error, Hashable, CustomStringConvertible {
    /// What was being done, as words that follow "OpenSSL failed".
    package let operation: String
    /// OpenSSL's own reasons, the first cause first; empty if it gave none.
    package let reasons: [String]
    /// The library and reason numbers behind `reasons`, for callers that tell causes apart.
    let codes: [ErrorCode]

    struct ErrorCode: Hashable {
        let library: Int32
        let reason: Int32
    }

    init(draining operation: String) {
        var reasons: [String] = []
        var codes: [ErrorCode] = []
        while let entry = Self.nextEntry() {
            reasons.append(entry.text)
            codes.append(entry.code)
        }
        self.operation = operation
        self.reasons = reasons
        self.codes = codes
    }

    /// One sentence: what failed and every reason that was given.
    package var description: String {
        reasons.isEmpty
            ? "OpenSSL failed \(operation) and gave no reason"
            : "OpenSSL failed \(operation): \(reasons.joined(separator: "; "))"
    }

    private static func nextEntry() -> (text: String, code: ErrorCode)? {
        var data: UnsafePointer<CChar>?
        var flags: Int32 = 0
        let code = ERR_get_error_all(nil, nil, nil, &data, &flags)
        guard code != 0 else { return nil }
        let library = ERR_GET_LIB(code)
        let reason = ERR_GET_REASON(code)
        var text = ERR_reason_error_string(code).map { String(cString: $0) } ?? "reason \(reason) of library \(library)"
        if let data, flags & ERR_TXT_STRING != 0, data.pointee != 0 {
            text += " (\(String(cString: data)))"
        }
        return (text, ErrorCode(library: library, reason: reason))
    }
}
