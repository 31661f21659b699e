/// A request to a `MeteorServer`.
package struct MeteorRequest: Sendable {
    package let method: String
    /// The path as sent, percent-encoded and with all prefixes.
    package let path: String
    /// The query without its question mark; empty if there is none.
    package let query: String
    /// The header lines in order.
    package let headers: [(name: String, value: String)]
    /// The number of earlier requests since the start of the server.
    package let number: Int
    /// The version that was served at the time of the request.
    package let version: String

    /// The path and query as sent.
    package var target: String { query.isEmpty ? path : "\(path)?\(query)" }

    /// The first value of a header in any case.
    package subscript(_ name: String) -> String? {
        headers.first { $0.name.lowercased() == name.lowercased() }?.value
    }
}

extension Array where Element == MeteorRequest {
    /// The number of requests by path and query.
    package var multiset: [String: Int] {
        var counts: [String: Int] = [:]
        for request in self { counts[request.target, default: 0] += 1 }
        return counts
    }

    /// The number of requests by path, as the Cordova suite compares them.
    package var pathMultiset: [String: Int] {
        var counts: [String: Int] = [:]
        for request in self { counts[request.path, default: 0] += 1 }
        return counts
    }
}
