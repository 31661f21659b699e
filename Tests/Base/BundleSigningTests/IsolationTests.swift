import BundleSigning
import COpenSSL
import Glibc
import Testing

@Suite("OpenSSL isolation") struct IsolationTests {
    /// A configuration that removes the default provider and requires FIPS implementations, which do not exist here.
    static let hostileConfiguration = """
        openssl_conf = everything
        [everything]
        providers = providers
        alg_section = algorithms
        [algorithms]
        default_properties = fips=yes
        [providers]
        null = null_provider
        [null_provider]
        activate = 1

        """

    @Test func `ignores a configuration that other code loaded from OPENSSL_CONF`() async {
        await #expect(processExitsWith: .success) {
            let bench = try Workbench()
            try bench.write(Array(IsolationTests.hostileConfiguration.utf8), to: "openssl.cnf")
            setenv("OPENSSL_CONF", "\(bench.path)/openssl.cnf", 1)
            try #require(OPENSSL_init_crypto(UInt64(OPENSSL_INIT_LOAD_CONFIG), nil) == 1)
            try #require(EVP_MD_fetch(nil, "SHA256", nil) == nil, "the configuration file should break the process")
            ERR_clear_error()

            for algorithm in KeyAlgorithm.allCases {
                let key = try PrivateKey.generate(algorithm)
                let signature = try key.sign(message)
                #expect(try key.publicKey.verifies(signature: signature, over: message))
                #expect(try !key.publicKey.verifies(signature: signature, over: message + [0]))
                let pem = try key.pem(passphrase: [1, 2, 3])
                let again = try PrivateKey(parsingPEM: pem) { [1, 2, 3] }
                #expect(again.publicKey == key.publicKey)
                #expect(try PublicKey(parsingPEM: Array(key.publicKey.pem.utf8)) == key.publicKey)
            }
            var hasher = try SHA256Hasher()
            try hasher.update(Array("abc".utf8))
            #expect(try hasher.finish() == SHA256Digest.of(Array("abc".utf8)))
        }
    }

    @Test func `prevents other code from reading the configuration file after its first use`() async {
        await #expect(processExitsWith: .success) {
            let bench = try Workbench()
            try bench.write(Array(IsolationTests.hostileConfiguration.utf8), to: "openssl.cnf")
            setenv("OPENSSL_CONF", "\(bench.path)/openssl.cnf", 1)
            try OpenSSLIsolation.begin()
            let key = try PrivateKey.generate(.ecdsaP256)
            #expect(try key.publicKey.verifies(signature: key.sign(message), over: message))
            try #require(OPENSSL_init_crypto(UInt64(OPENSSL_INIT_LOAD_CONFIG), nil) == 1)
            let digest = EVP_MD_fetch(nil, "SHA256", nil)
            #expect(digest != nil, "the configuration file was read")
            EVP_MD_free(digest)
        }
    }

    @Test func `does not report errors that other code left in the queue`() throws {
        let pem = try PrivateKey.generate(.ed25519).pem(passphrase: [1])
        ERR_new()
        withVaList([]) { ERR_vset_error(ERR_LIB_PKCS12, PKCS12_R_PKCS12_CIPHERFINAL_ERROR, nil, $0) }
        defer { ERR_clear_error() }
        let damaged = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"
        let sealed = damaged.replacing("PRIVATE", with: "ENCRYPTED PRIVATE")
        let error = keyError { _ = try PrivateKey(parsingPEM: Array(sealed.utf8)) { [1] } }
        guard case .malformedDER = error else {
            Issue.record("answered with \(String(describing: error))")
            return
        }
        #expect(try PrivateKey(parsingPEM: pem) { [1] }.publicKey.algorithm == .ed25519)
    }
}
