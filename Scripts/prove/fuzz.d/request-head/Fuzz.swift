// fuzz: max_len=4096
// fuzz: needs=BundleServe
//
// What a client sends to a server: the head as it is parsed, against a reader of lines that knows nothing of the parser; then what
// the servers make of target and fields.
@testable import BundleServe
@testable import BundleValues

func fuzz(_ input: [UInt8]) throws {
    let whole = read(input, inStepsOf: max(input.count, 1))
    for step in [1, 7] { require(read(input, inStepsOf: step).summary == whole.summary, "however it is cut") }
    if case .complete(let head) = whole { check(head, Array(input.prefix(head.length))) }
}

private func read(_ bytes: [UInt8], inStepsOf size: Int) -> RequestHeadParser.Step {
    var parser = RequestHeadParser()
    for start in stride(from: 0, to: bytes.count, by: size) {
        let step = bytes.prefix(start + size).withUnsafeBytes { parser.read($0) }
        if case .incomplete = step { continue }
        return step
    }
    return .incomplete
}

extension RequestHeadParser.Step {
    fileprivate var summary: String {
        switch self {
        case .incomplete: "incomplete"
        case .refused(let status): "\(status)"
        case .complete(let head): "complete after \(head.length)"
        }
    }
}

/// Reads the head once more, line by line.
private func check(_ head: RequestHead, _ bytes: [UInt8]) {
    require(bytes.count == head.length && head.length <= RequestHeadParser.maximumBytes, "all of it is there")
    require(bytes.suffix(4) == [13, 10, 13, 10], "a head ends with an empty line")
    let lines = bytes.dropLast(4).lines.map { $0.last == 13 ? $0.dropLast() : $0[...] }
    require(lines.allSatisfy { !$0.isEmpty && !$0.contains(13) && !$0.contains(0) }, "lines have no ends in them")
    require(lines.allSatisfy { $0.count <= RequestHeadParser.maximumLine }, "lines have a length")
    let words = require(lines.first, "there is a request line").split(separator: 32, omittingEmptySubsequences: false)
    require(words.count == 3 && words.allSatisfy { !$0.isEmpty }, "a request line has three words")
    require(words[1].elementsEqual(bytes[head.target]), "the target is the one between")
    require(words[2].elementsEqual("HTTP/1.\(head.isOldVersion ? 0 : 1)".utf8), "the version")
    let fields = lines.dropFirst().map { line in
        let colon = require(line.firstIndex(of: UInt8(ascii: ":")), "a field has a colon")
        return (name: String(decoding: line[..<colon], as: UTF8.self).lowercased(), value: line[(colon + 1)...])
    }
    require(fields.count <= RequestHeadParser.maximumFields, "fields have a number")
    require(fields.allSatisfy { !$0.name.isEmpty && $0.name != "transfer-encoding" }, "bodies have lengths")
    let lengths = fields.filter { $0.name == "content-length" }
    require(lengths.count == (head.bodyLength == nil ? 0 : 1), "one length")
    if let length = lengths.first.flatMap({ Int(blankless($0.value)) }) {
        require(head.bodyLength == length, "the length that it says")
    }
    require(head.repeatsHost == (fields.filter { $0.name == "host" }.count > 1), "one host or not")
    if let host = fields.first(where: { $0.name == "host" }) {
        let place = require(head[.host], "a host is found")
        require(blankless(host.value) == String(decoding: bytes[place], as: UTF8.self), "the first host")
    }
    look(at: head, bytes)
}

/// The text without the blanks around it, as far as it is UTF-8.
private func blankless(_ value: ArraySlice<UInt8>) -> String {
    let isBlank = { (byte: UInt8) in byte == 32 || byte == 9 }
    let start = value.drop(while: isBlank)
    let end = start.lastIndex { !isBlank($0) }.map { start[...$0] } ?? []
    return String(decoding: end, as: UTF8.self)
}

/// What the servers look at next never traps, and leads to no file above a folder.
private func look(at head: RequestHead, _ bytes: [UInt8]) {
    for field in RequestHead.Field.allCases {
        guard let place = head[field] else { continue }
        Array(bytes[place]).withUnsafeBytes { value in
            _ = EntityTag.isNamed(Array("\"a\"".utf8), in: value)
            if case .part(let part) = ByteRange(parsing: value, size: 1000) {
                require(part.lowerBound >= 0 && part.upperBound <= 1000 && !part.isEmpty, "a part of the file")
            }
        }
    }
    guard let path = Array(bytes[head.target]).withUnsafeBytes({ RequestPath(decoding: $0) }) else { return }
    let names = path.bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).dropLast()
    require(names.allSatisfy { !$0.isEmpty && $0 != [46] && $0 != [46, 46] }, "no component leads elsewhere")
    require(!path.bytes.contains(0) && !path.bytes.contains(92), "no byte is another separator")
    _ = Route(head.method, path)
    for (hasPush, hasReports) in [(false, false), (false, true), (true, false), (true, true)] {
        _ = FeedRoute(head.method, path, hasPush: hasPush, hasReports: hasReports)
    }
}
