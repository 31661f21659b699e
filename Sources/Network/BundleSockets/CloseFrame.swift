import BundleTransport
import NIOCore

/// The content of a close frame (RFC 6455, sections 5.5.1 and 7.4).
struct CloseFrame: Equatable {
    static let normal = 1000
    static let protocolError = 1002
    static let notText = 1007
    static let tooLarge = 1009

    let code: Int?
    let reason: String

    /// Returns nil if the content is invalid.
    init?(parsing data: ByteBuffer) {
        var data = data
        if data.readableBytes == 0 {
            (code, reason) = (nil, "")
            return
        }
        guard let number = data.readInteger(as: UInt16.self), Self.mayBeSent(Int(number)),
            let reason = String(validating: data.readableBytesView, as: UTF8.self)
        else { return nil }
        (code, self.reason) = (Int(number), reason)
    }

    private static func mayBeSent(_ code: Int) -> Bool {
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }

    /// The end of the transport; nil for a normal end.
    var end: TransportError? {
        switch code {
        case nil, Self.normal?, 1001?: nil
        case let code?: .closed(code: code, reason: reason)
        }
    }

    /// Returns the content of a close frame with a code.
    static func data(_ code: Int?) -> ByteBuffer {
        code.flatMap { UInt16(exactly: $0) }.map { ByteBuffer(integer: $0) } ?? ByteBuffer()
    }
}
