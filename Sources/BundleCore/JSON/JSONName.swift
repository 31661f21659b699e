/// A member name whose identity is its UTF-8 bytes, for use as a dictionary key.
struct JSONName: Hashable, Sendable {
    let text: String

    /// Byte-wise equality; Swift's own would normalise both sides, which also costs far more than comparing bytes.
    static func areSame(_ left: String, _ right: String) -> Bool {
        left.utf8.count == right.utf8.count && left.utf8.elementsEqual(right.utf8)
    }

    static func == (left: JSONName, right: JSONName) -> Bool { areSame(left.text, right.text) }

    /// Hashes bytes: `String` hashes the normal form, and masses of names that share one could be made to collide.
    func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
