/// The members of a JSON object in their order, each name once; names are told apart by their UTF-8 bytes.
package struct JSONObject: Sendable {
    /// One name with its value.
    package struct Member: Sendable, Equatable {
        /// The name, unescaped.
        package let name: String
        /// The value under that name.
        package let value: JSONValue

        /// Equal when the bytes of the names and the values are.
        package static func == (left: Member, right: Member) -> Bool {
            JSONName.areSame(left.name, right.name) && left.value == right.value
        }
    }

    /// The members in order.
    package private(set) var members: [Member] = []

    /// Where each name stands; kept only for objects too large to search one by one.
    private var positions: [JSONName: Int] = [:]
    private static let searchedOneByOne = 16

    /// Makes an object without members.
    package init() {}

    /// The value under `name`. Setting replaces in place or appends; setting nil removes.
    package subscript(name: String) -> JSONValue? {
        get { position(of: name).map { members[$0].value } }
        set {
            switch (position(of: name), newValue) {
            case (let index?, let value?): members[index] = Member(name: name, value: value)
            case (let index?, nil): remove(at: index)
            case (nil, let value?): append(name, value)
            case (nil, nil): break
            }
        }
    }

    /// Appends a member unless the name is taken; tells whether it did.
    mutating func insert(_ name: String, _ value: JSONValue) -> Bool {
        guard position(of: name) == nil else { return false }
        append(name, value)
        return true
    }

    private mutating func append(_ name: String, _ value: JSONValue) {
        members.append(Member(name: name, value: value))
        if members.count > Self.searchedOneByOne + 1 {
            positions[JSONName(text: name)] = members.count - 1
        } else if members.count == Self.searchedOneByOne + 1 {
            indexAll()
        }
    }

    private mutating func remove(at index: Int) {
        members.remove(at: index)
        positions = [:]
        if members.count > Self.searchedOneByOne { indexAll() }
    }

    private mutating func indexAll() {
        for (index, member) in members.enumerated() { positions[JSONName(text: member.name)] = index }
    }

    private func position(of name: String) -> Int? {
        if members.count > Self.searchedOneByOne { return positions[JSONName(text: name)] }
        return members.firstIndex { JSONName.areSame($0.name, name) }
    }
}

extension JSONObject: Equatable, ExpressibleByDictionaryLiteral {
    /// Equal when the members are, in the same order.
    package static func == (left: JSONObject, right: JSONObject) -> Bool { left.members == right.members }

    /// Makes an object from a literal; a name written twice keeps its first place and its last value.
    package init(dictionaryLiteral elements: (String, JSONValue)...) {
        for (name, value) in elements { self[name] = value }
    }
}

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
