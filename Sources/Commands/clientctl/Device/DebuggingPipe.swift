import BundleDisk
import BundleSigning
import BundleValues
import CLibrary
import Synchronization

/// The pipe over which Chromium takes commands of the program that started it (`--remote-debugging-pipe`). Unlike a port, no other
/// program can connect to it.
final class DebuggingPipe: Sendable {
    private static let flag = "--remote-debugging-pipe"
    private static let limit = Duration.seconds(10)
    private static let longestMessage = 4 << 20
    /// The length of the longer side of a picture in pixels, its largest size in bytes, and the qualities to try.
    private static let longSide = 480
    private static let mostBytes = 48 << 10
    private static let qualities = [60, 40, 20]
    /// The descriptors below this number are those of the browser: a start must not overwrite one while it passes it on.
    private static let firstOwn: Int32 = 10

    /// The browser's ends, which become its descriptors 3 and 4.
    let theirs: (reading: Int32, writing: Int32)
    private let ours: (reading: Int32, writing: Int32)
    private let isHandedOver = Atomic(false)
    /// The number of the last command.
    private let last = Mutex(0)

    /// Throws `DiskError`.
    init() throws {
        let (commands, answers) = (try Self.pipe(), try Self.pipe())
        theirs = (commands.reading, answers.writing)
        ours = (answers.reading, commands.writing)
    }

    private static func pipe() throws -> (reading: Int32, writing: Int32) {
        let ends = try OpenFiles.pipe()
        func moved(_ end: Int32) -> Int32 {
            let copy = fcntl(end, F_DUPFD_CLOEXEC, firstOwn)
            if copy < 0 { return end }
            close(end)
            return copy
        }
        return (moved(ends.reading), moved(ends.writing))
    }

    deinit {
        isPassedOn()
        close(ours.reading)
        close(ours.writing)
    }

    /// Closes the browser's ends in this program. Call this after the browser was started.
    func isPassedOn() {
        if isHandedOver.exchange(true, ordering: .relaxed) { return }
        close(theirs.reading)
        close(theirs.writing)
    }

    /// Returns the words of a browser's command with the flag of the pipe; nil if none of them names Chromium.
    static func words(_ words: [String]) -> [String]? {
        let names: Set = [
            "chromium", "chromium-browser", "chrome", "google-chrome", "google-chrome-stable", "headless_shell",
        ]
        guard
            let index = words.firstIndex(where: { names.contains($0.split(separator: "/").last.map(String.init) ?? "") }
            )
        else { return nil }
        var words = words
        words.insert(flag, at: index + 1)
        return words
    }

    // MARK: Pictures

    /// Returns a JPEG of the window that shows a page of `address`, or else of the first window. Blocks the caller's thread. Throws
    /// `UpdateFailure`.
    func picture(of address: String) throws -> [UInt8] {
        try last.withLock { last in
            var conversation = Conversation(ours: ours, last: last)
            defer { last = conversation.last }
            return try Self.picture(of: address, &conversation)
        }
    }

    private static func picture(of address: String, _ browser: inout Conversation) throws -> [UInt8] {
        let targets = try browser.ask("Target.getTargets", "{}")["targetInfos"]?.arrayValue?.compactMap(\.objectValue)
        let pages = (targets ?? []).filter { $0["type"]?.stringValue == "page" }
        let shown = pages.first { $0["url"]?.stringValue?.hasPrefix(address) == true } ?? pages.first
        guard let target = shown?["targetId"]?.stringValue,
            let session = try browser.ask(
                "Target.attachToTarget", "{\"targetId\":\(Conversation.quoted(target)),\"flatten\":true}")["sessionId"]?
                .stringValue
        else { throw failure("it shows no page") }
        defer { _ = try? browser.ask("Target.detachFromTarget", "{\"sessionId\":\(Conversation.quoted(session))}") }
        for quality in qualities {
            // `Page.captureScreenshot` in another size than that of the window changes the page on the screen for a moment.
            let bytes = try browser.frame(
                "{\"format\":\"jpeg\",\"quality\":\(quality),\"maxWidth\":\(longSide),\"maxHeight\":\(longSide)}",
                in: session)
            if bytes.count <= mostBytes { return bytes }
        }
        throw failure("the picture is larger than \(ByteCount(bytes: mostBytes))")
    }

    private static func failure(_ reason: String) -> UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: "picture",
            "The browser gave no picture of its screen: \(reason). The next picture is tried after --picture-interval, or after the next event."
        )
    }

    /// Commands and their responses: JSON with a zero byte after each.
    private struct Conversation {
        let ours: (reading: Int32, writing: Int32)
        private(set) var last: Int
        private let deadline = SuspendingClock().now + limit
        private var buffer: [UInt8] = []
        /// The first frame of the screencast, in base64.
        private var firstFrame: String?

        init(ours: (reading: Int32, writing: Int32), last: Int) { (self.ours, self.last) = (ours, last) }

        static func quoted(_ text: String) -> String {
            String(decoding: JSONWriter.bytes(of: .string(text)), as: UTF8.self)
        }

        /// Sends a command with `parameters` in JSON, and returns its result.
        mutating func ask(_ method: String, _ parameters: String, in session: String? = nil) throws -> JSONObject {
            last += 1
            let place = session.map { ",\"sessionId\":\(Self.quoted($0))" } ?? ""
            try send(Array("{\"id\":\(last),\"method\":\"\(method)\",\"params\":\(parameters)\(place)}\0".utf8))
            while true {
                // Others are events, and responses to an earlier picture that came too late.
                guard let object = try receiveObject(), object["id"]?.integerValue == last else { continue }
                if let result = object["result"]?.objectValue { return result }
                let reason = object["error"]?.objectValue?["message"]?.stringValue ?? "no reason"
                throw failure("it refused \(method) (\(UntrustedName.display(reason)))")
            }
        }

        /// Returns the first frame of a screencast with `parameters`.
        mutating func frame(_ parameters: String, in session: String) throws -> [UInt8] {
            firstFrame = nil
            _ = try ask("Page.startScreencast", parameters, in: session)
            while firstFrame == nil { _ = try receiveObject() }
            _ = try ask("Page.stopScreencast", "{}", in: session)
            guard let bytes = try? Base64.decode(firstFrame ?? "") else { throw failure("its picture is damaged") }
            return bytes
        }

        /// Returns the next message; nil if it is not JSON. Records the frame of a screencast.
        private mutating func receiveObject() throws -> JSONObject? {
            let message = try receive()
            let object = try? JSONScanner.parse(Self.readable(message), maximumBytes: longestMessage).objectValue
            if object?["method"]?.stringValue == "Page.screencastFrame" {
                firstFrame = firstFrame ?? object?["params"]?.objectValue?["data"]?.stringValue
            }
            return object
        }

        private func send(_ bytes: [UInt8]) throws {
            var rest = bytes[...]
            while !rest.isEmpty {
                try wait(for: ours.writing, POLLOUT)
                let count = rest.withUnsafeBytes { write(ours.writing, $0.baseAddress, $0.count) }
                if count < 0 && errno == EINTR { continue }
                guard count > 0 else { throw failure("it has closed its pipe") }
                rest = rest.dropFirst(count)
            }
        }

        /// Returns the next message without its zero byte.
        private mutating func receive() throws -> [UInt8] {
            var chunk = [UInt8](repeating: 0, count: 64 << 10)
            var searched = 0
            while true {
                if let end = buffer[searched...].firstIndex(of: 0) {
                    let message = Array(buffer[..<end])
                    buffer.removeFirst(end + 1)
                    return message
                }
                searched = buffer.count
                guard buffer.count <= longestMessage else { throw failure("its message is too long") }
                try wait(for: ours.reading, POLLIN)
                let count = read(ours.reading, &chunk, chunk.count)
                if count < 0 && errno == EINTR { continue }
                guard count > 0 else { throw failure("it has closed its pipe") }
                buffer += chunk[..<count]
            }
        }

        private func wait(for end: Int32, _ event: Int32) throws {
            let left = deadline - SuspendingClock().now
            var ends = [pollfd(fd: end, events: Int16(event), revents: 0)]
            guard left > .zero, poll(&ends, 1, Int32(left / .milliseconds(1)) + 1) != 0 else {
                throw failure("it did not answer within 10 s")
            }
        }

        /// Returns a message whose numbers with a fraction are texts: `JSONScanner` reads integers only.
        private static func readable(_ message: [UInt8]) -> [UInt8] {
            var (result, number) = ([UInt8](), [UInt8]())
            result.reserveCapacity(message.count)
            var (isText, isEscaped) = (false, false)
            for byte in message {
                let isNumeric =
                    !isText
                    && (byte.isASCIIDigit || "+-.".utf8.contains(byte) || !number.isEmpty && byte | 0x20 == 0x65)
                if isNumeric {
                    number.append(byte)
                    continue
                }
                let isInteger = number.allSatisfy { $0.isASCIIDigit || $0 == UInt8(ascii: "-") }
                result += isInteger ? number : [UInt8(ascii: "\"")] + number + [UInt8(ascii: "\"")]
                number = []
                result.append(byte)
                if isText && isEscaped {
                    isEscaped = false
                } else if isText && byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isText.toggle()
                }
            }
            return result
        }
    }
}
