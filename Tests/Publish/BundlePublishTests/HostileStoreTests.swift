import ArchiveSource
import BundleCore
import BundleSigning
import BundleTestTraits
import BundleTesting
import BundleValues
import Synchronization
import Testing

@testable import BundlePublish

@Suite("BucketLocation", .ownThread) struct HostileStoreTests {
    private let document = Array("{}".utf8)

    private func refusal(_ body: () throws -> Void) -> UpdateFailure? {
        do {
            try body()
            return nil
        } catch {
            return UpdateFailure(error)
        }
    }

    @Test func `refuses a store that ignores conditions unless there is a single writer`() throws {
        let store = try Store { _, _ in .ignoreConditions }
        let refused = refusal {
            _ = try store.location().create("releases/v1.0.0/manifest.json", with: .bytes(document))
        }
        #expect(refused?.code == .configInvalid)
        #expect(refused?.message.contains("ignores the condition") == true)
        #expect(refused?.message.contains("--single-writer") == true)
        #expect(store.names == [])
        let single = try store.location(isSingleWriter: true)
        #expect(try single.create("releases/v1.0.0/manifest.json", with: .bytes(document)))
        #expect(try !single.create("releases/v1.0.0/manifest.json", with: .bytes([1])))
        #expect(store.object("releases/v1.0.0/manifest.json") == document)
    }

    @Test func `refuses a store that supports only one condition`() throws {
        for header in ["If-Match", "If-None-Match"] {
            let store = try Store { request, _ in request[header] == nil ? nil : .ignoreConditions }
            let refused = refusal { try store.location().replace("manifest.json", with: document, version: nil) }
            #expect(refused?.message.contains("--single-writer") == true)
            #expect(store.names == [])
        }
    }

    @Test func `refuses a store that responds with 501, or with 412 to everything`() throws {
        for status in [501, 412] {
            let store = try Store { request, _ in request.method == "PUT" ? .refuse(status) : nil }
            let refused = refusal { try store.location().replace("manifest.json", with: document, version: nil) }
            #expect(refused?.message.contains("responds with \(status)") == true, "\(refused?.message ?? "")")
        }
    }

    @Test func `writes to a store that accepts only tags without quotes, as radosgw does`() throws {
        let store = try Store { _, _ in .wantBareTags }
        let location = try store.location()
        try location.replace("a.json", with: document, version: nil)
        let version = try location.read("a.json", maximumBytes: 9)?.version
        try store.location().replace("a.json", with: [1], version: version)
        #expect(throws: FeedConflict("a.json", in: location)) {
            try location.replace("a.json", with: [2], version: version)
        }
        #expect(store.object("a.json") == [1])
    }

    @Test func `refuses a store that rejects matching tags, or ignores tags without quotes`() throws {
        for (fault, problem) in [
            (Store.Fault.refuse(412), "responds with 412"), (.ignoreConditions, "ignores the condition"),
        ] {
            let store = try Store { request, _ in
                request["If-Match"].map { $0.hasPrefix("\"") ? .refuse(412) : fault }
            }
            let refused = refusal { try store.location().replace("a.json", with: document, version: nil) }
            #expect(refused?.message.contains(problem) == true, "\(refused?.message ?? "")")
            #expect(store.names == [])
        }
    }

    @Test func `reads at most the expected size of a file`() throws {
        let store = try Store { request, _ in
            request.target.hasSuffix("archive") ? .answer(Route().with { $0.body = .endless }) : nil
        }
        let location = try store.location()
        var received = 0
        let refused = refusal { _ = try location.stream("archive", maximumBytes: 3000) { received += $0.count } }
        #expect(refused?.code == .sizeMismatch)
        #expect(received <= 3000)
        #expect(refusal { _ = try location.digest(of: "archive", maximumBytes: 9) }?.code == .sizeMismatch)
        #expect(try location.holds("archive", digest: .of([]), size: 9) == false)
        #expect(try location.holds("nothing", digest: .of([]), size: 9) == nil)
    }

    @Test func `aborts a listing that repeats a token or does not end`() throws {
        for isNew in [false, true] {
            let store = try Store { request, number in
                guard request.target.contains("list-type") else { return nil }
                let token = isNew ? "\(request.target.count)-\(request.target.hashValue)" : "again"
                let page =
                    "<ListBucketResult><NextContinuationToken>\(token)</NextContinuationToken></ListBucketResult>"
                return .answer(Route(Array(page.utf8)))
            }
            let refused = refusal { _ = try store.location().list("") }
            #expect(refused?.code == .networkUnavailable, "\(refused?.message ?? "")")
            #expect(refused?.message.contains("does not end") == true, "\(refused?.message ?? "")")
        }
    }

    @Test(arguments: ["<Contents><Key>", "<Contents>", "<Key>", "<Contents><Key></Contents>", "<"])
    func `parses unterminated elements in linear time`(element: String) throws {
        let page = Array(String(repeating: element, count: (4 << 20) / element.utf8.count).utf8)
        #expect(ObjectListing(page).objects == [])
    }

    @Test func `probes again after a concurrent probe or a lost response`() throws {
        let other = Mutex<(@Sendable () -> Void)?>(nil)
        for isLost in [false, true] {
            let store = try Store { request, number in
                guard request.method == "PUT", request.target.hasSuffix("probe"), number == 4 else { return nil }
                if isLost { return .forget }
                other.withLock { $0 }?()
                return nil
            }
            other.withLock { $0 = { store.set(".clientctl-probe", [9]) } }
            try store.location().replace("a.json", with: document, version: nil)
            #expect(store.object("a.json") == document)
            #expect(store.puts(".clientctl-probe").count > 4)
        }
        other.withLock { $0 = nil }
    }

    @Test func `retries when the store is busy or fails`() throws {
        let store = try Store { request, number in
            request.target.hasSuffix("probe") || number > 3 ? nil : .refuse(number == 1 ? 503 : 500, "SlowDown")
        }
        let location = try store.location()
        #expect(try location.create("a.json", with: .bytes(document)))
        #expect(store.puts("a.json").count == 4)
        #expect(try location.read("a.json", maximumBytes: 9)?.bytes == document)
        let broken = try Store { request, _ in request.target.hasSuffix("probe") ? nil : .refuse(503, "SlowDown") }
        let refused = refusal { _ = try broken.location().create("a.json", with: .bytes(document)) }
        #expect(refused?.code == .httpStatus)
        #expect(refused?.message.contains("503 (SlowDown)") == true)
        #expect(broken.puts("a.json").count == 5)
    }

    @Test func `recognizes a write that succeeded without a response`() throws {
        let store = try Store { request, number in
            request.method == "PUT" && !request.target.hasSuffix("probe") && number == 1 ? .forget : nil
        }
        let location = try store.location()
        #expect(try location.create("a.json", with: .bytes(document)))
        #expect(store.puts("a.json").count == 2)
        try location.replace("b.json", with: document, version: nil)
        #expect(store.puts("b.json").count == 2)
        #expect(store.object("b.json") == document)
    }

    @Test func `reports a conflict if another publisher wrote before the retry`() throws {
        let other = Mutex<(@Sendable () -> Void)?>(nil)
        let store = try Store { request, number in
            guard request.method == "PUT", !request.target.hasSuffix("probe") else { return nil }
            if number == 2 { other.withLock { $0 }?() }
            return number == 1 ? .forget : nil
        }
        other.withLock { $0 = { store.set("a.json", [9]) } }
        let location = try store.location()
        #expect(throws: FeedConflict("a.json", in: location)) {
            try location.replace("a.json", with: document, version: nil)
        }
        #expect(store.object("a.json") == [9])
        other.withLock { $0 = nil }
    }

    @Test func `treats 409 as a conflict, and repeats the creation of a file`() throws {
        let store = try Store { request, number in
            request.method == "PUT" && !request.target.hasSuffix("probe") && number == 1 ? .refuse(409) : nil
        }
        let location = try store.location()
        #expect(throws: FeedConflict("a.json", in: location)) {
            try location.replace("a.json", with: document, version: nil)
        }
        #expect(store.puts("a.json").count == 1)
        #expect(try location.create("b.json", with: .bytes(document)))
        #expect(store.puts("b.json").count == 2)
    }

    @Test func `reports a missing bucket and a refusal without secrets`() throws {
        let missing = try Store { _, _ in .refuse(404, "NoSuchBucket") }
        #expect(refusal { _ = try missing.location().read("a.json", maximumBytes: 9) }?.code == .configInvalid)
        #expect(refusal { _ = try missing.location().create("a.json", with: .bytes(document)) }?.code == .configInvalid)
        let refusing = try Store { _, _ in .refuse(403, "SignatureDoesNotMatch") }
        for refused in [
            refusal { _ = try refusing.location().read("a.json", maximumBytes: 9) },
            refusal { _ = try refusing.location().create("a.json", with: .bytes(document)) },
        ] {
            #expect(refused?.code == .httpStatus)
            #expect(refused?.message.contains("AWS_SECRET_ACCESS_KEY") == true)
            #expect(refused?.message.contains("very-secret") == false)
        }
    }

    @Test func `sends caching headers, and a digest with every request`() throws {
        let store = try Store()
        let location = try store.location()
        for name in [
            "releases/v1.0.0/client.tar.zst", "releases/v1.0.0/deltas.json", "channels/stable/1.json",
            "channels/stable.json", "manifest.json", "trust/1.json",
        ] {
            #expect(try location.create(name, with: .bytes(document)))
            let sent = try #require(store.puts(name).first)
            let isOnce = name.hasSuffix(".zst") || name.hasSuffix("/stable/1.json")
            #expect(
                sent["Cache-Control"]
                    == (isOnce ? "public, max-age=31536000, immutable" : "public, max-age=30, must-revalidate"),
                "\(name)")
            #expect(sent["Content-Type"] == (name.hasSuffix(".zst") ? "application/zstd" : "application/json"))
            #expect(sent["Content-Encoding"] == nil)
            #expect(sent["x-amz-content-sha256"]?.count == 64)
            #expect(sent["x-amz-security-token"] == "token-secret")
            #expect(sent["Expect"] == nil)
        }
    }
}

@Suite("Channel edits in a bucket", .ownThread) struct BucketChannelTests {
    private let workspace: Workspace

    init() throws { workspace = try Workspace() }

    private func signed(_ document: ChannelDocument) throws -> [UInt8] {
        try [workspace.channel].sign(ChannelFormat.envelope(document)).document
    }

    /// Returns a store with a channel that another publisher changes just before the first replacement.
    private func contested() throws -> (Store, expected: () throws -> ChannelDocument) {
        let first = try workspace.document("1.0.0", "1.1.0")
        var second = first
        second.sequence = 2
        second.releases[1].rollout = 10
        let bytes = try signed(second)
        let location = Mutex<(@Sendable () -> Void)?>(nil)
        let store = try Store { request, number in
            if request.method == "PUT", request.target.hasSuffix("channels/stable.json"), number == 1 {
                location.withLock { $0 }?()
            }
            return nil
        }
        store.set("channels/stable.json", try signed(first))
        location.withLock { $0 = { store.set("channels/stable.json", bytes) } }
        return (
            store,
            {
                try ChannelFormat.parse(ChannelFormat.envelope(parsing: store.object("channels/stable.json") ?? []))
                    .claims
            }
        )
    }

    @Test func `repeats an edit after a concurrent one, and keeps both`() throws {
        let (store, document) = try contested()
        let report = try ChannelEditor(feed: store.location(), workspace.terms()).apply(
            .pause(workspace.version("1.0.0")), to: "stable")
        #expect(report.document.sequence == 3)
        #expect(try document().releases.map(\.isPaused) == [true, false])
        #expect(try document().releases.map(\.rollout) == [1000, 10])
        #expect(store.puts("channels/stable.json").count == 2)
    }

    @Test func `repeats a hold after a concurrent change of the channel`() throws {
        let guardian = try Workspace.signer()
        var root = try workspace.root([try Workspace.signer()], channel: workspace.channel)
        _ = try TrustEdit.add(guardian.publicKey, to: .guard, threshold: nil, notAfter: nil).apply(to: &root)
        root.expires = workspace.start.adding(.seconds(365 * 86_400))
        let first = try workspace.document("1.0.0", "1.1.0")
        var second = first
        second.sequence = 2
        let (hold, bytes) = (HoldEditor.path(of: "stable"), try signed(second))
        let location = Mutex<(@Sendable () -> Void)?>(nil)
        let store = try Store { request, _ in
            if request.method == "PUT", request.target.hasSuffix(hold) {
                location.withLock { change in
                    change?()
                    change = nil
                }
            }
            return nil
        }
        store.set("channels/stable.json", try signed(first))
        store.set("trust.json", TrustRootFormat.envelope(root).document)
        location.withLock { $0 = { store.set("channels/stable.json", bytes) } }
        let writer = HoldEditor(try store.location(), terms: workspace.terms([guardian]))
        #expect(try writer.hold(workspace.version("1.1.0"), of: "stable", reason: "too many").sequence == 2)
        #expect(store.puts(hold).count == 2)
    }

    @Test func `does not repeat an edit with an expected sequence`() throws {
        let (store, document) = try contested()
        var terms = workspace.terms()
        terms.expectedSequence = 1
        let refused = workspace.refusal {
            _ = try ChannelEditor(feed: store.location(), terms).apply(.pause(workspace.version("1.0.0")), to: "stable")
        }
        #expect(refused?.code == .rollbackAttempt)
        #expect(refused?.code.exitStatus == 22)
        #expect(try document().sequence == 2)
    }

    @Test func `gives an error after six conflicts`() throws {
        let store = try Store { request, _ in
            request.method == "PUT" && request.target.hasSuffix("channels/stable.json") ? .refuse(412) : nil
        }
        store.set("channels/stable.json", try signed(workspace.document("1.0.0")))
        let refused = workspace.refusal {
            _ = try ChannelEditor(feed: store.location(), workspace.terms()).apply(
                .pause(workspace.version("1.0.0")), to: "stable")
        }
        #expect(refused?.code == .storeLocked)
        #expect(store.puts("channels/stable.json").count == 6)
    }
}

@Suite("BucketResponses", .ownThread) struct BucketResponsesTests {
    @Test(arguments: [
        ("s3://bucket", "s3://bucket"), ("s3://my.bucket-1/a/b/", "s3://my.bucket-1/a/b"), ("s3://b", nil),
        ("s3://Bucket", nil), ("s3://bucket/a//b", nil), ("s3://bucket/a b", nil), ("s3://bucket/../x", nil),
        ("s3://bucket/a+b", nil), ("https://bucket", nil), ("s3:///x", nil),
    ]) func `parses bucket addresses`(text: String, expected: String?) {
        #expect(BucketAddress(parsing: text)?.description == expected)
    }

    @Test func `reads profiles of a credentials file`() {
        let text =
            "# x\n[default]\naws_access_key_id = A\r\n\n[ other ]\naws_access_key_id=B\naws_secret_access_key = s=/+ \n"
        #expect(BucketCredentials.profile("default", in: text) == ["aws_access_key_id": "A"])
        #expect(
            BucketCredentials.profile("other", in: text) == ["aws_access_key_id": "B", "aws_secret_access_key": "s=/+"])
        #expect(BucketCredentials.profile("third", in: text) == nil)
    }

    @Test func `reads keys from a command, and does not print them`() throws {
        let keys = try BucketCredentials.command(#"echo '{"Version":1,"AccessKeyId":"A","SecretAccessKey":"hidden"}'"#)
        #expect(!"\(keys)".contains("hidden"))
        for line in [
            "echo '{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"hid den\"}'", "echo hidden", "echo hidden; exit 3",
        ] {
            let refused = #expect(throws: UpdateFailure.self) { try BucketCredentials.command(line) }
            #expect(refused?.code == .configInvalid)
            #expect(refused?.message.contains("hid") == false)
        }
    }

    @Test func `parses the pages of a listing`() {
        let page = ObjectListing(
            Array(
                "<R><NextContinuationToken>a&amp;b</NextContinuationToken><Contents><Key>x/a</Key><Size>3</Size><LastModified>2026-11-23T14:26:38.120Z</LastModified></Contents><Contents><Key>y</Key></Contents><Contents><Key>z&lt;</Key><Size>4</Size></Contents></R>"
                    .utf8))
        #expect(page.next == "a&b")
        #expect(page.objects.map(\.name) == ["x/a", "z<"])
        #expect(page.objects.map(\.size) == [3, 4])
        #expect(page.objects.map { $0.written?.description } == ["2026-11-23T14:26:38Z", nil])
    }
}
