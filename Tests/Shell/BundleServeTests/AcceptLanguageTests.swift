@testable import BundleServe
import Testing

@Suite struct AcceptLanguageTests {
    @Test(arguments: [
        ("de", "de"), ("de-DE,de;q=0.9,en;q=0.8", "de"), ("DE-at", "de"), ("fr;q=0.5, ja;q=0.7", "ja"),
        ("pt-BR, es;q=0.1", "es"), ("de;q=0, fr", "fr"), ("*", "en"), ("pt, *;q=0.1", "en"), ("zh-Hant-TW", "zh-hant"),
        ("pt", nil), ("", nil), (",;q=1,", nil), ("de;q=x", "de"),
    ])
    func `chooses the best language that a user accepts`(accepted: String, language: String?) {
        #expect(AcceptLanguage.choice(accepted, from: ["en", "de", "es", "fr", "ja", "zh-hant"]) == language)
    }
}
