package import BundleTesting

/// A fault in a response of `MeteorServer`.
package enum Fault: Sendable {
    /// No fault, for a valid response between two faults.
    case none
    /// This status with a short body and an optional Retry-After.
    case status(Int, retryAfter: String? = nil)
    /// Closes the connection without a response.
    case hangUp
    /// Stops after this many bytes of the body and keeps the connection open.
    case stall(after: Int)
    /// Closes the connection after this many bytes of the body.
    case cut(after: Int)
    /// Inverts one bit of the byte at this offset.
    case corrupt(at: Int)
    /// Status 200 with the HTML of a captive portal.
    case captivePortal
    /// These bytes instead of the content, with the correct entity tag.
    case content([UInt8])
    /// This entity tag, or none for nil.
    case entityTag(String?)
    /// The correct entity tag as a weak one.
    case weakTag
    /// The correct entity tag with `-gzip`, as from some proxies.
    case gzipTag
    /// The correct entity tag in upper case.
    case upperCaseTag
    /// Header names changed by the closure, such as `lowerCaseNames`.
    case headerNames(@Sendable (String) -> String)
    /// Delays the response by this many milliseconds.
    case delay(milliseconds: Int32)
    /// Sends the response when the gate opens.
    case hold(Gate)
    /// Stops after this many bytes of the body and continues when the gate opens.
    case holdBody(after: Int, Gate)
    case redirect(to: String, status: Int = 302)
    /// A chunked body without a length.
    case chunked
    /// This Content-Length, correct or not. The connection ends with the body.
    case contentLength(String)
    /// Another change of the response.
    case change(@Sendable (inout Route) -> Void)
    /// All of these faults in order.
    case all([Fault])

    /// Header names in lower case, as in HTTP/2.
    package static let lowerCaseNames = Fault.headerNames { $0.lowercased() }
    /// An invalid JSON document.
    package static let garbage = Fault.content(Array("{\"version\": \"version2\", \"manif".utf8))
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

/// The faults of one path. The first one with requests left applies.
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
