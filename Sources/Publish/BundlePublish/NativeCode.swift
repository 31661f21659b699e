/// Recognises programs of operating systems by their first bytes: a client is web content only.
enum NativeCode {
    /// The kind of executable that starts with `bytes`; nil for anything else.
    static func kind(of bytes: UnsafeRawBufferPointer) -> String? {
        guard bytes.count >= 4 else { return nil }
        let magic = bytes.loadUnaligned(as: UInt32.self).bigEndian
        switch magic {
        case 0x7F45_4C46: return "ELF"
        case 0xFEED_FACE, 0xFEED_FACF, 0xCEFA_EDFE, 0xCFFA_EDFE, 0xCAFE_BABE: return "Mach-O"
        default: return isPE(bytes) ? "PE" : nil
        }
    }

    /// "MZ" alone may be text; the header it points to is not (PE format, section "MS-DOS Stub").
    private static func isPE(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count >= 0x40, bytes[0] == UInt8(ascii: "M"), bytes[1] == UInt8(ascii: "Z") else { return false }
        let offset = Int(bytes.loadUnaligned(fromByteOffset: 0x3C, as: UInt32.self).littleEndian)
        guard offset <= bytes.count - 4 else { return false }
        return bytes[offset..<offset + 4].elementsEqual([0x50, 0x45, 0, 0])
    }
}
