package import BundleTesting

/// What a `MeteorServer` does wrong with an answer.
package enum Fault: Sendable {
    /// Nothing: a good answer between two bad ones.
    case none
    /// This status, with a short body; `retryAfter` is the value of Retry-After.
    case status(Int, retryAfter: String? = nil)
    /// The connection ends without a word.
    case hangUp
    /// Nothing more after so many bytes of the body; the connection stays open.
    case stall(after: Int)
    /// The connection ends after so many bytes of the body.
    case cut(after: Int)
    /// One bit of the byte at this offset is another one.
    case corrupt(at: Int)
    /// Status 200 and the HTML of a captive portal.
    case captivePortal
    /// These bytes in place of the content; the entity tag stays.
    case content([UInt8])
    /// This entity tag, as it is; none for nil.
    case entityTag(String?)
    /// The right entity tag as a weak one.
    case weakTag
    /// The right entity tag with `-gzip` in it, as some proxies make it.
    case gzipTag
    /// The right entity tag in upper-case digits.
    case upperCaseTag
    /// All header names changed by the closure; `lowerCaseNames` is the usual one.
    case headerNames(@Sendable (String) -> String)
    /// The answer comes so many milliseconds late.
    case delay(milliseconds: Int32)
    /// The answer comes when the gate opens.
    case hold(Gate)
    /// The body stops after so many bytes and goes on when the gate opens.
    case holdBody(after: Int, Gate)
    /// A redirect to this URL.
    case redirect(to: String, status: Int = 302)
    /// Chunks and no length.
    case chunked
    /// This Content-Length, true or not; the connection ends with the body.
    case contentLength(String)
    /// Any other change of the answer.
    case change(@Sendable (inout Route) -> Void)
    /// All of these, in order.
    case all([Fault])

    /// Header names in lower case, as HTTP/2 has them.
    package static let lowerCaseNames = Fault.headerNames { $0.lowercased() }
    /// A document that is no JSON.
    package static let garbage = Fault.content(Array("{\"version\": \"version2\", \"manif".utf8))
    /// A document of no bytes.
    package static let empty = Fault.content([])

    func apply(to route: inout Route) {
        switch self {
        case .none: break
        case .status(let status, let retryAfter):
            route = Route(Array("status \(status)\n".utf8), status: status)
            if let retryAfter { route.headers.append(("Retry-After", retryAfter)) }
        case .redirect(let url, let status): route = .redirect(to: url, status: status)
        case .captivePortal:
            route = Route(Array("<!DOCTYPE html>\n<html><head><title>Log in</title></head></html>\n".utf8))
            route.headers = [("Content-Type", "text/html; charset=utf-8")]
        case .headerNames(let rename):
            route.headers = route.headers.map { (rename($0.name), $0.value) }
            route.entityTagName = rename(route.entityTagName)
        case .change(let change): change(&route)
        case .all(let faults): for fault in faults { fault.apply(to: &route) }
        case .entityTag, .weakTag, .gzipTag, .upperCaseTag: changeTag(of: &route)
        case .corrupt, .content: changeBody(of: &route)
        default: changeDelivery(of: &route)
        }
    }

    private func changeTag(of route: inout Route) {
        switch self {
        case .entityTag(let tag): route.entityTag = tag
        case .weakTag: route.entityTag = route.entityTag.map { "W/\($0)" }
        case .gzipTag: route.entityTag = route.entityTag.map { "\($0.dropLast())-gzip\"" }
        case .upperCaseTag: route.entityTag = route.entityTag?.uppercased()
        default: break
        }
    }

    private func changeBody(of route: inout Route) {
        guard case .bytes(var bytes) = route.body else { return }
        switch self {
        case .corrupt(let offset): if bytes.indices.contains(offset) { bytes[offset] ^= 1 }
        case .content(let other): bytes = other
        default: break
        }
        route.body = .bytes(bytes)
    }

    private func changeDelivery(of route: inout Route) {
        switch self {
        case .hangUp: route.raw = []
        case .stall(let count): route.pace = .stall(after: count)
        case .cut(let count): route.pace = .cut(after: count)
        case .delay(let milliseconds): route.delayMilliseconds = milliseconds
        case .hold(let gate): route.gate = gate
        case .holdBody(let count, let gate): route.pace = .held(after: count, gate)
        case .chunked: route.framing = .chunked
        case .contentLength(let text): route.framing = .stated(text)
        default: break
        }
    }
}

/// The faults of one path: the first one that has requests left is applied.
struct FaultQueue {
    private var faults: [(fault: Fault, left: Int?)] = []

    mutating func append(_ fault: Fault, times: Int?) { faults.append((fault, times)) }

    mutating func next() -> Fault? {
        while let first = faults.first {
            guard let left = first.left else { return first.fault }
            if left > 1 { faults[0].left = left - 1 } else { faults.removeFirst() }
            if left > 0 { return first.fault }
        }
        return nil
    }
}
