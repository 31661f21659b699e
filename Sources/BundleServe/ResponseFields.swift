import NIOCore

/// The starts of responses: the status line and the fields that every response has.
struct ResponseFields: Sendable {
    private let common: [UInt8]
    /// What most responses start with; shared, never written to.
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
        ok = Self.start(Status.ok.rawValue, common, closes: false)
    }

    /// Those of a server whose files are for programs: no browser shows anything of it.
    init() {
        common = Array(
            """
            X-Content-Type-Options: nosniff\r
            Content-Security-Policy: default-src 'none'; sandbox\r\n
            """.utf8)
        ok = Self.start(Status.ok.rawValue, common, closes: false)
    }

    /// The status line and the common fields, without the empty line. The status may be one that only the host knows.
    func start(_ status: Int, closes: Bool) -> ByteBuffer {
        if status == Status.ok.rawValue && !closes { return ok }
        return Self.start(status, common, closes: closes)
    }

    private static func start(_ status: Int, _ common: [UInt8], closes: Bool) -> ByteBuffer {
        let reason = Status(rawValue: status).map { "\($0.reason)" } ?? ""
        var head = ByteBuffer(string: "HTTP/1.1 \(status) \(reason)\r\n")
        head.writeBytes(common)
        if closes { head.writeStaticString("Connection: close\r\n") }
        return head
    }
}
