// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

/// Every target of ours gets the same strict settings.
func ours(_ name: String, _ dependencies: [Target.Dependency], resources: [Resource]? = nil) -> Target {
    .target(name: name, dependencies: dependencies, resources: resources, swiftSettings: strict)
}

func tests(_ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
    .testTarget(name: name, dependencies: dependencies, exclude: exclude, swiftSettings: strict)
}

let package = Package(
    name: "swap-clients",
    products: [
        .executable(name: "clientctl", targets: ["clientctl"]),
        .library(name: "ClientBundles", targets: ["ClientShell", "BundleCore", "MeteorChannel", "ShellBoot"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    ],
    targets: [
        // Level 0: C, each behind one target.
        .systemLibrary(name: "COpenSSL", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CArchive", pkgConfig: "libarchive", providers: [.apt(["libarchive-dev"])]),
        .systemLibrary(name: "CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .target(name: "CLinux"),
        // Loads libcurl when it is first used; needs its headers only (apt: libcurl4-openssl-dev).
        .target(name: "CCurl"),

        // Level 1: what a C library or the kernel does, as values.
        ours("BundleThreads", []),
        ours("BundleSigning", ["COpenSSL"]),
        ours("BundleArchive", ["BundleThreads", "CArchive", "CZlib", "CZstd"]),
        ours("BundleDisk", ["CLinux"]),

        // Level 2: the rules and the store.
        ours(
            "BundleCore", ["BundleSigning", "BundleDisk"],
            resources: [.embedInCode("Serving/web-app-local-server.js"), .embedInCode("Serving/cordova.js")]),

        // Level 3: what both channels download with.
        ours("BundleDownload", ["BundleCore", "BundleDisk", "BundleSigning", "BundleThreads"]),

        // The channels and the adapters.
        ours(
            "ArchiveChannel",
            [
                "BundleCore", "BundleDownload", "BundlePush", "BundleSigning", "BundleArchive", "BundleDisk",
                "BundleThreads",
            ]),
        ours(
            "MeteorChannel",
            ["BundleCore", "BundleDownload", "BundlePush", "BundleSigning", "BundleDisk", "BundleThreads"]),
        ours("ShellBoot", ["BundleCore"]),
        ours(
            "BundlePlatform",
            ["BundleCore", "BundleDisk", "BundlePush", "BundleSigning", "BundleThreads", "CCurl", "ShellBoot"]),

        ours(
            "BundleServe",
            [
                "BundleCore", "BundleDisk", "BundleSigning",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ], resources: [.embedInCode("page-bridge.js")]),

        // Push: the contract and what keeps a device connected, and WebSockets beneath it.
        ours("BundlePush", ["BundleCore"]),
        ours(
            "BundleSockets",
            [
                "BundlePush",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ]),

        // Level 4: the publisher.
        ours("BundlePublish", ["BundleCore", "BundleSigning", "BundleArchive", "BundleDisk", "ArchiveChannel"]),

        // Level 4: what a shell embeds, with and without the loopback server.
        ours(
            "ClientShell",
            [
                "ArchiveChannel", "BundleCore", "BundleDisk", "BundlePlatform", "BundleSigning", "BundleThreads",
                "MeteorChannel", "ShellBoot",
            ]),
        ours("LoopbackShell", ["BundleCore", "BundleDisk", "BundleServe", "ClientShell", "ShellBoot"]),

        // What serves a feed, and tells devices when it changes.
        ours(
            "FeedHost",
            [
                "ArchiveChannel", "BundleDisk", "BundleServe", "BundleSockets", "BundleThreads",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ]),

        // Level 5: the command line.
        .executableTarget(
            name: "clientctl",
            dependencies: [
                "ArchiveChannel", "BundleCore", "BundleDisk", "BundlePlatform", "BundlePublish", "BundleSigning",
                "BundleArchive", "BundlePush", "BundleServe", "BundleSockets", "BundleThreads", "ClientShell",
                "FeedHost",
                "LoopbackShell", "MeteorChannel", "ShellBoot",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: strict),

        // An example of a shell.
        .executableTarget(
            name: "TinyShell", dependencies: ["BundleCore", "BundleThreads", "ClientShell"],
            swiftSettings: strict),

        // Tests. BundleTesting holds what they share: real servers, temporary folders, commands.
        .target(
            name: "BundleTesting", dependencies: ["BundleCore", "BundleDisk", "BundleSigning", "ShellBoot"],
            path: "Tests/BundleTesting", swiftSettings: strict),
        .target(
            name: "BundleTestTraits", dependencies: ["BundleThreads"], path: "Tests/BundleTestTraits",
            swiftSettings: strict),
        // A Meteor server to test against, and bundles for it; MockMeteor is the same by hand.
        .target(
            name: "MeteorTesting",
            dependencies: ["BundleCore", "BundleDisk", "BundleSigning", "BundleTesting", "MeteorChannel"],
            path: "Tests/MeteorTesting", swiftSettings: strict),
        .executableTarget(
            name: "MockMeteor",
            dependencies: [
                "BundleCore", "BundleTesting", "MeteorTesting",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ], path: "Tests/MockMeteor", swiftSettings: strict),
        // An example for shells on Apple's systems: nothing uses it, so that only its types are checked.
        .target(
            name: "AppleSockets", dependencies: ["BundlePush"], path: "Tests/AppleSockets", swiftSettings: strict),
        // Devices by the thousand, for Scripts/bench-push.
        .executableTarget(
            name: "PushFleet",
            dependencies: [
                "ArchiveChannel", "BundlePush", "BundleSockets", "BundleThreads",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ], path: "Tests/PushFleet", swiftSettings: strict),
        // A day of a device's agent, by a clock of its own: Scripts/day.
        .executableTarget(
            name: "AgentDay",
            dependencies: [
                "ArchiveChannel", "BundleCore", "BundleDisk", "BundlePlatform", "BundlePublish", "BundleSigning",
                "BundleTesting", "ClientShell", .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ], path: "Tests/AgentDay", swiftSettings: strict),
        tests("BundleThreadsTests", ["BundleThreads"]),
        tests("BundleSigningTests", ["BundleSigning"]),
        tests("BundleArchiveTests", ["BundleArchive", "BundleDisk", "BundleTesting"]),
        tests("BundleDiskTests", ["BundleDisk", "BundleTesting", "CLinux"]),
        tests("BundleCoreTests", ["BundleCore", "BundleDisk", "BundleSigning", "BundleTestTraits", "BundleTesting"]),
        tests("BundleDownloadTests", ["BundleDownload", "BundleCore"]),
        tests(
            "ArchiveChannelTests",
            [
                "ArchiveChannel", "BundleArchive", "BundleCore", "BundleDisk", "BundlePlatform", "BundlePublish",
                "BundlePush", "BundleSigning", "BundleTesting",
            ], exclude: ["Trust/README.md"]),
        tests(
            "MeteorChannelTests",
            [
                "MeteorChannel", "MeteorTesting", "MockMeteor", "BundleCore", "BundleDisk", "BundleDownload",
                "BundlePlatform", "BundlePush", "BundleSigning", "BundleSockets", "BundleTestTraits", "BundleTesting",
            ], exclude: ["README.md"]),
        tests("ShellBootTests", ["ShellBoot", "BundleCore", "BundleTesting"]),
        tests(
            "BundlePlatformTests",
            ["BundlePlatform", "BundleCore", "BundleDisk", "BundleTestTraits", "BundleTesting", "ShellBoot"]),
        tests(
            "BundlePublishTests",
            [
                "BundlePublish", "ArchiveChannel", "BundleArchive", "BundleCore", "BundleDisk", "BundleSigning",
                "BundleTesting",
            ]),
        tests(
            "BundleServeTests",
            [
                "BundleServe", "BundleCore", "BundleDisk", "BundleTestTraits", "BundleTesting", "BundleThreads",
                "MeteorTesting",
            ]),
        tests("BundlePushTests", ["BundlePlatform", "BundlePush", "BundleSockets", "BundleTesting"]),
        tests(
            "BundleSocketsTests",
            [
                "BundlePlatform", "BundlePush", "BundleSockets", "BundleTestTraits", "BundleTesting",
                .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"), .product(name: "NIOWebSocket", package: "swift-nio"),
            ]),
        tests(
            "ClientShellTests",
            [
                "ClientShell", "BundleCore", "BundleDisk", "BundleSigning", "BundleTesting", "MeteorChannel",
                "MeteorTesting", "ShellBoot",
            ]),
        tests(
            "LoopbackShellTests",
            [
                "LoopbackShell", "BundleCore", "BundleServe", "BundleSigning", "BundleTesting", "ClientShell",
                "ShellBoot",
            ]),
        tests(
            "ClientctlTests",
            [
                "ArchiveChannel", "BundleCore", "BundlePlatform", "BundlePush", "BundleSockets", "BundleTestTraits",
                "BundleTesting", "MeteorTesting", "clientctl",
            ]),
        tests("BrowserTests", ["BundleCore", "BundleTestTraits", "BundleTesting", "MeteorTesting", "clientctl"]),
    ]
)
