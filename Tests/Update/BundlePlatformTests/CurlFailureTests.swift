import BundleValues
import Glibc
import Testing

import CCurl
@testable import BundlePlatform

/// Whose fault it is that there is no connection.
@Suite struct CurlFailureTests {
    private func failure(_ code: CURLcode, _ systemError: Int32 = 0, caFile: String? = nil) throws -> UpdateFailure {
        var options = FetchOptions(userAgent: "test")
        options.caFile = caFile
        return CurlFailure.error(
            code, explanation: "Couldn't connect to server", systemError: systemError,
            at: try FetchURL(parsing: "https://updates.example.com/manifest.json"), options: options
        ).failure
    }

    @Test(arguments: [EMFILE, ENFILE, ENOMEM, ENOBUFS]) func `a machine that has nothing left is told of`(code: Int32)
        throws
    {
        #expect(try failure(CURLE_COULDNT_CONNECT, code).code == .resourcesExhausted)
    }

    @Test(arguments: [EPERM, EACCES]) func `a machine that does not let it connect is told of`(code: Int32) throws {
        let told = try failure(CURLE_COULDNT_CONNECT, code)
        #expect(told.code == .networkUnavailable)
        #expect(told.message.contains("on this machine"))
    }

    @Test(arguments: [0, ECONNREFUSED, ENETUNREACH]) func `a server that is not there is one`(code: Int32) throws {
        let told = try failure(CURLE_COULDNT_CONNECT, code)
        #expect(told.code == .networkUnavailable)
        #expect(!told.message.contains("on this machine"))
    }

    @Test func `certificates that are missing are named, be they the machine's own or a file's`() throws {
        #expect(try failure(CURLE_SSL_CACERT_BADFILE).message.contains("ca-certificates"))
        #expect(try failure(CURLE_SSL_CACERT_BADFILE, caFile: "/ca.pem").message.contains("the CA file /ca.pem"))
    }
}
