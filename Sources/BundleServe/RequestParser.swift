import Glibc
import NIOCore
import NIOHTTP1

/// Reads request heads with NIO's parser (llhttp, strict), one at a time, and refuses everything that two readers could read in
/// two ways.
///
/// Where a head ends is found before it is parsed, and the parser gets that and no more: sizes are limited first, nothing is
/// parsed before its turn, and a head that the parser sees another end of is refused. NIO's decoder speaks to the handler behind the
/// one that it works for, so this stands behind the connection.
final class RequestParser: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart

    /// What the bytes so far are.
    enum Step {
        case incomplete
        case complete(RequestHead)
        case refused(Status)
    }

    static let maximumFields = 100

    private var frame = HeadFrame()
    private var decoder: HTTPRequestDecoder?
    private var parts: [HTTPServerRequestPart] = []

    func handlerRemoved(context: ChannelHandlerContext) { dropDecoder(context) }

    /// Takes a head off `input`, which is all that came since the last one; `context` is of the handler in front.
    func read(_ input: inout ByteBuffer, _ context: ChannelHandlerContext) -> Step {
        switch input.withUnsafeReadableBytes({ frame.read($0) }) {
        case .incomplete: return .incomplete
        case .refused(let status): return .refused(status)
        case .complete(let line, let length):
            frame = HeadFrame()
            guard let bytes = input.readSlice(length: length) else { return .incomplete }
            return parse(bytes, line, context)
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { parts.append(unwrapInboundIn(data)) }

    /// The decoder throws its errors, too.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {}

    private func parse(_ bytes: ByteBuffer, _ line: Int, _ context: ChannelHandlerContext) -> Step {
        do {
            return try readHead(bytes, line, context).map(Step.complete) ?? .refused(.badRequest)
        } catch HTTPParserError.invalidMethod {
            return parse(bytes, line, withUnknownMethod: context)
        } catch {
            return .refused(Self.status(for: error, bytes.readableBytesView.prefix(line)))
        }
    }

    /// The parser knows the registered methods. Of another one all else is still the client's right: that it is refused as a method.
    private func parse(_ bytes: ByteBuffer, _ line: Int, withUnknownMethod context: ChannelHandlerContext) -> Step {
        let method = bytes.readableBytesView.prefix { $0 != HTTPBytes.space }
        guard method.allSatisfy(HTTPBytes.isToken) else { return .refused(.badRequest) }
        let standIn = HTTPMethod.PUT.rawValue
        var known = ByteBuffer(string: standIn)
        known.writeBytes(bytes.readableBytesView.dropFirst(method.count))
        let knownLine = line - method.count + standIn.utf8.count
        do {
            let name = String(decoding: method, as: UTF8.self)
            return try readHead(known, knownLine, context).map { .complete($0.named(.RAW(value: name))) }
                ?? .refused(.badRequest)
        } catch {
            return .refused(Self.status(for: error, known.readableBytesView.prefix(knownLine)))
        }
    }

    /// Nil for what the parser lets through and nobody else should.
    private func readHead(_ bytes: ByteBuffer, _ line: Int, _ context: ChannelHandlerContext) throws -> RequestHead? {
        defer { parts.removeAll(keepingCapacity: true) }
        do {
            var rest = bytes
            _ = try freshDecoder(context).decode(context: context, buffer: &rest)
        } catch {
            dropDecoder(context)
            throw error
        }
        guard case .head(let parsed)? = parts.first, let head = RequestHead(parsed, line: line) else { return nil }
        // The parser waits for a body, which it does not get, or reads nothing more after a wish for another protocol.
        if head.bodyLength ?? 0 > 0 || parsed.headers.contains(name: "upgrade") {
            dropDecoder(context)
        } else {
            guard parts.count == 2, case .end(nil) = parts[1] else { return nil }
        }
        return head
    }

    private func freshDecoder(_ context: ChannelHandlerContext) -> HTTPRequestDecoder {
        if let decoder { return decoder }
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldCount = Self.maximumFields
        let fresh = HTTPRequestDecoder(limitConfiguration: limits)
        fresh.decoderAdded(context: context)
        decoder = fresh
        return fresh
    }

    /// NIO's decoder keeps itself alive until it is told.
    private func dropDecoder(_ context: ChannelHandlerContext) {
        decoder?.decoderRemoved(context: context)
        decoder = nil
    }

    // MARK: Refusals

    private static func status(for error: any Error, _ line: ByteBufferView) -> Status {
        let words = line.split(separator: HTTPBytes.space, omittingEmptySubsequences: false)
        guard words.count == 3, let version = words.last, version.count == 8, version.starts(with: "HTTP/".utf8) else {
            return .badRequest
        }
        let number = Array(version.dropFirst(5))
        if HTTPBytes.isDigit(number[0]), number[1] == UInt8(ascii: "."), HTTPBytes.isDigit(number[2]),
            number != Array("1.0".utf8), number != Array("1.1".utf8)
        {
            return .versionNotSupported
        }
        return error as? HTTPParserError == .headerOverflow ? .headTooLarge : .badRequest
    }
}

/// Finds the end of a head line by line, as the lines come (RFC 9112 with its leniencies left out).
struct HeadFrame {
    enum Step: Equatable {
        case incomplete
        /// The length of the request line, without its end, and of all.
        case complete(line: Int, length: Int)
        case refused(Status)
    }

    static let maximumBytes = 16 << 10
    static let maximumLine = 8 << 10

    private var requestLine = 0
    /// Where the line that is being read starts, and how far it is known to have no end.
    private var line = 0
    private var searched = 0

    /// Reads on; `bytes` are all that came since the head began, at each call.
    mutating func read(_ bytes: UnsafeRawBufferPointer) -> Step {
        guard let base = bytes.baseAddress, let first = bytes.first else { return .incomplete }
        // What begins with no method will not become a request, such as the greeting of TLS.
        guard HTTPBytes.isToken(first) else { return .refused(.badRequest) }
        while true {
            let unread = bytes.count - searched
            guard unread > 0, let found = memchr(base + searched, Int32(HTTPBytes.lineFeed), unread) else {
                searched = bytes.count
                return tooLong(line: searched - line - 1, all: searched).map(Step.refused) ?? .incomplete
            }
            let end = UnsafeRawPointer(found) - base
            if let status = tooLong(line: end - 1 - line, all: end + 1) { return .refused(status) }
            guard end > line, bytes[end - 1] == HTTPBytes.carriageReturn else { return .refused(.badRequest) }
            let length = end - 1 - line
            if length == 0 { return .complete(line: requestLine, length: end + 1) }
            if line == 0 { requestLine = length }
            line = end + 1
            searched = line
        }
    }

    private func tooLong(line length: Int, all: Int) -> Status? {
        if length > Self.maximumLine { return line == 0 ? .uriTooLong : .headTooLarge }
        return all > Self.maximumBytes ? .headTooLarge : nil
    }
}
