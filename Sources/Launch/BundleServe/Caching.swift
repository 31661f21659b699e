/// Values of `Cache-Control`, and the rules that choose one for a file.
enum Caching {
    /// Kept by nobody.
    static let never = "no-store"
    /// Kept, and asked about at each use.
    static let revalidated = "no-cache"
    /// Kept for a year under this URL. A reload asks again: nothing here proves that the URL names the content.
    static let lasting = "public, max-age=31536000"
    /// The same without asking, for the names that builders make of the content.
    static let immutable = "public, max-age=31536000, immutable"
    /// The same for what not everybody may have: no cache between may keep it.
    static let privateImmutable = "private, max-age=31536000, immutable"
    /// Kept, and asked about at each use, by who may have it.
    static let privateRevalidated = "private, no-cache"

    /// Whether a name holds a run of 16 or more hex digits, both letters and digits: what builders put into the names of files
    /// whose content never changes. Numbers alone, such as dates, are not taken for one.
    static func carriesHash(_ name: ArraySlice<UInt8>) -> Bool {
        var run = (length: 0, hasDigit: false, hasLetter: false)
        for byte in name {
            guard HTTPBytes.hexValue(byte) != nil else {
                run = (0, false, false)
                continue
            }
            run.length += 1
            if HTTPBytes.isDigit(byte) { run.hasDigit = true } else { run.hasLetter = true }
            if run.length >= 16 && run.hasDigit && run.hasLetter { return true }
        }
        return false
    }

    /// Whether a path holds 40 lower-case hex digits in a row, as the paths of Meteor's merged files and source maps do.
    static func carriesLabel(_ path: [UInt8]) -> Bool {
        var length = 0
        for byte in path {
            let isHex = HTTPBytes.isDigit(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
            length = isHex ? length + 1 : 0
            if length == 40 { return true }
        }
        return false
    }
}
