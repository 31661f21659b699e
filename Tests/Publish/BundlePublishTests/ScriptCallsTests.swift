import Testing

@testable import BundlePublish

/// The origins that a script seems to call.
@Suite struct ScriptCallsTests {
    private static func origins(_ script: String) -> [String] { ScriptCalls(Array(script.utf8)[...]).origins }

    @Test(arguments: [
        "fetch(\"https://a.example/x\")", "fetch( 'https://a.example' )", "fetch(`https://a.example/${id}`)",
        "fetch(`https://a.example${path}`)", "window.fetch(\"https://A.example/x\")",
        "await fetch\n(\"https://a.example/x\")",
        "new Request('https://a.example/x')", "new EventSource(\"https://a.example/events\")",
        "navigator.sendBeacon(\"https://a.example/b\",x)", "axios(\"https://a.example\")",
        "axios.get(\"https://a.example/x\")",
        "r.post('https://a.example/x',b)", "$.getJSON(\"https://a.example/x\")",
        "this.http.delete(\"https://a.example/x\")",
        "axios.create({baseURL:\"https://a.example/v1\"})", "axios.defaults.baseURL = 'https://a.example'",
        "{\"apiUrl\": \"https://a.example\"}", "window.API_URL='https://a.example'",
        "const VITE_={SERVER_URL:`https://a.example`}",
        "x.open(\"GET\",\"https://a.example/x\")", "x.open( 'POST' , 'https://a.example/x', true)",
        "const e=\"https://a.example\";fetch(e+\"/items\")", "const e='https://a.example/v1';fetch(`${e}/items`)",
        "var t=\"https://a.example\",n=fetch(t.concat(\"/x\"))", "const API = 'https://a.example/x'\nfetch(API)",
        "let api=\"https://a.example/x\";axios.get(api,{})", "io(\"https://a.example\")",
    ])
    func `finds a call of another origin`(script: String) {
        #expect(Self.origins(script) == ["https://a.example"])
    }

    @Test(arguments: [
        ("new WebSocket(\"wss://a.example/x\")", "wss://a.example"),
        ("const u='wss://a.example:8443/x'", "wss://a.example:8443"),
        ("fetch('http://10.0.0.5:8080/x')", "http://10.0.0.5:8080"),
        ("fetch('http://api.example/x')", "http://api.example"),
        ("fetch('https://a.example/x');fetch('https://a.example/y')", "https://a.example"),
    ])
    func `names the origin with its scheme and port`(script: String, origin: String) {
        #expect(Self.origins(script) == [origin])
    }

    @Test(arguments: [
        "fetch(\"/api\")", "// see https://a.example/docs", "a=\"https://a.example\"", "e.href=\"https://a.example\"",
        "prefetch(\"https://a.example\")", "radio(\"https://a.example\")",
        "createElementNS(\"http://www.w3.org/2000/svg\")",
        "var t=\"https://react.dev/errors/\"+e;fetch(t,{})", "var t=\"https://react.dev/errors/\"+e;fetch(t+n)",
        "var e=\"https://a.example\";fetch(e,t)", "var e=\"https://a.example\";fetch(e.url)",
        "const docs='https://a.example?q=1';fetch(docs)", "fetch(`https://${host}/x`)", "fetch('https://*.example/x')",
        "fetch('https://')", "://", "\"://\"", "https://", "fetch('https://a.example", "fetch('ftp://a.example')",
        "x.open(\"https://a.example\")", "f(\"GET\",\"https://a.example\")", "`${`https://", "fetch(",
        "import x from 'https://a.example/x.js'",
    ])
    func `ignores other texts`(script: String) {
        #expect(Self.origins(script) == [])
    }

    @Test func `reads a long script in linear time`() {
        let script = String(repeating: "fetch(a);x=\"https://h.example\"+e;", count: 100_000)
        let elapsed = ContinuousClock().measure { #expect(Self.origins(script) == []) }
        #expect(elapsed < .seconds(60))
    }
}
