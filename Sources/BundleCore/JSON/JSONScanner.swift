/// The door for JSON from outside that is ours: one document of RFC 8259, read more strictly than the RFC demands.
///
/// Readers that disagree about duplicate members, number forms or encodings let one document mean two things; so all
/// of these are refused, also inside members that nobody asks for.
public enum JSONScanner {
    /// The deepest nesting that any caller may allow; it bounds the stack.
    public static let deepestNesting = 128

    /// The deepest nesting that documents from outside may have.
    public static let defaultDepth = 16

    /// Reads exactly one value with nothing but white space around it.
    ///
    /// Refuses more than `maximumBytes` bytes, more than `maximumDepth` (at most `deepestNesting`) arrays and objects
    /// inside one another, anything but plain UTF-8 without a byte order mark, duplicate members, and numbers that
    /// are not plain integers within ±(2^53-1).
    public static func parse(
        _ bytes: [UInt8], maximumBytes: Int, maximumDepth: Int = JSONScanner.defaultDepth
    ) throws(JSONError) -> JSONValue {
        var reader = try JSONReader(bytes, maximumBytes: maximumBytes, maximumDepth: maximumDepth)
        return try reader.readDocument()
    }
}
