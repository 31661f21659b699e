// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

/// The folders of Sources and Tests; a storey uses those below it. ARCHITECTURE.md tells what each is for.
enum Storey: String {
    case c = "C"
    case base = "Base"
    case update = "Update"
    case launch = "Launch"
    case publish = "Publish"
    case commands = "Commands"
    /// Of the tests only.
    case support = "Support"
}

/// Tests spend most of their time in these targets. A debug build optimizes them and keeps all assertions.
/// The other targets build faster without: each change of one compiles a few files, not the module.
/// A package that depends on this one by version gets an ordinary debug build, because SwiftPM refuses unsafe flags there.
let hot: Set = ["BundleArchive", "BundleDelta", "BundleDisk", "BundleSigning", "BundleValues"]
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

/// Every target of ours gets the same strict settings.
func ours(
    _ storey: Storey, _ name: String, _ dependencies: [Target.Dependency], resources: [Resource]? = nil
) -> Target {
    .target(
        name: name, dependencies: dependencies, path: "Sources/\(storey.rawValue)/\(name)", resources: resources,
        swiftSettings: strict + (hot.contains(name) ? optimized : []))
}

func tests(
    _ storey: Storey, _ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []
) -> Target {
    .testTarget(
        name: name, dependencies: dependencies, path: "Tests/\(storey.rawValue)/\(name)", exclude: exclude,
        swiftSettings: strict)
}

let package = Package(
    name: "swap-clients",
    products: [
        .executable(name: "clientctl", targets: ["clientctl"]),
        .library(
            name: "ClientBundles",
            targets: [
                "ClientShell", "ShellListening", "BundleCore", "BundleValues", "BundlePush", "BundlePlatform",
                "MeteorSource",
                "ShellBoot",
            ]),
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

        // Base: what C libraries, the kernel and the network do, as values and contracts.
        ours(.base, "BundleThreads", []),
        ours(.base, "BundleSigning", ["COpenSSL"]),
        ours(
            .base, "BundleArchive", ["CArchive", "CBrotli", "CZlib", "CZstd", "BundleThreads"]),
        ours(.base, "BundleDisk", ["CLinux"]),
        ours(.base, "BundleValues", ["BundleSigning", "BundleDisk"]),
        ours(
            .base, "BundleDelta", ["BundleThreads", "BundleSigning", "BundleArchive", "BundleDisk", "BundleValues"]),
        ours(
            .base, "BundleDownload", ["BundleThreads", "BundleSigning", "BundleDisk", "BundleValues"]),
        ours(.base, "BundlePush", ["BundleValues"]),
        ours(
            .base, "BundleSockets",
            [
                "BundlePush", .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"), .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ]),

        // Update: the rules, the store, and the two sources.
        ours(
            .update, "BundleCore", ["BundleSigning", "BundleDisk", "BundleValues"],
            resources: [.embedInCode("Serving/web-app-local-server.js"), .embedInCode("Serving/cordova.js")]),
        ours(
            .update, "ArchiveSource",
            [
                "BundleThreads", "BundleSigning", "BundleArchive", "BundleDisk", "BundleValues", "BundleDelta",
                "BundleDownload", "BundlePush", "BundleCore",
            ]),
        ours(
            .update, "MeteorSource",
            [
                "BundleThreads", "BundleSigning", "BundleDisk", "BundleValues", "BundleDownload", "BundlePush",
                "BundleCore",
            ]),
        ours(
            .update, "BundlePlatform",
            [
                "CCurl", "BundleThreads", "BundleSigning", "BundleDisk", "BundleValues", "BundlePush", "BundleCore",
                "ShellBoot",
            ]),

        // Launch: boot, shells, and the web server.
        ours(.launch, "ShellBoot", ["BundleValues", "BundleCore"]),
        ours(
            .launch, "BundleServe",
            [
                "BundleSigning", "BundleDisk", "BundleValues", "BundleCore",
                .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
            ], resources: [.embedInCode("page-bridge.js")]),
        ours(
            .launch, "ClientShell",
            [
                "BundleThreads", "BundleSigning", "BundleDisk", "BundleValues", "BundleCore", "ArchiveSource",
                "MeteorSource", "BundlePlatform", "ShellBoot",
            ]),
        ours(
            .launch, "ShellListening",
            [
                "BundleValues", "BundlePush", "BundleSockets", "BundleCore", "ArchiveSource", "MeteorSource",
                "BundlePlatform", "ShellBoot", "ClientShell",
            ]),
        ours(
            .launch, "LoopbackShell",
            ["BundleDisk", "BundleValues", "BundleCore", "ShellBoot", "BundleServe", "ClientShell"]),
        ours(
            .launch, "DeviceDoctor",
            [
                "BundleThreads", "BundleDisk", "BundleValues", "BundleCore", "ArchiveSource", "BundlePlatform",
                "ShellBoot", "ClientShell",
            ]),

        // Publish: what release engineers run.
        ours(
            .publish, "BundlePublish",
            [
                "BundleThreads", "BundleSigning", "BundleArchive", "BundleDisk", "BundleValues", "BundleDelta",
                "BundleCore", "ArchiveSource", "BundlePlatform", "BundleServe",
            ]),
        ours(
            .publish, "FeedHost",
            [
                "BundleThreads", "BundleDisk", "BundleValues", "BundlePush", "BundleSockets", "ArchiveSource",
                "BundleServe",
                .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ]),

        // Commands.
        .executableTarget(
            name: "clientctl",
            dependencies: [
                "BundleThreads", "BundleSigning", "BundleArchive", "BundleDisk", "BundleValues", "BundlePush",
                "BundleSockets", "BundleCore", "ArchiveSource", "MeteorSource", "BundlePlatform", "ShellBoot",
                "BundleServe", "ClientShell", "ShellListening", "LoopbackShell", "DeviceDoctor", "BundlePublish",
                "FeedHost",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "Sources/Commands/clientctl", swiftSettings: strict),
        // An example of a shell.
        .executableTarget(
            name: "TinyShell", dependencies: ["BundleValues", "BundleCore", "ClientShell", "ShellListening"],
            path: "Sources/Commands/TinyShell", swiftSettings: strict),

        // Tests: what they share.
        .target(
            name: "BundleTestTraits", dependencies: ["BundleThreads"],
            path: "Tests/Support/BundleTestTraits", swiftSettings: strict),
        // Real servers, temporary folders, commands.
        .target(
            name: "BundleTesting",
            dependencies: ["BundleSigning", "BundleDisk", "BundleValues", "BundleCore", "ShellBoot"],
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
        // Devices by the thousand, for Scripts/bench push.
        .executableTarget(
            name: "PushFleet",
            dependencies: [
                "BundleThreads", "BundlePush", "BundleSockets", "ArchiveSource",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "Tests/Support/PushFleet", swiftSettings: strict),
        // A day of a device's agent, by a clock of its own: Scripts/prove/day.
        .executableTarget(
            name: "AgentDay",
            dependencies: [
                "BundleSigning", "BundleDisk", "BundleValues", "BundleCore", "ArchiveSource", "BundlePlatform",
                "ClientShell", "BundlePublish", "BundleTesting",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "Tests/Support/AgentDay", swiftSettings: strict),
        // An example for shells on Apple's systems: nothing uses it, so that only its types are checked.
        .target(
            name: "AppleSockets", dependencies: ["BundlePush"],
            path: "Tests/Support/AppleSockets", swiftSettings: strict),

        // Tests of the targets, storey by storey.
        tests(
            .base, "BundleThreadsTests", ["BundleThreads", "BundleTestTraits"]),
        tests(
            .base, "BundleSigningTests", ["COpenSSL", "BundleSigning", "BundleTesting"]),
        tests(
            .base, "BundleArchiveTests", ["BundleArchive", "BundleDisk", "BundleTestTraits", "BundleTesting"]),
        tests(
            .base, "BundleDiskTests", ["CLinux", "BundleThreads", "BundleDisk", "BundleTesting"]),
        tests(
            .base, "BundleValuesTests", ["BundleValues", "BundleTesting"]),
        tests(
            .base, "BundleDeltaTests",
            [
                "BundleSigning", "BundleArchive", "BundleDisk", "BundleValues", "BundleDelta", "BundleTesting",
            ], exclude: ["apply-delta.py"]),
        tests(
            .base, "BundleDownloadTests", ["BundleValues", "BundleDownload"]),
        tests(
            .base, "BundlePushTests",
            ["BundlePush", "BundleSockets", "BundlePlatform", "BundleTesting", "BundleTestTraits"]),
        tests(
            .base, "BundleSocketsTests",
            [
                "BundlePush", "BundleSockets", "BundlePlatform", "BundleTestTraits", "BundleTesting",
                .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ]),
        tests(
            .update, "BundleCoreTests",
            [
                "BundleSigning", "BundleDisk", "BundleValues", "BundleCore", "BundleTestTraits", "BundleTesting",
            ]),
        tests(
            .update, "ArchiveSourceTests",
            [
                "BundleSigning", "BundleArchive", "BundleDisk", "BundleValues", "BundleDelta", "BundlePush",
                "BundleCore", "ArchiveSource", "BundlePlatform", "BundleTestTraits", "BundleTesting",
            ], exclude: ["Trust/README.md"]),
        tests(
            .update, "MeteorSourceTests",
            [
                "BundleSigning", "BundleDisk", "BundleValues", "BundleDownload", "BundlePush", "BundleSockets",
                "BundleCore", "MeteorSource", "BundlePlatform", "BundleTestTraits", "BundleTesting", "MeteorTesting",
                "MockMeteor",
            ], exclude: ["README.md"]),
        tests(
            .update, "BundlePlatformTests",
            [
                "CCurl", "BundleDisk", "BundleValues", "BundlePush", "BundleCore", "BundlePlatform", "ShellBoot",
                "BundleTestTraits", "BundleTesting",
            ]),
        tests(
            .launch, "ShellBootTests", ["BundleValues", "BundleCore", "ShellBoot", "BundleTesting"]),
        tests(
            .launch, "BundleServeTests",
            [
                "BundleDisk", "BundleValues", "BundleCore", "BundleServe", "BundleTestTraits", "BundleTesting",
                "MeteorTesting",
            ]),
        tests(
            .launch, "ClientShellTests",
            [
                "BundleSigning", "BundleDisk", "BundleValues", "BundleCore", "MeteorSource", "ShellBoot",
                "ClientShell", "BundleTesting", "MeteorTesting", "BundleTestTraits",
            ]),
        tests(
            .launch, "LoopbackShellTests",
            [
                "BundleSigning", "BundleValues", "BundleCore", "MeteorSource", "ShellBoot", "BundleServe",
                "ClientShell", "LoopbackShell", "BundleTesting", "MeteorTesting", "BundleTestTraits",
            ]),
        tests(
            .launch, "DeviceDoctorTests",
            [
                "BundleSigning", "BundleDisk", "BundleValues", "BundleCore", "BundlePlatform", "ShellBoot",
                "DeviceDoctor", "BundleTesting",
            ]),
        tests(
            .publish, "BundlePublishTests",
            [
                "BundleThreads", "BundleSigning", "BundleArchive", "BundleDisk", "BundleValues", "BundleCore",
                "ArchiveSource",
                "BundlePlatform", "BundlePublish", "BundleServe", "FeedHost", "BundleTestTraits",
                "BundleTesting",
            ]),
        tests(
            .publish, "FeedHostTests",
            ["BundleValues", "BundlePush", "ArchiveSource", "FeedHost", "BundleTesting", "BundleTestTraits"]),
        tests(
            .commands, "ClientctlTests",
            [
                "BundleDisk", "BundleValues", "BundlePush", "BundleSockets", "BundleCore", "ArchiveSource",
                "BundlePlatform", "BundlePublish",
                "clientctl", "BundleTestTraits", "BundleTesting", "MeteorTesting",
            ]),
        tests(
            .commands, "BrowserTests",
            [
                "BundleSigning", "BundleValues", "BundleCore", "ArchiveSource", "clientctl", "BundleTestTraits",
                "BundleTesting", "MeteorTesting",
            ]),
    ]
)
