import Testing

@testable import BundleFormats
@testable import BundleCore

@Suite struct RequiredEndpointsTests {
    private let addresses = ["/api/health", "https://api.example.com/health"]

    private func decide(
        _ first: RequiredEndpoints.EndpointAnswer?, _ second: RequiredEndpoints.EndpointAnswer?, isOver: Bool = true,
        hasNetwork: Bool = true
    ) -> RequiredEndpoints.EndpointDecision {
        var answers: [String: RequiredEndpoints.EndpointAnswer] = [:]
        answers[addresses[0]] = first
        answers[addresses[1]] = second
        return RequiredEndpoints.decide(addresses, answers: answers, isOver: isOver, hasNetwork: hasNetwork)
    }

    @Test func `passes when every address has answered with success`() {
        #expect(decide(.status(200), .status(204), isOver: false) == .passed)
        #expect(RequiredEndpoints.decide([], answers: [:], isOver: false, hasNetwork: false) == .passed)
        #expect(decide(.status(200), nil, isOver: false) == .waiting)
        #expect(decide(.status(200), .status(503), isOver: false) == .waiting)
    }

    @Test func `fails after the timeout with the address and its answer`() {
        #expect(decide(.status(503), .status(200)) == .failed("/api/health answered with status 503"))
        #expect(
            decide(.status(200), .unreachable("TypeError"))
                == .failed("https://api.example.com/health cannot be reached: TypeError"))
        #expect(decide(nil, .status(200)) == .failed("/api/health has not answered"))
    }

    @Test func `neither passes nor fails without a network`() {
        #expect(decide(.status(200), .unreachable("TypeError"), hasNetwork: false) == .waiting)
        #expect(decide(nil, nil, hasNetwork: false) == .waiting)
        // An answer needs a network.
        #expect(decide(.status(500), nil, hasNetwork: false) == .failed("/api/health answered with status 500"))
    }

    @Test(arguments: ["", "health", "//host/health", "ftp://host/health", "https://", "/a b", "/\u{e9}"])
    func `refuses an address that is neither a path nor a web address`(address: String) {
        #expect(RequiredEndpoints.refusal([address]) != nil)
    }

    @Test func `accepts up to eight paths and web addresses`() {
        #expect(RequiredEndpoints.refusal(addresses) == nil)
        #expect(RequiredEndpoints.refusal([]) != nil)
        #expect(RequiredEndpoints.refusal((0...8).map { "/\($0)" }) != nil)
    }
}
