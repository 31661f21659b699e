import Testing

@testable import MeteorSource

@Suite("ClientVersions") struct ClientVersionsTests {
    /// A change of the documents.
    enum Step: Sendable {
        case begin, ready
        case added(String, String?)
        case changed(String, DocumentChange.Version)
        case removed(String)
    }

    static func versions(_ steps: [Step], architecture: String = "web.cordova") -> ClientVersions {
        var versions = ClientVersions(architecture: architecture)
        for step in steps {
            switch step {
            case .begin: versions.begin()
            case .ready: versions.ready()
            case .added(let id, let version): versions.added(change(id, version.map { .stated($0) } ?? .unmentioned))
            case .changed(let id, let version): versions.changed(change(id, version))
            case .removed(let id): versions.removed(id)
            }
        }
        return versions
    }

    static func change(_ id: String, _ version: DocumentChange.Version) -> DocumentChange {
        DocumentChange(collection: DDPRequest.clientVersions, id: id, version: version)
    }

    static let tombstones: [Step] = [
        .added("version", "outdated"), .added("version-refreshable", "outdated"), .added("version-cordova", "outdated"),
    ]

    @Test(
        arguments: [
            ("nothing is known before ready", [.added("web.cordova", "a")], nil),
            (
                "the architecture's document counts", [.added("web.cordova", "a"), .added("web.browser", "b"), .ready],
                "a"
            ),
            ("the tombstones do not", tombstones + [.ready], nil),
            ("nor beside the architectures", tombstones + [.added("web.cordova", "a"), .ready], "a"),
            ("another architecture alone says nothing", [.added("web.browser", "b"), .ready], nil),
            ("a late document counts", [.ready, .added("web.cordova", "a")], "a"),
            ("an old server has one document", [.added("version-cordova", "a"), .ready], "a"),
            ("and others beside it", [.added("version", "x"), .added("version-cordova", "a"), .ready], "a"),
            (
                "a server with architectures has none of old",
                [.added("version-cordova", "a"), .added("web.browser", "b"), .ready], nil
            ),
            (
                "also where the architecture's is gone",
                [.added("version-cordova", "x"), .added("web.cordova", "a"), .ready, .removed("web.cordova")], nil
            ),
            ("outdated is never a version", [.added("web.cordova", "outdated"), .ready], nil),
            (
                "a change of other fields keeps it",
                [.added("web.cordova", "a"), .ready, .changed("web.cordova", .unmentioned)], "a"
            ),
            (
                "a change of the version counts",
                [.added("web.cordova", "a"), .ready, .changed("web.cordova", .stated("b"))], "b"
            ),
            (
                "a cleared version is unknown", [.added("web.cordova", "a"), .ready, .changed("web.cordova", .none)],
                nil
            ),
            ("a removed document is unknown", [.added("web.cordova", "a"), .ready, .removed("web.cordova")], nil),
            ("a document without a version says nothing", [.added("web.cordova", nil), .ready], nil),
            (
                "added again it starts anew",
                [.added("web.cordova", "a"), .ready, .begin, .added("web.cordova", nil), .ready], nil
            ),
            ("what is not sent again is gone", [.added("web.cordova", "a"), .ready, .begin, .ready], nil),
            (
                "what is sent again stays",
                [.added("web.cordova", "a"), .ready, .begin, .added("web.cordova", "a"), .ready], "a"
            ),
            (
                "after a server of old came one with architectures",
                [.added("version-cordova", "a"), .ready, .begin] + tombstones + [.added("web.cordova", "b"), .ready],
                "b"
            ),
            (
                "and back",
                [.added("web.cordova", "b"), .ready, .begin, .added("version-cordova", "a"), .ready], "a"
            ),
        ] as [(String, [Step], String?)])
    func `N-21: derives the version from the documents`(rule: String, steps: [Step], expected: String?) {
        #expect(Self.versions(steps).current == expected, "\(rule)")
    }

    @Test func `N-21: watches another architecture`() {
        let versions = Self.versions(
            [.added("web.cordova", "a"), .added("ios.native", "b"), .ready], architecture: "ios.native")
        #expect(versions.current == "b")
    }

    @Test func `N-21: limits the number of stored documents`() {
        var versions = ClientVersions(architecture: "web.cordova")
        for number in 0..<10_000 {
            versions.added(Self.change("web.\(number)", .stated("x")))
            versions.removed("web.other\(number)")
            versions.added(Self.change("other\(number)", .stated("x")))
        }
        versions.added(Self.change("web.cordova", .stated("a")))
        versions.ready()
        #expect(versions.current == "a")
        #expect("\(versions)".utf8.count < 10_000)
        // Removed documents count too.
        for number in 0..<10_000 {
            versions.removed("web.\(number % 64)")
            versions.added(Self.change("web.new\(number)", .stated("x")))
            versions.removed("web.new\(number)")
        }
        #expect("\(versions)".utf8.count < 10_000)
    }
}
