import BundleCore
import BundleDisk
import BundleFetch
import BundleFormats
public import BundleValues
import CLibrary
import MeteorSource

/// Loads the settings of a device, which a program has in its build, in its system or in a file.
public protocol ConfigLoader: Sendable {
    /// Returns the device with its sources. Throws if a setting is missing or wrong.
    func load() async throws -> DeviceContainer
}

/// A JSON file of settings, such as `/etc/clientctl.json`. Its members are flags of `clientctl serve` without the dashes, and mean the same.
/// Relative paths begin at the folder of the file. The files that it names are opened later, by the parts that use them.
public struct ConfigFile: ConfigLoader {
    /// The flags that the library has.
    public static let names: Set = [
        "store", "shell-version", "seed", "verify-on-launch", "sources", "keep", "startup-timeout", "check-interval",
        "activation-window", "manifest", "channel", "trust", "app-id", "device-id", "group", "meteor", "platform",
        "push", "proxy", "ca-file", "client-cert", "client-key",
    ]
    private static let maximumBytes = 1 << 20

    private let path: String
    private let userAgent: String
    private let others: Set<String>
    private let environment: Environment

    /// Describes the file at `path`.
    ///
    /// - Parameters:
    ///   - path: The path of the file.
    ///   - userAgent: The header of all requests.
    ///   - others: Members that the program reads itself. A member that is neither one of them nor in `names` is an error.
    ///   - environment: Passed to the container.
    public init(
        _ path: String, userAgent: String, ignoring others: Set<String> = [], environment: Environment = Environment()
    ) {
        (self.path, self.userAgent, self.others, self.environment) = (path, userAgent, others, environment)
    }

    /// Reads the file. Throws `UpdateFailure` if it cannot be read, if another user may write to it, or if a member is unknown or wrong.
    public func load() async throws -> DeviceContainer {
        let settings = try settings()
        var container = DeviceContainer(try configuration(settings), userAgent: userAgent, environment: environment)
        container.network.proxy = try settings.value("proxy", Self.proxy)
        container.network.caFile = try settings.path("ca-file")
        container.network.clientCertificate = try settings.path("client-cert").map { certificate in
            ClientCertificate(path: certificate, keyPath: try settings.path("client-key"))
        }
        if container.network.clientCertificate == nil, try settings.text("client-key") != nil {
            throw settings.refusal("client-key", "needs client-cert")
        }
        let platform =
            try settings.value("platform") { text in
                guard let platform = MeteorPlatform(rawValue: text) else { throw ConfigError("is android or ios") }
                return platform
            } ?? .android
        container.configuration.device.layout = MeteorBundles(platform: platform)
        container.feed = try feed(settings)
        container.server = try settings.value("meteor") { text in
            let url = try FetchURL(parsing: text)
            if url.isFile { throw ConfigError("is the http or https URL of a server") }
            var server = MeteorServerOptions(rootURL: url, platform: platform)
            if container.feed == nil { server.appId = try settings.text("app-id") }
            return DeviceContainer.Server(server)
        }
        container.push = try settings.text("push")
        return container
    }

    /// Returns the proxy in `text`; empty for `none`.
    private static func proxy(_ text: String) throws -> String {
        if text == "none" { return "" }
        let schemes = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"]
        guard schemes.contains(where: { text.hasPrefix("\($0)://") }), !text.utf8.contains(where: { $0 <= 0x20 }) else {
            throw ConfigError("is none or the URL of a proxy")
        }
        return text
    }

    private func configuration(_ settings: Members) throws -> ShellConfiguration {
        guard let store = try settings.path("store") else { throw settings.refusal("store", "is missing") }
        let version = try settings.value("shell-version") { try SemanticVersion(parsingArgument: $0) }
        var configuration = ShellConfiguration(
            store: store, shellVersion: version ?? .zero, seed: try settings.path("seed"))
        configuration.verifiesFiles = try settings.flag("verify-on-launch")
        configuration.sources = try settings.value("sources") { text in
            guard let order = SourceOrder(text.split(separator: ",").map(String.init)) else {
                throw ConfigError("is a list of archive and meteor")
            }
            return order
        }
        if let keep = try settings.number("keep") { configuration.keep = keep }
        if let timeout = try settings.value(
            "startup-timeout", { try StartupTimeout(DurationText(parsing: $0).duration) })
        {
            configuration.startupTimeout = timeout
        }
        let interval = try settings.value("check-interval") { text in
            let interval = try DurationText(parsing: text).duration
            guard interval >= .seconds(1) else { throw ConfigError("is less than 1s") }
            return interval
        }
        configuration.retryPause = interval ?? RetryRule.standardPause
        configuration.polling = ShellConfiguration.Polling(
            PollPace(every: interval ?? RetryRule.standardPause), yields: interval == nil)
        configuration.activation = try settings.value("activation-window") { try ActivationWindows(parsing: $0) }
        return configuration
    }

    private func feed(_ settings: Members) throws -> DeviceContainer.Feed? {
        let (manifest, channel) = (try settings.url("manifest"), try settings.url("channel"))
        guard let address = manifest.map({ FeedAddress.manifest($0) }) ?? channel.map({ .channel($0) }) else {
            return nil
        }
        if manifest != nil, channel != nil { throw settings.refusal("channel", "and manifest exclude each other") }
        guard let trust = try settings.path("trust") else { throw settings.refusal("trust", "is missing") }
        var feed = DeviceContainer.Feed(address, trust: trust, appId: try settings.text("app-id"))
        feed.deviceId = try settings.text("device-id")
        feed.groups = try settings.value("group") { text in
            guard let groups = DeviceGroup.list(text) else { throw ConfigError("is none or: \(DeviceGroup.rule)") }
            return groups
        }
        return feed
    }

    private func settings() throws -> Members {
        let file = try File.open(reading: path)
        try OwnFile.require(file, with: "settings")
        let bytes = try EditedText.bytes(of: file.readAll(maximumBytes: Self.maximumBytes), in: path)
        let object: JSONObject
        do {
            object = try MemberReader(try JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes), of: "file").object
        } catch {
            throw UpdateFailure(.configInvalid, subject: path, "The configuration \(path) cannot be read: \(error).")
        }
        let members = Members(object: object, path: try Self.fromRoot(path))
        if let unknown = object.members.first(where: { !Self.names.contains($0.name) && !others.contains($0.name) }) {
            throw members.refusal(unknown.name, "is not a setting of this program: remove it")
        }
        return members
    }
}

extension ConfigFile {
    /// Returns `path` from the root of the file system.
    private static func fromRoot(_ path: String) throws -> String {
        if path.hasPrefix("/") { return path }
        guard let folder = getcwd(nil, 0) else { throw DiskError("find", at: ".", code: errno) }
        defer { free(folder) }
        return "\(String(cString: folder))/\(path)"
    }
}

/// The rule that a setting breaks, as the end of a sentence that begins with its name.
private struct ConfigError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// The members of a file of settings. A member that is null counts as absent.
private struct Members {
    let object: JSONObject
    let path: String

    func refusal(_ name: String, _ problem: String) -> UpdateFailure {
        let shown = UntrustedName.display(name)
        return UpdateFailure(
            .configInvalid, subject: "\(path): \(shown)",
            "The configuration \(path) cannot be used: \(shown) \(problem).")
    }

    /// Returns the text of a member, or nil if it is absent.
    func text(_ name: String) throws -> String? {
        guard let value = object[name], value != .null else { return nil }
        guard let text = value.stringValue ?? value.integerValue.map(String.init), !text.isEmpty else {
            throw refusal(name, "is not a text")
        }
        return text
    }

    /// Returns the parsed text of a member, or nil if it is absent.
    func value<Value>(_ name: String, _ parse: (String) throws -> Value) throws -> Value? {
        guard let text = try text(name) else { return nil }
        do {
            return try parse(text)
        } catch let failure as UpdateFailure {
            throw failure
        } catch {
            let reason = "\(error is ConfigError ? "" : "is not valid: ")\(error)"
            throw refusal(name, reason.hasSuffix(".") ? String(reason.dropLast()) : reason)
        }
    }

    func number(_ name: String) throws -> Int? {
        guard let value = object[name], value != .null else { return nil }
        guard let number = value.integerValue ?? value.stringValue.flatMap({ Int($0) }), number > 0 else {
            throw refusal(name, "is not a whole number of 1 or more")
        }
        return number
    }

    func flag(_ name: String) throws -> Bool {
        guard let value = object[name], value != .null else { return false }
        switch value.stringValue?.lowercased() ?? value.integerValue.map(String.init)
            ?? value.boolValue.map(String.init)
        {
        case "1", "true", "yes", "on": return true
        case "", "0", "false", "no", "off": return false
        default: throw refusal(name, "is neither true nor false")
        }
    }

    /// Returns an absolute path.
    func path(_ name: String) throws -> String? { try text(name).map(absolute) }

    /// Returns the URL of a member, which is a URL or a path.
    func url(_ name: String) throws -> FetchURL? {
        try value(name) { text in
            text.contains("://") ? try FetchURL(parsing: text) : try FetchURL(filePath: Array(absolute(text).utf8))
        }
    }

    private func absolute(_ text: String) -> String {
        guard !text.hasPrefix("/"), let end = path.lastIndex(of: "/") else { return text }
        return "\(path[..<end])/\(text)"
    }
}
