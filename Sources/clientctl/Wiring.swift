import ArchiveChannel
import BundleCore
import BundleDisk
import BundlePlatform
import BundleSigning
import Glibc

/// Builds real collaborators out of settings; the only place here that names concrete adapters.
enum Wiring {
    /// The address that an argument means: a URL, or the path of a file.
    static func url(_ text: String) throws -> FetchURL {
        if text.contains("://") { return try FetchURL(parsing: text) }
        return try FetchURL(filePath: Array(try absolute(text).utf8))
    }

    /// The path from the root.
    static func absolute(_ path: String) throws -> String {
        if path.hasPrefix("/") { return path }
        guard let folder = getcwd(nil, 0) else { throw DiskError("find", ".", code: errno) }
        defer { free(folder) }
        return "\(String(cString: folder))/\(path)"
    }

    static func fetcher(_ network: NetworkOptions, for url: FetchURL, _ settings: Settings) throws -> CurlFetcher {
        // libcurl's TLS shares OpenSSL with our verification; no openssl.cnf may change either.
        try OpenSSLIsolation.begin()
        var options = FetchOptions(userAgent: Product.userAgent)
        options.caFile = try settings.optional("ca-file", network.caFile)
        if let path = try settings.optional("token-file", network.tokenFile) {
            let bytes = try File.open(reading: path).readAll(maximumBytes: 64 * 1024)
            do {
                options.credential = try BearerCredential(tokenFile: bytes, origin: url.origin)
            } catch {
                throw UpdateFailure(.configInvalid, subject: path, "\(path) holds no bearer token: \(error)")
            }
        }
        return CurlFetcher(options: options)
    }

    static func updater(
        _ options: UpdateOptions, _ settings: Settings, report: @escaping @Sendable (UpdateEvent) -> Void
    ) throws -> Updater<ArchiveChannel> {
        let store = try settings.required("store", options.place.store)
        let shell = try settings.required("shell-version", options.shellVersion)
        let device = Updater<ArchiveChannel>.Device(
            store: store,
            shell: try settings.parsed("shell-version", shell) { try SemanticVersion(parsingArgument: $0) },
            appId: try settings.optional("app-id", options.appId),
            keep: try settings.keep(options.keep))
        let url = try url(try settings.required("manifest", options.manifest))
        let trust = try settings.required("trust", options.trust)
        let channel = ArchiveChannel(
            manifestURL: url, trusted: try TrustedKeys.read(at: trust), limits: try options.limits.limits(settings),
            fetcher: try fetcher(options.network, for: url, settings), report: report)
        return Updater(channel: channel, device: device) { Answer.say("clientctl: \($0)") }
    }

    static func launcher(_ place: StoreOptions, _ shell: ShellOptions, _ settings: Settings) throws -> Launcher {
        try Launcher(try device(place, shell, settings)) { Answer.say("clientctl: \($0)") }
    }

    /// Who and where the device is.
    static func device(_ place: StoreOptions, _ shell: ShellOptions, _ settings: Settings) throws -> Launcher.Device {
        let version = try settings.required("shell-version", shell.shellVersion)
        return Launcher.Device(
            store: try settings.required("store", place.store),
            shell: try settings.parsed("shell-version", version) { try SemanticVersion(parsingArgument: $0) },
            seed: try settings.optional("seed", shell.seed),
            verifies: try settings.isOn("verify-on-launch", shell.verifyOnLaunch))
    }

    /// The picture of a store; says so on stderr where there is none yet, since the path may be wrong.
    static func inventory(_ store: String) throws -> Inventory {
        if try !Inventory.exists(at: store) { Answer.say("clientctl: there is no store at \(store) yet") }
        return try Inventory.read(at: store)
    }

    /// The seed is what runs when nothing else can, so it had better be there before anything is installed over it.
    static func requireSeed(_ options: UpdateOptions, _ settings: Settings) throws {
        guard let path = try settings.optional("seed", options.seed) else { return }
        guard case .file? = try Directory.open(path).kind(of: "index.html") else {
            throw UpdateFailure(
                .configInvalid, subject: path, "The seed \(path) has no index.html: name the shell's own client folder."
            )
        }
    }
}
