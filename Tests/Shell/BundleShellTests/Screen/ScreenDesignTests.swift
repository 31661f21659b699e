import BundleCore
import BundleServe
import BundleTestTraits
import BundleTesting
import BundleValues
@testable import BundleShell
@testable import ClientServer
import Testing

@Suite struct ScreenTextsTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func texts(_ json: String) throws -> ScreenTexts {
        try ScreenTexts(file: try folder.write(Array(json.utf8), to: "texts.json"))
    }

    @Test(arguments: ["en", "de", "fr", "es", "ja"]) func `has every sentence in a language`(language: String) {
        for key in ScreenTexts.Sentence.allCases {
            let sentence = ScreenTexts.standard.sentence(key, in: language)
            #expect(sentence != key.rawValue, "\(key.rawValue)")
            if language != "en" { #expect(sentence != ScreenTexts.standard.sentence(key, in: "en"), "\(key.rawValue)") }
            #expect(sentence.contains("{code}") == [.failureText, .noAnswerText, .checkFailedText].contains(key))
            #expect(sentence.contains("{time}") == [.sinceText, .noAnswerText, .checkFailedText].contains(key))
            #expect(sentence.contains("{host}") == (key == .noAnswerText))
            #expect(sentence.contains("{version}") == (key == .noticeText))
        }
    }

    @Test func `replaces sentences and adds languages`() throws {
        let texts = try texts(
            #"{"en": {"locked.title": "Closed"}, "pt-BR": {"locked.title": "Fechado"}, "de-AT": {"locked.text": "Zu."}}"#
        )
        #expect(texts.languages == ["en", "de", "de-at", "es", "fr", "ja", "pt-br"])
        #expect(texts.sentence(.lockedTitle, in: "en") == "Closed")
        #expect(texts.sentence(.lockedText, in: "en") == ScreenTexts.standard.sentence(.lockedText, in: "en"))
        #expect(texts.sentence(.lockedTitle, in: "pt-br") == "Fechado")
        #expect(texts.sentence(.signedOutTitle, in: "pt-br") == "Signed out")
        #expect(texts.sentence(.lockedText, in: "de-at") == "Zu.")
        #expect(texts.sentence(.lockedTitle, in: "de-at") == "Gesperrt")
    }

    @Test(arguments: [
        ("[]", "not a JSON object"), ("{", "not a JSON object"), (#"{"en": 1}"#, "no object for the language en"),
        (#"{"en": {"locked.titel": "x"}}"#, "unknown key locked.titel"),
        (#"{"en": {"locked.title": ""}}"#, "1 to 500 characters for locked.title"),
        (#"{"en": {"locked.title": 1}}"#, "1 to 500 characters for locked.title"),
        (#"{"english": {}}"#, "not a language tag"), (#"{"e\"><script>": {}}"#, "not a language tag"),
    ])
    func `rejects a file with other content`(json: String, problem: String) throws {
        let failure = #expect(throws: UpdateFailure.self) { try texts(json) }
        #expect(
            failure?.code == .configInvalid && failure?.message.contains(problem) == true, "\(failure?.message ?? "")")
    }
}

@Suite struct ScreenStyleTests {
    @Test(arguments: [
        "", "body { background: #fff }", "h1 { background: url(data:image/png;base64,AAAA) }",
        "p { background: URL( 'data:image/svg+xml,x' ) }", "a { color: currentColor } /* résumé */",
    ])
    func `accepts a style sheet without resources`(css: String) throws {
        #expect(try ScreenStyle(parsing: Array(css.utf8)).css == css)
    }

    @Test(arguments: [
        ("@import 'https://a.example/b.css';", ScreenStyle.StyleRefusal.import_), ("@IMPORT url(x)", .import_),
        ("p { background: url(https://a.example/b.png) }", .resource), ("p { background: UrL( b.png ) }", .resource),
        ("p { background: url() }", .resource), ("p { background: image-set('b.png' 1x) }", .resource),
        ("p { background: src('b.png') }", .resource), ("p { background: u\\72l(b.png) }", .escape),
        ("</style><script>", .endTag),
    ])
    func `rejects a style sheet that could load a resource or end its element`(
        css: String, refusal: ScreenStyle.StyleRefusal
    ) {
        #expect(throws: refusal) { try ScreenStyle(parsing: Array(css.utf8)) }
    }

    @Test func `rejects bytes that are not UTF-8`() {
        #expect(throws: ScreenStyle.StyleRefusal.notText) { try ScreenStyle(parsing: [0xFF]) }
    }
}

@Suite struct StatePageTests {
    private func text(_ state: LaunchState?, _ design: ScreenDesign) throws -> String {
        let page = try #require(StatePage(state, since: Timestamp(clamping: 1_796_000_000))).page(design)
        return String(decoding: page.site.index.after, as: UTF8.self)
    }

    @Test func `names the device only where it has no content, and the reason of a device that waits`() throws {
        let design = ScreenDesign(device: "Lobby 3")
        func waiting(_ code: FailureCode, _ subject: String) -> LaunchState {
            .waiting(reason: UpdateFailure(code, subject: subject, "message"))
        }
        let silent = try text(waiting(.networkUnavailable, "https://updates.example.com/m.json?sig=secret"), design)
        #expect(silent.contains("Lobby 3<br>No answer from updates.example.com since 2026-11-"))
        #expect(!silent.contains("secret") && !silent.contains("m.json"))
        #expect(try text(waiting(.httpStatus, "https://a.example/"), design).contains("(httpStatus)."))
        let first = try text(waiting(.configInvalid, "store"), design)
        #expect(first.contains("Lobby 3<br>Since 2026-11-") && !first.contains("configInvalid"))
        for state in [LaunchState.locked, .maintenance] { #expect(!(try text(state, design).contains("Lobby"))) }
        #expect(try text(nil, design).contains("<p class=\"device\">Lobby 3</p>"))
    }

    @Test func `shows the texts and the style of an operator`() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write(Array(#"{"en": {"failure.text": "Call <1> ({code})"}}"#.utf8), to: "texts.json")
        let design = ScreenDesign(
            texts: try ScreenTexts(file: path), style: try ScreenStyle(parsing: Array("h1{color:red}".utf8)))
        let text = try text(.failure(reason: UpdateFailure(.storeDamaged, subject: "x", "y")), design)
        #expect(text.contains("<p>Call &lt;1&gt; (storeDamaged)</p>") && text.contains("h1{color:red}</style>"))
    }

    @Test func `writes the texts of the notice so that they cannot end its script`() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write(
            Array(#"{"en": {"notice.text": "</script><b>{version}"}}"#.utf8), to: "texts.json")
        let design = ScreenDesign(texts: try ScreenTexts(file: path))
        let script = try #require(try UpdateNotice(minimum: SemanticVersion(parsing: "9.0.0")).script(design))
        let text = String(decoding: script.script, as: UTF8.self)
        #expect(!text.contains("</script") && text.contains("\\u003Cb>9.0.0"))
    }
}
