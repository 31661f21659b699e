import ArgumentParser
import BundleCore
import BundleValues
import MeteorTesting

/// `MockMeteor bundle`.
struct BundleFolder: ParsableCommand {
    enum Scheme: String, ExpressibleByArgument, CaseIterable {
        case bytes, salted, sri, modern

        var hashes: HashScheme {
            switch self {
            case .bytes: .bytes
            case .salted: .saltedContents
            case .sri: .saltedSRI
            case .modern: .modern
            }
        }
    }

    enum Layout: String, ExpressibleByArgument, CaseIterable { case server, bundle, both }

    static let configuration = CommandConfiguration(
        commandName: "bundle", abstract: "Turns the folder that a web build leaves into a Meteor-style bundle.",
        discussion: """
            Files become hard links where the file system allows it: do not change them in place afterwards. With --layout both, OUT \
            gets the folders server and bundle.
            """)

    @Argument(help: "The web folder.")
    var dir: String

    @Argument(help: "Where the bundle goes; must not exist or be empty.")
    var out: String

    @Option(help: "How hashes are made; \(Scheme.allCases.map(\.rawValue).joined(separator: ", ")).")
    var scheme = Scheme.modern

    @Option(help: "The version, or \"computed\" for the digest of the entries.")
    var version = "computed"

    @Option(help: "ROOT_URL in the page.")
    var rootUrl = "http://localhost:3000/"

    @Option(help: "appId in the page.")
    var appId = "mockmeteor"

    @Option(help: "server is what a server serves, bundle a seed.")
    var layout = Layout.server

    @Option(help: "The compatibility version of a shell's platform, as ios=ios-1; may be given again.")
    var compatibility: [String] = ["ios=ios-1", "android=android-1"]

    @Flag(help: "Source maps are public assets with hashes of their own, and belong to no script.")
    var plainMaps = false

    mutating func validate() throws {
        for text in compatibility where text.split(separator: "=", maxSplits: 1).count != 2 {
            throw ValidationError("--compatibility \(text) has no version; write PLATFORM=VERSION.")
        }
    }

    func run() throws {
        let stated: MeteorBundleBuilder.Version = version == "computed" ? .computed : .stated(version)
        var builder = try WebFolder.bundle(dir, version: stated, hashes: scheme.hashes, pairsSourceMaps: !plainMaps)
        builder.page.rootURL = rootUrl
        builder.page.appId = appId
        builder.page.versionStyle =
            scheme == .bytes || scheme == .salted ? .autoupdateVersionCordova : .autoupdateVersions
        builder.compatibility = compatibilityVersions
        let bundle = try builder.build()
        switch layout {
        case .server: try bundle.writeServerLayout(to: out)
        case .bundle: try bundle.writeBundleLayout(to: out)
        case .both:
            try bundle.writeServerLayout(to: "\(out)/server")
            try bundle.writeBundleLayout(to: "\(out)/bundle")
        }
        say("\(bundle.version) \(bundle.files.count) files")
    }

    private var compatibilityVersions: JSONObject {
        var versions: JSONObject = [:]
        for text in compatibility {
            let parts = text.split(separator: "=", maxSplits: 1)
            versions[String(parts[0])] = .string(String(parts[1]))
        }
        return versions
    }
}
