import BundleCore
import Testing

@Suite struct PageReferencesTests {
    private func asked(_ page: String) -> [String] {
        PageReferences(Array(page.utf8)).references.map { "\($0.element) \($0.directive) \($0.url)" }
    }

    @Test(arguments: [
        ("<script src=a.js></script>", ["script script-src a.js"]),
        ("<SCRIPT SRC='a.js' type=module></SCRIPT>", ["script script-src a.js"]),
        ("<script type=text/x-template src=a.txt></script>", []), ("<script>let a = '<img src=x>'</script>", []),
        ("<script type=module>import '/kiosk/app.js'</script>", ["script script-src /kiosk/app.js"]),
        (
            "<script type=module>import a, { b as c } from './a.js';export*from\"../b.js\"\nimport * as d from './d.js'</script>",
            ["script script-src ./a.js", "script script-src ../b.js", "script script-src ./d.js"]
        ),
        (
            "<script type=module>const a = await import('./a.js'); import('vue'); import(name)</script>",
            ["script with import() script-src ./a.js"]
        ),
        ("<script type=module>import 'vue'; import a from '//cdn.example/a.js'; x.import('/a.js')</script>", []),
        ("<script type=module>/* import '/a.js' */\n// import '/b.js'\nlet a = 'important'</script>", []),
        ("<script>import '/a.js'</script>", []),
        ("<template><script type=module>import '/a.js'</script></template>", []),
        (
            "<script type=importmap>{\"imports\": {\"vue\": \"./vue.js\", \"lib/\": \"/lib/\", \"x\": \"https://a.example/x.js\"}}</script>",
            ["script type=importmap script-src ./vue.js"]
        ), ("<script type=importmap>{</script>", []),
        ("<link rel='preconnect' href=//a>", []),
        ("<link rel='alternate stylesheet' href=a.css>", ["link style-src a.css"]),
        ("<link rel=modulepreload href=a.js>", ["link script-src a.js"]),
        ("<link rel='shortcut icon' href=i.png>", ["link img-src i.png"]),
        ("<link rel=manifest href=m.json>", ["link manifest-src m.json"]),
        ("<link rel=preload as=font href=f.woff2>", ["link font-src f.woff2"]), ("<link rel=preload href=f>", []),
        (
            "<img src='a.png?x=1&amp;y=2' srcset='b.png 1x, c.png 2x'>",
            ["img img-src a.png?x=1&y=2", "img img-src b.png", "img img-src c.png"]
        ),
        ("<img srcset='a.png, b.png'>", ["img img-src a.png", "img img-src b.png"]), ("<img srcset=', ,'>", []),
        ("<input type=image src=a.png><input src=b.png>", ["input img-src a.png"]),
        (
            "<video src=v poster=p></video><audio src=a></audio>",
            ["video media-src v", "video img-src p", "audio media-src a"]
        ),
        (
            "<iframe src=f></iframe><object data=o></object><embed src=e>",
            ["iframe frame-src f", "object object-src o", "embed object-src e"]
        ),
        ("<form action=https://a/><base href=/b/>", ["form form-action https://a/", "base base-uri /b/"]),
        ("<template><img src=a></template><img src=b>", ["img img-src b"]), ("<svg><image href=a /></svg>", []),
        ("<!-- <img src=a> --><textarea><img src=a></textarea><noscript><img src=a></noscript>", []),
        ("<img src=a><style><img src=b>", ["img img-src a"]), ("<plaintext><img src=a>", []), ("<img src=", []),
    ])
    func `reports the references of the markup`(page: String, references: [String]) {
        #expect(asked(page) == references)
    }

    @Test(arguments: [
        ("<button onclick='go()' ONLOAD=x>", ["onclick of <button>", "onload of <button>"]), ("<p on='x' once>", []),
        ("<a href='javascript:go()'>", ["href of <a>, which is a script"]), ("<a href='javascript:void(0)'>", []),
        ("<a href=' JavaScript:go()'>", ["href of <a>, which is a script"]), ("<svg onload=x()>", ["onload of <svg>"]),
        ("<script>a.onclick = b</script>", []), ("<div on-tap=x data-onclick=y>", []),
    ])
    func `reports scripts in attributes`(page: String, handlers: [String]) {
        #expect(PageReferences(Array(page.utf8)).handlers == handlers)
    }

    @Test func `reports the first base element of a page`() {
        #expect(PageReferences(Array("<base target=a><base href=b/><base href=c/>".utf8)).base == "b/")
    }

    @Test func `does not report the target of a form as loaded`() {
        let page = PageReferences(Array("<form action=a></form><img src=b>".utf8))
        #expect(page.references.map(\.isLoaded) == [false, true])
    }
}
