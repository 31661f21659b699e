import ArchiveSource
import BundleArchive
import BundleCore
import BundleDisk
import BundleSigning
import BundleTesting
import BundleValues
import Synchronization
import Testing

@testable import BundlePublish

@Suite("FolderRule") struct FolderRuleTests {
    private func file(_ path: String, size: Int = 10, _ change: (inout FolderFacts) throws -> Void = { _ in }) throws
        -> FolderFacts
    {
        var facts = FolderFacts(try BundlePath(parsing: path), size: size)
        try change(&facts)
        return facts
    }

    private func found(_ files: [FolderFacts], _ rule: FolderRule = FolderRule()) -> [String] {
        rule.findings(of: files).map { finding in
            "\(finding.code) \(finding.path)" + (finding.detail.map { " \($0)" } ?? "")
        }
    }

    @Test func `finds nothing in a correct client`() throws {
        let page = PageReferences(Array("<script src=app.js></script><img src=/img/a.png>".utf8))
        #expect(
            found([
                try file("app.js"), try file("img/a.png", size: 11),
                try file("index.html", size: 12) { $0.page = page },
                try file("level1.map", size: 13), try file("app.js.gz", size: 14),
            ]) == [])
    }

    @Test(arguments: [
        ("app.js.map", "maps"), ("a/x.css.map", "maps"), ("x.wasm.map", "maps"), (".DS_Store", "junk"),
        ("a/.git/HEAD", "junk"),
        ("node_modules/a/b.js", "junk"), ("page.html~", "junk"), (".index.html.swp", "junk"), ("a/._b", "junk"),
        ("__MACOSX/x", "junk"), ("app.wasm", "wasm"),
    ])
    func `recognizes files by name`(path: String, code: String) throws {
        #expect(found([try file(path)]) == ["\(code) \(path)"])
    }

    @Test func `recognizes a source map by the file beside it`() throws {
        #expect(found([try file("chunk"), try file("chunk.map", size: 11)]) == ["maps chunk.map"])
    }

    @Test func `ignores allowed junk`() throws {
        let rule = FolderRule(allowed: [try #require(PathPattern("node_modules"))])
        #expect(found([try file("node_modules/x.js"), try file("x.js~", size: 11)], rule) == ["junk x.js~"])
    }

    @Test func `finds precompressed copies, also of source maps`() throws {
        let map = try BundlePath(parsing: "a.js.map")
        #expect(
            found([try file("a.js.map"), try file("a.js.map.br", size: 5) { $0.copied = map }])
                == ["precompressed a.js.map.br of a.js.map", "maps a.js.map", "maps a.js.map.br"])
    }

    @Test func `reports duplicates once for each further file`() throws {
        let digest = try SHA256Digest.of([1])
        let twin = try BundlePath(parsing: "b")
        let files = [
            try file("a") { $0.digest = digest }, try file("b") { $0.digest = digest },
            try file("c") { $0.digest = digest },
            try file("d") { $0.digest = try SHA256Digest.of([2]) }, try file("e", size: 0) { $0.digest = digest },
            try file("f") { ($0.digest, $0.copied) = (digest, twin) },
        ]
        #expect(found(files) == ["precompressed f of b", "duplicates b as a", "duplicates c as a"])
    }

    @Test(
        arguments: [
            ("100B", 100, nil, nil), ("100B", 101, nil, ReleaseBudget.Excess.size(by: 1)),
            ("+10%", 110, 100, nil), ("+10%", 111, 100, .growth(by: 11, allowed: 10)), ("+10%", 500, nil, nil),
            ("+5B", 105, 100, nil), ("+5B", 106, 100, .growth(by: 6, allowed: 5)), ("+0B", 99, 100, nil),
            ("200B,+5B", 106, 100, .growth(by: 6, allowed: 5)), ("+5B,200B", 201, 200, .size(by: 1)),
        ] as [(String, Int, Int?, ReleaseBudget.Excess?)])
    func `a budget limits the size of a release and its growth`(
        text: String, size: Int, previous: Int?, expected: ReleaseBudget.Excess?
    ) throws {
        #expect(try #require(ReleaseBudget(parsing: text)).excess(of: size, over: previous) == expected)
    }

    @Test(arguments: ["", "some", "5MB,6MB", "+1%,+2%", "+", "5MB,", "+x%"])
    func `parses a budget with a size, a growth or both`(text: String) { #expect(ReleaseBudget(parsing: text) == nil) }

    @Test(arguments: [
        ("index.html", "<img src=a.png>", nil), ("index.html", "<img src=./a.png?v=1#x>", nil),
        ("index.html", "<img src=/a.png>", nil),
        ("index.html", "<img src=b.png>", "missingFile index.html <img> b.png"),
        ("docs/x.html", "<img src=../a.png>", nil),
        ("docs/x.html", "<img src=a.png>", "missingFile docs/x.html <img> a.png"),
        ("index.html", "<img src='with%20space.png'>", nil),
        ("index.html", "<img src=../../a.png>", nil),
        ("index.html", "<iframe src=docs/></iframe>", "ownFrame index.html <iframe> docs/"),
        ("index.html", "<iframe src=docs></iframe>", "ownFrame index.html <iframe> docs"),
        ("index.html", "<iframe srcdoc='<p>'></iframe>", nil),
        ("index.html", "<iframe src=img/></iframe>", "missingFile index.html <iframe> img/"),
        ("index.html", "<base href=docs/><img src=a.png>", "missingFile index.html <img> a.png"),
        ("index.html", "<base href=/><img src=a.png>", nil),
        ("index.html", "<img src=''><img src=#a><img src='?'>", nil),
        ("index.html", "<img src=%zz>", nil), ("index.html", "<script src=/__clientctl/v1/page.js></script>", nil),
        ("index.html", "<form action=nowhere></form><a href=nowhere>", nil),
        ("index.html", "<img src=data:image/png,a>", nil),
        (
            "index.html", "<script src=data:text/javascript,a></script>",
            "foreignOrigin index.html <script> data:text/javascript,a"
        ),
        ("index.html", "<iframe src=about:blank></iframe>", nil),
        (
            "index.html", "<img src=https://cdn/a.png><img src=https://cdn/a.png>",
            "foreignOrigin index.html <img> https://cdn/a.png"
        ),
        ("index.html", "<p onclick=go()>", "inlineHandler index.html onclick of <p>"),
    ])
    func `reports the problems of a page`(path: String, text: String, finding: String?) throws {
        let files = [
            try file("a.png", size: 1), try file("with space.png", size: 2), try file("docs/index.html", size: 3),
            try file("img/x", size: 4), try file(path, size: 5) { $0.page = PageReferences(Array(text.utf8)) },
        ]
        #expect(found(files) == (finding.map { [$0] } ?? []))
    }

    @Test(arguments: [
        ("<script src=//CDN.example:8443/a.js></script>", "script-src https://cdn.example:8443"),
        ("<link rel=stylesheet href=https://h/a.css>", "style-src https://h"),
        ("<iframe src=http://h/></iframe>", "frame-src http://h"),
        ("<iframe src=/></iframe>", "frame-ancestors 'self'"),
        ("<form action=https://h/login>", "form-action https://h"), ("<base href=https://h/>", "base-uri https://h"),
        ("<video src=blob:x></video>", "media-src blob:"), ("<p onclick=x>", "script-src-attr 'unsafe-inline'"),
        ("<img src=https://{{host}}/a>", nil), ("<img src=blob:x>", nil),
    ])
    func `names the policy that would allow a reference`(text: String, allowance: String?) throws {
        let page = try file("index.html") { $0.page = PageReferences(Array(text.utf8)) }
        #expect(FolderRule().findings(of: [page]).map(\.allowance) == (allowance.map { [$0] } ?? []))
    }

    @Test(arguments: [
        ("<iframe src=https://h/x></iframe>", "frame https://h"), ("<img src=//h:8443/a>", "image https://h:8443"),
        ("<video src=https://h/a></video>", "media https://h"),
        ("<img src=http://10.0.0.1/a>", "image http://10.0.0.1"),
        ("<link rel=preload as=fetch href=https://h/a>", "connect https://h"),
    ])
    func `proposes the declaration that allows a reference, and accepts it`(text: String, declaration: String) throws {
        func findings(_ text: String) throws -> [FolderFinding] {
            let index = try file("index.html") {
                ($0.page, $0.origins) = (PageReferences(Array(text.utf8)), ReleaseOrigins(page: Array(text.utf8)))
            }
            return FolderRule().findings(of: [index]).filter { $0.code != .unencryptedOrigin }
        }
        let found = try findings(text)
        #expect(found.map(\.code) == [.foreignOrigin] && found.map(\.allowance) == [nil])
        let proposed = try #require(found.first?.declaration)
        #expect("\(proposed.purpose) \(proposed.origin)" == declaration)
        #expect(try findings(proposed.purpose.element(["\(proposed.origin)"]) + text) == [])
    }

    @Test func `reports calls that are not declared, and declarations that devices ignore`() throws {
        let text =
            "<meta name=clientctl:connect content='https://a.example http://10.0.0.1'><p><meta name=clientctl:frame content=x>"
        let files = [
            try file("a.js", size: 1) { $0.calls = ["https://a.example", "https://b.example", "http://c.example"] },
            try file("help.html", size: 2) { $0.page = PageReferences(Array(text.utf8)) },
            try file("index.html", size: 3) {
                ($0.page, $0.origins) = (PageReferences(Array(text.utf8)), ReleaseOrigins(page: Array(text.utf8)))
            },
        ]
        #expect(
            found(files) == [
                "undeclaredCall a.js https://b.example", "undeclaredCall a.js http://c.example",
                "ignoredDeclaration index.html clientctl:frame", "ignoredDeclaration help.html clientctl:connect",
                "ignoredDeclaration help.html clientctl:frame", "unencryptedOrigin index.html http://10.0.0.1",
            ])
        let calls = FolderRule().findings(of: files).prefix(2)
        #expect(calls.map { $0.declaration?.origin.description } == ["https://b.example", nil])
        #expect(calls.map(\.allowance) == [nil, "connect-src http://c.example"])
    }

    @Test(arguments: [
        ("eval(x)", true), ("a=eval('b')", true), ("new Function('a','return a')", true), ("Function(\"a\")", true),
        ("retrieval(x)", false), ("redis.eval(x)", false), ("isFunction(x)", false), ("$eval(x)", false),
        ("evaluate(x)", false),
        ("Function(\"return this\")()", false), ("new Function('return this')()", false), ("new Function()", false),
        ("", false),
        ("al(x)(", false), ("eval", false),
    ])
    func `detects scripts that evaluate text`(text: String, uses: Bool) {
        #expect(ScriptText.usesEval(Array(text.utf8)[...]) == uses)
    }

    @Test(arguments: [
        ("a.startupDidComplete()", true), ("a['startupDidComplete']()", true), ("startupDidComplet", false),
        ("a.notifyAppReady()", true), ("b.notifyApplicationReady(c)", true), ("registerPlugin('LiveUpdate')", true),
        ("codePush.sync()", true), ("", false),
    ])
    func `finds the call that confirms a start`(text: String, confirms: Bool) {
        #expect(ScriptText.confirms(Array("x\(text)".utf8)[1...]) == confirms)
    }

    @Test(arguments: [
        ("navigator.serviceWorker.register('sw.js')", true), ("n.serviceWorker?.register('sw.js')", true),
        ("'serviceWorker' in navigator", false), ("navigator.serviceWorker.ready", false), ("", false),
    ])
    func `finds the registration of a service worker`(text: String, registers: Bool) {
        #expect(ScriptText.registersWorker(Array(text.utf8)[...]) == registers)
    }

    @Test func `reports a client that never confirms its start only if every file was searched`() throws {
        func index(_ confirms: Bool?) throws -> FolderFacts { try file("index.html") { $0.confirms = confirms } }
        #expect(found([try index(false)]) == ["neverConfirms index.html"])
        #expect(found([try index(nil)]) == [])
        #expect(found([try index(false), try file("a.js", size: 11) { $0.confirms = true }]) == [])
    }

    @Test(arguments: [
        ("__clientctl/v1/page.js", true), ("clients/v1.0.0/index.html", true), ("clients/anne/orders.html", false),
        ("a/__clientctl/x", false), ("app.js", false),
    ])
    func `reports a path that the server reserves`(path: String, isReserved: Bool) throws {
        #expect(found([try file(path)]) == (isReserved ? ["reservedPath \(path)"] : []))
    }

    @Test(arguments: [
        (ArchiveFormat.zip, 65_534, 1, false), (.zip, 65_535, 1, true), (.zip, 1, 1 << 32, true),
        (.zip, 1, 1 << 31, false),
        (.tarZstd, 100_000, 1 << 40, false),
    ])
    func `refuses a zip with more files or bytes than the format allows`(
        format: ArchiveFormat, files: Int, bytes: Int, isRefused: Bool
    ) {
        #expect((format.problem(files: files, bytes: bytes) != nil) == isRefused)
    }

    @Test func `reports an empty index page, and no other page`() throws {
        let blank = try file("index.html", size: 1) {
            $0.isBlank = true
            $0.confirms = false
        }
        #expect(found([blank, try file("other.html") { $0.isBlank = true }]) == ["emptyPage index.html"])
    }

    @Test(arguments: [
        ("default-src 'none'", true), ("connect-src 'none'", true), ("connect-src https://api.example", true),
        ("default-src 'self'; connect-src", true),
        ("default-src 'self'; connect-src 'self' https://api.example", false),
        ("script-src 'self'; frame-src 'none'", false), ("connect-src *", false), ("CONNECT-SRC 'SELF'", false),
        ("connect-src http://127.0.0.1:*", false), ("connect-src 'self', default-src 'none'", true),
        ("connect-src 'self'; connect-src 'none'", false), ("", false),
    ])
    func `reports a policy that refuses the call which confirms a start`(policy: String, refuses: Bool) throws {
        let text = "<meta http-equiv=Content-Security-Policy content=\"\(policy)\">"
        let page = try file("index.html") { $0.page = PageReferences(Array(text.utf8)) }
        let code = FolderFinding.Code.blocksConfirmation
        #expect(FolderRule().findings(of: [page]).map(\.code) == (refuses ? [code] : []))
    }

    @Test func `reports scripts that the index page lacks, before files that other pages lack`() throws {
        func page(_ path: String, size: Int, _ text: String) throws -> FolderFacts {
            try file(path, size: size) { $0.page = PageReferences(Array(text.utf8)) }
        }
        let files = [
            try page("404.html", size: 1, "<script src=a.js></script><img src=b.png>"),
            try page("index.html", size: 2, "<script src=/main.js></script><img src=c.png>"),
        ]
        #expect(
            found(files) == [
                "missingScript index.html <script> /main.js", "missingFile index.html <img> c.png",
                "missingFile 404.html <script> a.js", "missingFile 404.html <img> b.png",
            ])
    }

    @Test(arguments: [
        ("const m = new SharedArrayBuffer(8)", true), ("new WebAssembly.Memory({initial:1,maximum:2,shared:!0})", true),
        ("new WebAssembly.Memory({ initial: 1, maximum: 2, shared: true })", true),
        ("if (typeof SharedArrayBuffer === 'undefined') go()", false), ("new WebAssembly.Memory({initial:1})", false),
        ("var options = {shared: true}", false),
    ])
    func `finds memory that threads share`(script: String, isFound: Bool) throws {
        #expect(ScriptText.sharesMemory(Array(script.utf8)[...]) == isFound)
        let finding = FolderRule().findings(of: [try file("a.js") { $0.sharesMemory = isFound }])
        #expect(finding.map(\.code) == (isFound ? [.sharedMemory] : []))
    }

    @Test func `reports eval with the policy that allows it`() throws {
        let finding = FolderRule().findings(of: [try file("a.js") { $0.usesEval = true }])
        #expect(finding.map(\.allowance) == ["script-src 'unsafe-eval'"])
        #expect(FolderRule().findings(of: [try file("a.wasm")]).map(\.allowance) == ["script-src 'wasm-unsafe-eval'"])
    }
}

@Suite("ArchivePacker") struct ArchivePackerTests {
    @Test func `reports compressed bytes, not queued ones`() throws {
        let folder = try TemporaryFolder()
        // Less than one job of the compressor, so nothing is compressed before the end.
        try folder.writeTree(["web/index.html": [1], "web/noise": noise(300_000)], to: ".")
        let version = try SemanticVersion(parsing: "1.0.0")
        let options = ReleaseOptions(
            version: version, shells: try ShellRange(minimum: version), createdAt: Timestamp(clamping: 1))
        let archive = try Directory.open(folder.path).file(creating: "archive")
        let early = Mutex<[Int]>([])
        let observer = UpdateObserver {
            guard case .packing(let bytes, _) = $0, (try? archive.size()) == 0 else { return }
            early.withLock { $0.append(bytes) }
        }
        let packer = ArchivePacker(
            tree: try CanonicalTree(try Directory.open(folder.file("web"))), options: options, report: observer)
        _ = try packer.pack(into: archive)
        #expect(early.withLock { !$0.isEmpty && $0.allSatisfy { $0 < 100_000 } }, "\(early.withLock { $0 })")
    }
}
