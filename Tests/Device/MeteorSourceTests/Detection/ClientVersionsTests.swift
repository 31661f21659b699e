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
            ("the version is unknown before ready", [.added("web.cordova", "a")], nil),
            (
                "the architecture's document has the version",
                [.added("web.cordova", "a"), .added("web.browser", "b"), .ready],
                "a"
            ),
            ("tombstones are ignored", tombstones + [.ready], nil),
            ("tombstones beside architectures are ignored", tombstones + [.added("web.cordova", "a"), .ready], "a"),
            ("another architecture has no version for this one", [.added("web.browser", "b"), .ready], nil),
            ("a late document has the version", [.ready, .added("web.cordova", "a")], "a"),
            ("an old server has one document", [.added("version-cordova", "a"), .ready], "a"),
            (
                "an old server may have other documents",
                [.added("version", "x"), .added("version-cordova", "a"), .ready], "a"
            ),
            (
                "a server with architectures does not use an old document",
                [.added("version-cordova", "a"), .added("web.browser", "b"), .ready], nil
            ),
            (
                "an old document is not used after the architecture's was removed",
                [.added("version-cordova", "x"), .added("web.cordova", "a"), .ready, .removed("web.cordova")], nil
            ),
            ("outdated is not a version", [.added("web.cordova", "outdated"), .ready], nil),
            (
                "a change of other fields keeps the version",
                [.added("web.cordova", "a"), .ready, .changed("web.cordova", .unmentioned)], "a"
            ),
            (
                "a change of the version is used",
                [.added("web.cordova", "a"), .ready, .changed("web.cordova", .stated("b"))], "b"
            ),
            (
                "a cleared version is unknown", [.added("web.cordova", "a"), .ready, .changed("web.cordova", .none)],
                nil
            ),
            ("a removed document is unknown", [.added("web.cordova", "a"), .ready, .removed("web.cordova")], nil),
            ("a document without a version is ignored", [.added("web.cordova", nil), .ready], nil),
            (
                "a document that is added again replaces the old one",
                [.added("web.cordova", "a"), .ready, .begin, .added("web.cordova", nil), .ready], nil
            ),
            (
                "a document that is not sent again is removed", [.added("web.cordova", "a"), .ready, .begin, .ready],
                nil
            ),
            (
                "a document that is sent again stays",
                [.added("web.cordova", "a"), .ready, .begin, .added("web.cordova", "a"), .ready], "a"
            ),
            (
                "a new server with architectures replaces an old one",
                [.added("version-cordova", "a"), .ready, .begin] + tombstones + [.added("web.cordova", "b"), .ready],
                "b"
            ),
            (
                "an old server replaces one with architectures",
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
