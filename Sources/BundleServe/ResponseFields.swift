import NIOCore

/// The starts of answers: the status line and the fields that every answer has.
struct ResponseFields: Sendable {
    private let common: [UInt8]
    /// What most answers start with; shared, never written to.
    private let ok: ByteBuffer

    init(permissionsPolicy: String, allowsFraming: Bool) throws(ServerFailure) {
        guard !permissionsPolicy.isEmpty, permissionsPolicy.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7F }) else {
            throw .permissionsPolicy
        }
        common =
            Array(
                """
                X-Content-Type-Options: nosniff\r
                Referrer-Policy: no-referrer\r
                Cross-Origin-Opener-Policy: same-origin\r
                Cross-Origin-Resource-Policy: same-origin\r
                Permissions-Policy: \(permissionsPolicy)\r\n
                """.utf8)
            // What frames may do is then said by the policy alone.
            + (allowsFraming ? [] : Array("X-Frame-Options: DENY\r\n".utf8))
        ok = Self.start(.ok, common, closes: false)
    }

    /// Those of a server whose files are for programs: no browser shows anything of it.
    init() {
        common = Array(
            """
            X-Content-Type-Options: nosniff\r
            Content-Security-Policy: default-src 'none'; sandbox\r\n
            """.utf8)
        ok = Self.start(.ok, common, closes: false)
    }

    /// The status line and the common fields, without the empty line.
    func start(_ status: Status, closes: Bool) -> ByteBuffer {
        if status == .ok && !closes { return ok }
        return Self.start(status, common, closes: closes)
    }

    private static func start(_ status: Status, _ common: [UInt8], closes: Bool) -> ByteBuffer {
        start(number: status.rawValue, reason: "\(status.reason)", common, closes: closes)
    }

    /// The same for a status that only the host knows.
    func start(number: Int, closes: Bool) -> ByteBuffer {
        Self.start(
            number: number, reason: Status(rawValue: number).map { "\($0.reason)" } ?? "", common, closes: closes)
    }

    private static func start(number: Int, reason: String, _ common: [UInt8], closes: Bool) -> ByteBuffer {
        var head = ByteBuffer(string: "HTTP/1.1 \(number) \(reason)\r\n")
        head.writeBytes(common)
        if closes { head.writeStaticString("Connection: close\r\n") }
        return head
    }
}
