import BundleValues
import Glibc
import Testing

import CCurl
@testable import BundleFetch

@Suite struct CurlFailureTests {
    private func failure(_ code: CURLcode, _ systemError: Int32 = 0, caFile: String? = nil) throws -> UpdateFailure {
        var options = FetchOptions(userAgent: "test")
        options.caFile = caFile
        return CurlFailure.error(
            code, explanation: "Couldn't connect to server", systemError: systemError,
            at: try FetchURL(parsing: "https://updates.example.com/manifest.json"), options: options
        ).failure
    }

    @Test(arguments: [EMFILE, ENFILE, ENOMEM, ENOBUFS]) func `reports exhausted resources of this machine`(code: Int32)
        throws
    {
        #expect(try failure(CURLE_COULDNT_CONNECT, code).code == .resourcesExhausted)
    }

    @Test(arguments: [EPERM, EACCES]) func `reports a connection that this machine does not allow`(code: Int32) throws {
        let failure = try failure(CURLE_COULDNT_CONNECT, code)
        #expect(failure.code == .networkUnavailable)
        #expect(failure.message.contains("on this machine"))
    }

    @Test(arguments: [0, ECONNREFUSED, ENETUNREACH]) func `reports an unreachable server`(code: Int32) throws {
        let failure = try failure(CURLE_COULDNT_CONNECT, code)
        #expect(failure.code == .networkUnavailable)
        #expect(!failure.message.contains("on this machine"))
    }

    @Test func `names missing CA certificates of the system or a file`() throws {
        #expect(try failure(CURLE_SSL_CACERT_BADFILE).message.contains("ca-certificates"))
        #expect(try failure(CURLE_SSL_CACERT_BADFILE, caFile: "/ca.pem").message.contains("the CA file /ca.pem"))
    }
}
