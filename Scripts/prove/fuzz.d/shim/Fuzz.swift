// fuzz: max_len=4096
//
// Injects the shim into a page in one place, without other changes, and reads the origins that the page declares.
@testable import BundleFormats
@testable import BundleCore
@testable import BundleValues

private let script = Array("shim()".utf8)

func fuzz(_ input: [UInt8]) throws {
    let outline = HTMLOutline(input)
    check(outline, of: input)
    for origin in ReleaseOrigins(page: input).origins.values.joined() {
        require(
            "\(origin)".utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && !"';,*\"".utf8.contains($0) },
            "a declared origin is one source of a policy")
    }
    let page = ShimInjector.inject(script, into: input)
    guard page != input else {
        require(
            outline.scripts.contains { input[$0.text].elementsEqual(script) }, "the shim is added to a page without it")
        return
    }
    require(isAdded(script, to: input, page, outline.nonce), "only the shim is added")
    require(ShimInjector.inject(script, into: page) == page, "a page with the shim is unchanged")
    require(
        HTMLOutline(page).scripts.contains { page[$0.text].elementsEqual(script) }, "the shim is a script of the page")
    let served = ShimInjector.inject(into: input)
    require(
        served.count - input.count - ShimInjector.shim.count == page.count - input.count - script.count,
        "the real shim is added too")
}

private func check(_ outline: HTMLOutline, of page: [UInt8]) {
    require(0...outline.scriptStart ~= outline.headStart && outline.scriptStart <= page.count, "places are in the page")
    var behind = 0
    for text in outline.scripts.map(\.text) {
        require(behind <= text.lowerBound && !text.isEmpty && text.upperBound <= page.count, "scripts are in order")
        behind = text.upperBound
    }
    if let nonce = outline.nonce {
        require(
            !nonce.isEmpty && !nonce.utf8.contains { [0x22, 0x3C, 0x3E].contains($0) }, "a nonce stays in its quotes")
    }
}

/// Returns whether `page` is `input` with the script element added in one place.
private func isAdded(_ script: [UInt8], to input: [UInt8], _ page: [UInt8], _ nonce: String?) -> Bool {
    let tag = nonce.map { "<script nonce=\"\($0)\">" } ?? "<script>"
    let element = Array(tag.utf8) + script + Array("</script>".utf8)
    guard page.count == input.count + element.count else { return false }
    let same = zip(input, page).prefix { $0 == $1 }.count
    return (max(0, same - element.count)...same).contains { place in
        page[place..<place + element.count].elementsEqual(element)
            && input[place...].elementsEqual(page[(place + element.count)...])
    }
}
