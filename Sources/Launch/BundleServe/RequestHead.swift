/// The request line and the fields that the server looks at, as places in the bytes they came in (RFC 9112).
struct RequestHead: Sendable {
    enum Method: Sendable { case get, head, post, options, other }

    /// The fields that have a meaning here; all others are only checked for their form.
    enum Field: Int, Sendable, CaseIterable {
        case host, origin, cookie, range, ifRange, ifNoneMatch, contentType, contentLength, expect, token
        case fetchSite, fetchMode, fetchDestination, fetchPurpose, privateNetwork, authorization
    }

    var method = Method.other
    var target = 0..<0
    /// HTTP/1.0, whose connections end with the answer.
    var isOldVersion = false
    /// The length of the whole head, with its empty line.
    var length = 0
    /// `Host` came more than once.
    var repeatsHost = false
    var wantsClose = false
    var acceptsHTML = false
    /// The value of `Content-Length`; nil without one.
    var bodyLength: Int?

    private var places = InlineArray<16, Range<UInt32>>(repeating: absent)
    // An empty value has a place too, but never this one: offset 0 is the method.
    private static var absent: Range<UInt32> { 0..<0 }

    /// Where the value of a field stands; nil when it did not come.
    subscript(field: Field) -> Range<Int>? {
        let place = places[field.rawValue]
        return place == Self.absent ? nil : Int(place.lowerBound)..<Int(place.upperBound)
    }

    /// Notes a field; false when it is one that may come only once and came before.
    mutating func note(_ field: Field, at place: Range<Int>) -> Bool {
        if places[field.rawValue] == Self.absent {
            places[field.rawValue] =
                UInt32(
                    truncatingIfNeeded: place.lowerBound)..<UInt32(
                    truncatingIfNeeded: place.upperBound)
            return true
        }
        switch field {
        case .host:
            repeatsHost = true
            return true
        // Lists: the first line alone is a shorter list, which costs at most a transfer.
        case .ifNoneMatch, .cookie: return true
        default: return false
        }
    }
}
