/// The path of a request target, decoded once, on bytes. It can name a file below a folder and nothing else.
struct RequestPath: Equatable {
    /// The path without its first slash; no component is empty but the last.
    let bytes: [UInt8]

    /// Takes the part of a target up to its query. Nil for bad escapes, for escaped slashes, backslashes and control bytes, for
    /// what is not UTF-8, and for components that are empty, `.` or `..`, written plainly or escaped.
    init?(decoding target: UnsafeRawBufferPointer) {
        guard let first = target.first, first == HTTPBytes.slash else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(target.count)
        var component = 0
        var isASCII = true
        var index = 1
        while index < target.count {
            var byte = target[index]
            index += 1
            if byte == HTTPBytes.slash {
                if !Self.isName(bytes, from: component) { return nil }
                bytes.append(byte)
                component = bytes.count
                continue
            }
            if byte == UInt8(ascii: "%") {
                guard index + 1 < target.count, let high = HTTPBytes.hexValue(target[index]),
                    let low = HTTPBytes.hexValue(target[index + 1])
                else { return nil }
                byte = high << 4 | low
                index += 2
                if byte == HTTPBytes.slash { return nil }
            }
            if byte < 0x20 || byte == 0x7F || byte == UInt8(ascii: "\\") { return nil }
            isASCII = isASCII && byte < 0x80
            bytes.append(byte)
        }
        if component < bytes.count && !Self.isName(bytes, from: component) { return nil }
        if !isASCII && String(validating: bytes, as: UTF8.self) == nil { return nil }
        self.bytes = bytes
    }

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    private static func isName(_ bytes: [UInt8], from start: Int) -> Bool {
        switch bytes.count - start {
        case 0: false
        case 1: bytes[start] != UInt8(ascii: ".")
        case 2: bytes[start] != UInt8(ascii: ".") || bytes[start + 1] != UInt8(ascii: ".")
        default: true
        }
    }

    /// Whether the path is below `/__`, where nothing is an address inside an application.
    var isSpecial: Bool { bytes.starts(with: "__".utf8) }

    /// Whether it is special and not below `/__cordova/`, where the assets of a Meteor client have a second name.
    var isReserved: Bool { isSpecial && !bytes.starts(with: "__cordova/".utf8) }

    /// Whether it ends with a slash, or is the root.
    var isFolder: Bool { bytes.last.map { $0 == HTTPBytes.slash } ?? true }

    /// Whether it is the index page itself.
    var isIndex: Bool { bytes.isEmpty || bytes.elementsEqual("index.html".utf8) }

    /// Whether it is one that Cordova's server never answers with a page: browsers ask for the icon by themselves, and files of the
    /// device are none of a client's.
    var isNeverPage: Bool { bytes.elementsEqual("favicon.ico".utf8) || bytes.starts(with: "local-filesystem".utf8) }

    /// What follows the last slash.
    var lastComponent: ArraySlice<UInt8> {
        bytes[(bytes.lastIndex(of: HTTPBytes.slash).map { $0 + 1 } ?? 0)...]
    }

    /// Whether the last component has a dot in it, as the names of files do and the addresses inside an application do not.
    var hasExtension: Bool { lastComponent.contains(UInt8(ascii: ".")) }
}
