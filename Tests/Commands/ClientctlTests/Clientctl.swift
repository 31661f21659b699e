import BundleCore
import BundleValues
import BundleTesting
import Glibc
import Synchronization
import Testing

/// The built program, run as a user would run it, with only the given settings.
enum Clientctl {
    static let path = Built.clientctl

    static let isRoot = geteuid() == 0

    static func environment(_ more: [String: String] = [:]) -> [String: String] {
        let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"
        let own = ["HOME": "/nonexistent", "LC_ALL": "C.UTF-8", "CLIENTCTL_PUBLISHER_STATE": "none"]
        return own.merging(["PATH": path]) { $1 }.merging(more) { $1 }
    }

    static func start(
        _ arguments: [String], environment more: [String: String] = [:], in folder: String? = nil
    ) throws -> Program {
        let state = try more["CLIENTCTL_PUBLISHER_STATE"] ?? publisherState(of: arguments, more, in: folder)
        return try Program(
            [path] + arguments, environment: environment(more.merging(["CLIENTCTL_PUBLISHER_STATE": state]) { $1 }),
            in: folder)
    }

    /// The publisher states of all tests, removed when the tests end.
    private static let states = Mutex<TemporaryFolder?>(nil)

    /// Returns the folder of the publisher state for the feed in `arguments`; `none` without a feed or project. Many feeds of the tests have a
    /// channel of the same name and application, so each feed has a folder.
    static func publisherState(
        of arguments: [String], _ environment: [String: String] = [:], in folder: String? = nil
    ) throws -> String {
        let named = arguments.firstIndex(of: "--feed").flatMap { arguments[($0 + 1)...].first }
        let hasProject = folder.map { access("\($0)/clientctl.json", F_OK) == 0 } ?? false
        guard let feed = named ?? (hasProject ? "clientctl.json" : nil) else { return "none" }
        let place = (environment["AWS_ENDPOINT_URL_S3"] ?? "") + (feed.hasPrefix("/") ? "" : "\(folder ?? "")/") + feed
        return try states.withLock { states in
            if states == nil {
                states = try TemporaryFolder()
                atexit { Clientctl.states.withLock { $0 = nil } }
            }
            return try #require(states).file(place.replacing("/", with: "+"))
        }
    }

    static func run(
        _ arguments: [String], environment more: [String: String] = [:], in folder: String? = nil
    ) throws -> Outcome {
        let outcome = Outcome(try start(arguments, environment: more, in: folder).wait())
        if arguments.contains("--json") { AnswerSchema.expect(outcome.json, to: arguments) }
        return outcome
    }

    /// Runs another program and returns its output.
    @discardableResult
    static func stock(
        _ arguments: [String], in folder: String? = nil, expecting status: Int32 = 0,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> String {
        let ending = try Program.run(arguments, environment: environment(), in: folder)
        try #require(
            ending.status == status, "\(arguments): \(ending.errors)\(ending.text)", sourceLocation: sourceLocation)
        return ending.text
    }

    /// Encrypts a key in a file with few rounds. With the 600,000 rounds of `clientctl`, each program that reads the
    /// key takes 0.2 s.
    static func encrypt(_ key: String, passphrase: String) throws {
        try stock([
            "openssl", "pkcs8", "-topk8", "-v2", "aes-256-cbc", "-iter", "1000", "-in", key, "-out", "\(key).new",
            "-passout", "pass:\(passphrase)",
        ])
        try stock(["mv", "\(key).new", key])
    }
}

/// The result of a run of `clientctl`.
struct Outcome {
    let status: Int32?
    let signal: Int32?
    let text: String
    let errors: String
    /// The object on standard output, or an empty one if the output is anything other than one object.
    let json: JSONObject

    init(_ ending: Program.Ending) {
        status = ending.status
        signal = ending.signal
        text = ending.text
        errors = ending.errors
        json = (try? JSONScanner.parse(ending.output, maximumBytes: 16 << 20))?.objectValue ?? [:]
    }

    subscript(_ name: String) -> JSONValue? { json[name] }

    func string(_ name: String) -> String? { json[name]?.stringValue }

    func strings(_ name: String) -> [String]? { json[name]?.arrayValue?.compactMap(\.stringValue) }

    var outcome: String? { string("outcome") }

    var error: JSONObject { json["error"]?.objectValue ?? [:] }
    var code: String? { error["code"]?.stringValue }
    var subject: String? { error["subject"]?.stringValue }

    /// Expects success without an error object.
    @discardableResult
    func succeeded(
        _ outcome: String? = nil, _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) -> Outcome {
        #expect(status == 0, "\(comment ?? "") \(errors) \(text)", sourceLocation: sourceLocation)
        #expect(code == nil, comment, sourceLocation: sourceLocation)
        if let outcome { #expect(self.outcome == outcome, comment, sourceLocation: sourceLocation) }
        return self
    }

    /// Expects a failure with this status and code, as a complete JSON object and on standard error.
    @discardableResult
    func failed(
        _ status: Int32, _ code: String, _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) -> Outcome {
        #expect(self.status == status, "\(comment ?? "") \(errors) \(text)", sourceLocation: sourceLocation)
        #expect(self.code == code, comment, sourceLocation: sourceLocation)
        #expect(error["exit"] == .integer(Int(status)), comment, sourceLocation: sourceLocation)
        let message = error["message"]?.stringValue ?? ""
        #expect(!message.isEmpty, comment, sourceLocation: sourceLocation)
        #expect(error["subject"]?.stringValue != nil, comment, sourceLocation: sourceLocation)
        #expect(errors.contains(message), comment, sourceLocation: sourceLocation)
        return self
    }
}

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }
