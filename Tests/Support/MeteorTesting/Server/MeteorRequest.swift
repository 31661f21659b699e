/// One request that a `MeteorServer` was sent.
package struct MeteorRequest: Sendable {
    /// The method.
    package let method: String
    /// The path as it was sent, percent-encoded and with every prefix.
    package let path: String
    /// What stands behind the question mark; empty without one.
    package let query: String
    /// The header lines in order.
    package let headers: [(name: String, value: String)]
    /// How many requests came before it since the server started.
    package let number: Int
    /// The version that was served when it came.
    package let version: String

    /// Path and query, as they were sent.
    package var target: String { query.isEmpty ? path : "\(path)?\(query)" }

    /// The first value of a header, in any case.
    package subscript(_ name: String) -> String? {
        headers.first { $0.name.lowercased() == name.lowercased() }?.value
    }
}

extension Array where Element == MeteorRequest {
    /// How often each path and query was asked for, by GET or otherwise.
    package var multiset: [String: Int] {
        var counts: [String: Int] = [:]
        for request in self { counts[request.target, default: 0] += 1 }
        return counts
    }

    /// The same by path alone, as the Cordova suite compares them.
    package var pathMultiset: [String: Int] {
        var counts: [String: Int] = [:]
        for request in self { counts[request.path, default: 0] += 1 }
        return counts
    }
}
