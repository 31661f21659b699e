/// Creates frames of RFC 6455, valid or invalid.
enum Frames {
    static let continuation: UInt8 = 0
    static let text: UInt8 = 1
    static let binary: UInt8 = 2
    static let close: UInt8 = 8
    static let ping: UInt8 = 9
    static let pong: UInt8 = 10

    /// Returns a frame of a client.
    static func client(
        _ opcode: UInt8, _ content: [UInt8] = [], fin: Bool = true, reserved: UInt8 = 0, isMasked: Bool = true
    ) -> [UInt8] {
        let mask: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]
        let start = head(opcode, content.count, fin: fin, reserved: reserved, isMasked: isMasked)
        if !isMasked { return start + content }
        return start + mask + content.enumerated().map { $1 ^ mask[$0 % 4] }
    }

    /// Returns a frame of a client with a mask of zeros. In a debug build, masking would take most of the time of a test
    /// with many frames.
    static func unchanged(_ opcode: UInt8, _ content: [UInt8]) -> [UInt8] {
        head(opcode, content.count, isMasked: true) + [0, 0, 0, 0] + content
    }

    /// Returns a frame of a server.
    static func server(_ opcode: UInt8, _ content: [UInt8] = [], fin: Bool = true) -> [UInt8] {
        client(opcode, content, fin: fin, isMasked: false)
    }

    static func head(_ opcode: UInt8, _ count: Int, fin: Bool = true, reserved: UInt8 = 0, isMasked: Bool) -> [UInt8] {
        let first = (fin ? 0x80 : 0) | reserved << 4 | opcode
        let flag: UInt8 = isMasked ? 0x80 : 0
        switch count {
        case 0..<126: return [first, flag | UInt8(count)]
        case 126..<65536: return [first, flag | 126, UInt8(count >> 8), UInt8(count & 0xFF)]
        default:
            return [first, flag | 127]
                + (0..<8).map { UInt8(truncatingIfNeeded: UInt64(count) >> (56 - 8 * UInt64($0))) }
        }
    }

    /// Returns the content of a close frame.
    static func code(_ code: UInt16, _ reason: String = "") -> [UInt8] {
        [UInt8(code >> 8), UInt8(code & 0xFF)] + Array(reason.utf8)
    }
}
