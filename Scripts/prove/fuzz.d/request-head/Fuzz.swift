// fuzz: max_len=4096
// fuzz: needs=BundleFleet
//
// Parses request heads, compares the result with an independent reader of lines, and passes target and fields to the servers.
@testable import BundleFleet
@testable import BundleServe
@testable import BundleValues

func fuzz(_ input: [UInt8]) throws {
    let whole = read(input, inStepsOf: max(input.count, 1))
    for step in [1, 7] {
        require(read(input, inStepsOf: step).summary == whole.summary, "the result does not depend on the chunks")
    }
    if case .complete(let head) = whole { check(head, Array(input.prefix(head.length))) }
}

private func read(_ bytes: [UInt8], inStepsOf size: Int) -> RequestHeadParser.ParsedStep {
    var parser = RequestHeadParser()
    for start in stride(from: 0, to: bytes.count, by: size) {
        let step = bytes.prefix(start + size).withUnsafeBytes { parser.read($0) }
        if case .incomplete = step { continue }
        return step
    }
    return .incomplete
}

extension RequestHeadParser.ParsedStep {
    fileprivate var summary: String {
        switch self {
        case .incomplete: "incomplete"
        case .refused(let status): "\(status)"
        case .complete(let head): "complete after \(head.length)"
        }
    }
}

/// Reads the head line by line, and compares it with the parsed head.
private func check(_ head: RequestHead, _ bytes: [UInt8]) {
    require(bytes.count == head.length && head.length <= RequestHeadParser.maximumBytes, "the head is complete")
    require(bytes.suffix(4) == [13, 10, 13, 10], "a head ends with an empty line")
    let lines = bytes.dropLast(4).lines.map { $0.last == 13 ? $0.dropLast() : $0[...] }
    require(lines.allSatisfy { !$0.isEmpty && !$0.contains(13) && !$0.contains(0) }, "lines do not contain line breaks")
    require(lines.allSatisfy { $0.count <= RequestHeadParser.maximumLine }, "the length of lines is limited")
    let words = require(lines.first, "the first line is a request line").split(
        separator: 32, omittingEmptySubsequences: false)
    require(words.count == 3 && words.allSatisfy { !$0.isEmpty }, "a request line has three words")
    require(words[1].elementsEqual(bytes[head.target]), "the target is the second word")
    require(words[2].elementsEqual("HTTP/1.\(head.isOldVersion ? 0 : 1)".utf8), "the version is the third word")
    let fields = lines.dropFirst().map { line in
        let colon = require(line.firstIndex(of: UInt8(ascii: ":")), "a field has a colon")
        return (name: String(decoding: line[..<colon], as: UTF8.self).lowercased(), value: line[(colon + 1)...])
    }
    require(fields.count <= RequestHeadParser.maximumFields, "the number of fields is limited")
    require(fields.allSatisfy { !$0.name.isEmpty && $0.name != "transfer-encoding" }, "a body has a length")
    let lengths = fields.filter { $0.name == "content-length" }
    require(lengths.count == (head.bodyLength == nil ? 0 : 1), "there is at most one length")
    if let length = lengths.first.flatMap({ Int(blankless($0.value)) }) {
        require(head.bodyLength == length, "the length is that of the field")
    }
    require(head.repeatsHost == (fields.filter { $0.name == "host" }.count > 1), "a repeated host is detected")
    if let host = fields.first(where: { $0.name == "host" }) {
        let place = require(head[.host], "a host is found")
        require(blankless(host.value) == String(decoding: bytes[place], as: UTF8.self), "the host is the first one")
    }
    look(at: head, bytes)
}

/// Returns the trimmed text if it is UTF-8.
private func blankless(_ value: ArraySlice<UInt8>) -> String {
    let isBlank = { (byte: UInt8) in byte == 32 || byte == 9 }
    let start = value.drop(while: isBlank)
    let end = start.lastIndex { !isBlank($0) }.map { start[...$0] } ?? []
    return String(decoding: end, as: UTF8.self)
}

/// Checks that the servers do not trap, and that no path leads above its folder.
private func look(at head: RequestHead, _ bytes: [UInt8]) {
    for field in RequestHead.Field.allCases {
        guard let place = head[field] else { continue }
        Array(bytes[place]).withUnsafeBytes { value in
            _ = EntityTag.isNamed(Array("\"a\"".utf8), in: value)
            if case .part(let part) = ByteRange(parsing: value, size: 1000) {
                require(
                    part.lowerBound >= 0 && part.upperBound <= 1000 && !part.isEmpty, "a range is a part of the file")
            }
        }
    }
    guard let path = Array(bytes[head.target]).withUnsafeBytes({ RequestPath(decoding: $0) }) else { return }
    let names = path.bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).dropLast()
    require(names.allSatisfy { !$0.isEmpty && $0 != [46] && $0 != [46, 46] }, "no component is empty or dots")
    require(!path.bytes.contains(0) && !path.bytes.contains(92), "no byte is a separator of another system")
    _ = Route(head.method, path)
    for bits in 0..<8 {
        let services = FeedRoute.Services(
            reports: bits & 1 != 0, roster: bits & 2 != 0, reader: bits & 4 != 0)
        _ = FeedRoute(head.method, path, services)
    }
}
