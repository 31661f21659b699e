// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

/// The folders of Sources and Tests; a layer uses those above it in this list. ARCHITECTURE.md describes each.
enum Layer: String {
    case c = "C"
    case base = "Base"
    case network = "Network"
    case device = "Device"
    case shell = "Shell"
    case publish = "Publish"
    case fleet = "Fleet"
    case commands = "Commands"
    /// Of the tests only.
    case support = "Support"
}

/// Tests spend most of their time in these targets. A debug build optimizes them and keeps all assertions.
/// The other targets build faster without: each change of one compiles a few files, not the module.
/// A package that depends on this one by version gets an ordinary debug build, because SwiftPM refuses unsafe flags there.
let hot: Set = ["BundleArchive", "BundleDisk", "BundleSigning", "BundleValues"]
let optimized: [SwiftSetting] =
    Context.packageDirectory.contains("/checkouts/")
    ? []
    : [
        .unsafeFlags(
            [
                "-O", "-assert-config", "Debug", "-whole-module-optimization", "-num-threads", "2",
                "-disable-batch-mode",
            ],
            .when(configuration: .debug))
    ]

/// The target that re-exports the C library of the system to the others.
let seam = "CLibrary"

/// Returns a target of this package with the strict settings.
func ours(
    _ layer: Layer, _ name: String, _ dependencies: [Target.Dependency], resources: [Resource]? = nil
) -> Target {
    .target(
        name: name, dependencies: name == seam ? [] : dependencies + [.target(name: seam)],
        path: "Sources/\(layer.rawValue)/\(name)", resources: resources,
        swiftSettings: strict + (hot.contains(name) ? optimized : []))
}

func tests(
    _ layer: Layer, _ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []
) -> Target {
    .testTarget(
        name: name, dependencies: dependencies, path: "Tests/\(layer.rawValue)/\(name)", exclude: exclude,
        swiftSettings: strict)
}

let package = Package(
    name: "swap-clients",
    products: [
        .executable(name: "clientctl", targets: ["clientctl"]),
        // What a shell embeds, and the web server for shells that show a browser.
        .library(name: "ClientBundles", targets: ["ClientBundles"]),
        .library(name: "ClientServer", targets: ["ClientServer"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    ],
    targets: [
        // C, each behind one target.
        .systemLibrary(
            name: "COpenSSL", path: "Sources/C/COpenSSL", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(
            name: "CArchive", path: "Sources/C/CArchive", pkgConfig: "libarchive", providers: [.apt(["libarchive-dev"])]
        ),
        .systemLibrary(
            name: "CZstd", path: "Sources/C/CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"])]),
        .systemLibrary(name: "CZlib", path: "Sources/C/CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .target(name: "CLinux", path: "Sources/C/CLinux"),
        // Loads libbrotlidec when it is first used; needs no headers.
        .target(name: "CBrotli", path: "Sources/C/CBrotli"),
        // Loads libcurl when it is first used; needs its headers only (apt: libcurl4-openssl-dev).
        .target(name: "CCurl", path: "Sources/C/CCurl"),
        // Loads libsqlite3 when it is first used; needs no headers.
        .target(name: "CSQLite", path: "Sources/C/CSQLite"),

        // Base: the C libraries and the kernel behind values and protocols.
        ours(.base, seam, []),
        ours(.base, "BundleSigning", ["COpenSSL"]),
        ours(.base, "BundleDisk", ["CLinux"]),
        ours(.base, "BundleValues", ["BundleSigning", "BundleDisk"]),
        ours(
            .base, "BundleArchive",
            ["CArchive", "CBrotli", "CZlib", "CZstd", "BundleSigning", "BundleDisk", "BundleValues"]),
        // What publisher and device share: the documents of a feed, archives under their limits, the head of a page.
        ours(.base, "BundleFormats", ["BundleSigning", "BundleDisk", "BundleValues", "BundleArchive"]),

        // Network: downloads and push messages, without a library and with each of two.
        ours(.network, "BundleTransport", ["BundleSigning", "BundleDisk", "BundleValues"]),
        ours(
            .network, "BundleFetch",
            ["CCurl", "BundleSigning", "BundleDisk", "BundleValues", "BundleTransport"]),
        ours(
            .network, "BundleSockets",
            [
                "BundleTransport", .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"), .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ]),

        // Device: the rules, the store, and the two sources.
        ours(
            .device, "BundleCore", ["BundleSigning", "BundleDisk", "BundleValues", "BundleFormats"],
            resources: [.embedInCode("Serving/web-app-local-server.js"), .embedInCode("Serving/cordova.js")]),
        ours(
            .device, "ArchiveSource",
            [
                "BundleSigning", "BundleDisk", "BundleValues", "BundleArchive", "BundleFormats", "BundleTransport",
                "BundleCore",
            ]),
        ours(
            .device, "MeteorSource",
            ["BundleSigning", "BundleDisk", "BundleValues", "BundleTransport", "BundleCore"]),

        // Shell: the web server, and the library for shells.
        ours(
            .shell, "BundleServe",
            [
                "BundleSigning", "BundleDisk", "BundleValues", "BundleFormats", "BundleTransport", "BundleSockets",
                "BundleCore", .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            resources: ["calls", "socket", "loading", "events", "errors", "visibility", "look", "plugin", "capacitor"]
                .map {
                    .embedInCode("PageBridge/page-\($0).js")
                }),
        ours(
            .shell, "BundleShell",
            [
                "BundleSigning", "BundleDisk", "BundleValues", "BundleFormats", "BundleTransport", "BundleFetch",
                "BundleCore", "ArchiveSource", "MeteorSource",
            ]),
        // The public modules in one import, without SwiftNIO.
        ours(
            .shell, "ClientBundles",
            ["BundleValues", "BundleTransport", "BundleFetch", "BundleCore", "MeteorSource", "BundleShell"]),
        ours(
            .shell, "ClientServer",
            [
                "BundleSigning", "BundleDisk", "BundleValues", "BundleFormats", "BundleTransport", "BundleFetch",
                "BundleSockets", "BundleCore", "MeteorSource", "BundleServe", "BundleShell",
            ], resources: [.embedInCode("update-notice.js")]),

        // Publish: the commands of release engineers.
        ours(
            .publish, "BundlePublish",
            ["BundleSigning", "BundleArchive", "BundleDisk", "BundleValues", "BundleFormats", "BundleFetch"]),

        // Fleet: the commands of operators of many devices.
        ours(
            .fleet, "BundleFleet",
            [
                "CSQLite", "BundleSigning", "BundleDisk", "BundleValues", "BundleFormats", "BundleTransport",
                "BundleFetch", "BundleSockets", "BundleCore", "ArchiveSource", "BundleServe", "BundlePublish",
                .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOHTTP1", package: "swift-nio"),
            ], resources: [.embedInCode("Phones/page-module.mjs")]),

        // Commands.
        .executableTarget(
            name: "clientctl",
            dependencies: [
                "BundleSigning", "BundleArchive", "BundleDisk", "BundleValues", "BundleFormats", "BundleTransport",
                "BundleFetch", "BundleSockets", "BundleCore", "ArchiveSource", "MeteorSource", "BundleServe",
                "BundleShell", "ClientServer", "BundlePublish", "BundleFleet", .target(name: seam),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "Sources/Commands/clientctl", swiftSettings: strict),
        // An example of a shell.
        .executableTarget(
            name: "TinyShell", dependencies: ["ClientBundles", "ClientServer"],
            path: "Sources/Commands/TinyShell", swiftSettings: strict),

        // Tests: shared support.
        .target(
            name: "BundleTestTraits", dependencies: ["BundleValues"],
            path: "Tests/Support/BundleTestTraits", swiftSettings: strict),
        // Real servers, temporary folders, commands.
        .target(
            name: "BundleTesting",
            dependencies: [
                "BundleSigning", "BundleDisk", "BundleValues", "BundleSockets", "BundleCore", "BundleShell",
                .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ],
            path: "Tests/Support/BundleTesting", swiftSettings: strict),
        // A Meteor server to test against, and bundles for it; MockMeteor is the same by hand.
        .target(
            name: "MeteorTesting",
            dependencies: ["BundleSigning", "BundleDisk", "BundleValues", "BundleCore", "BundleTesting"],
            path: "Tests/Support/MeteorTesting", swiftSettings: strict),
        .executableTarget(
            name: "MockMeteor",
            dependencies: [
                "BundleValues", "BundleCore", "BundleTesting", "MeteorTesting",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "Tests/Support/MockMeteor", swiftSettings: strict),
        // A day of a device's agent, by a clock of its own: Scripts/prove/day.
        .executableTarget(
            name: "AgentDay",
            dependencies: [
                "BundleSigning", "BundleDisk", "BundleValues", "BundleFetch", "BundleCore", "ArchiveSource",
                "BundleShell", "BundlePublish", "BundleTesting",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "Tests/Support/AgentDay", swiftSettings: strict),
        // An example for shells on Apple's systems: nothing uses it, so that only its types are checked.
        .target(
            name: "AppleSockets", dependencies: ["BundleTransport"],
            path: "Tests/Support/AppleSockets", swiftSettings: strict),

        // Tests of the targets, layer by layer.
        tests(.base, "BundleSigningTests", ["COpenSSL", "BundleSigning", "BundleTesting"]),
        tests(.base, "BundleDiskTests", ["CLinux", "BundleValues", "BundleDisk", "BundleTesting"]),
        tests(.base, "BundleValuesTests", ["BundleValues", "BundleTesting", "BundleTestTraits"]),
        tests(
            .base, "BundleArchiveTests",
            ["BundleSigning", "BundleArchive", "BundleDisk", "BundleValues", "BundleTestTraits", "BundleTesting"],
            exclude: ["Delta/apply-delta.py"]),
        tests(
            .network, "BundleTransportTests",
            [
                "BundleValues", "BundleTransport", "BundleSockets", "BundleFetch", "BundleTesting",
                "BundleTestTraits",
            ]),
        tests(
            .network, "BundleFetchTests",
            [
                "CCurl", "BundleDisk", "BundleValues", "BundleTransport", "BundleFetch", "BundleShell",
                "BundleTestTraits", "BundleTesting",
            ]),
        tests(
            .network, "BundleSocketsTests",
            [
                "BundleTransport", "BundleSockets", "BundleFetch", "BundleTestTraits", "BundleTesting",
                .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ]),
        tests(
            .device, "BundleCoreTests",
            [
                "BundleSigning", "BundleDisk", "BundleFormats", "BundleValues", "BundleCore", "BundleTestTraits",
                "BundleTesting",
            ]),
        tests(
            .device, "ArchiveSourceTests",
            [
                "BundleSigning", "BundleArchive", "BundleDisk", "BundleFormats", "BundleValues", "BundleTransport",
                "BundleFetch",
                "BundleCore", "ArchiveSource", "BundleTestTraits", "BundleTesting",
            ], exclude: ["Trust/README.md"]),
        tests(
            .device, "MeteorSourceTests",
            [
                "BundleSigning", "BundleDisk", "BundleFormats", "BundleValues", "BundleTransport", "BundleFetch",
                "BundleSockets",
                "BundleCore", "MeteorSource", "BundleShell", "BundleTestTraits", "BundleTesting", "MeteorTesting",
                "MockMeteor",
            ], exclude: ["Cases.md", "README.md"]),
        tests(
            .shell, "BundleServeTests",
            [
                "BundleDisk", "BundleFormats", "BundleValues", "BundleCore", "BundleServe", "BundleTestTraits",
                "BundleTesting",
                "MeteorTesting",
            ]),
        tests(
            .shell, "BundleShellTests",
            [
                "BundleSigning", "BundleDisk", "BundleFormats", "BundleValues", "BundleTransport", "BundleFetch",
                "BundleCore",
                "ArchiveSource", "MeteorSource", "BundleServe", "BundleShell", "ClientServer", "BundleTesting",
                "MeteorTesting",
                "BundleTestTraits",
            ]),
        tests(
            .publish, "BundlePublishTests",
            [
                "BundleSigning", "BundleArchive", "BundleDisk", "BundleFormats", "BundleValues", "BundleFetch",
                "BundleCore",
                "ArchiveSource", "BundlePublish", "BundleFleet", "BundleServe", "BundleTestTraits", "BundleTesting",
            ]),
        tests(
            .fleet, "BundleFleetTests",
            [
                "BundleSigning", "BundleDisk", "BundleFormats", "BundleValues", "BundleTransport", "BundleCore",
                "ArchiveSource",
                "BundleServe", "BundlePublish", "BundleFleet", "BundleTesting", "BundleTestTraits",
            ]),
        tests(
            .commands, "ClientctlTests",
            [
                "BundleSigning", "BundleDisk", "BundleFormats", "BundleValues", "BundleTransport", "BundleSockets",
                "BundleCore",
                "ArchiveSource",
                "BundleFetch", "BundleShell", "ClientServer", "BundlePublish", "BundleFleet",
                "clientctl", "BundleTestTraits", "BundleTesting", "MeteorTesting",
            ], exclude: ["Phones/open-phone.py"]),
        tests(
            .commands, "BrowserTests",
            [
                "BundleSigning", "BundleServe", "BundleFormats", "BundleValues", "BundleCore", "ArchiveSource",
                "clientctl",
                "BundleTestTraits", "BundleTesting", "MeteorTesting",
            ]),
    ]
)
