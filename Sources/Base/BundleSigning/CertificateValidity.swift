import COpenSSL

/// The validity of X.509 certificates.
package enum CertificateValidity {
    /// Returns the seconds since 1970 at which the first certificate of a PEM file expires; nil if there is none.
    package static func end(ofPEM bytes: [UInt8]) -> Int? {
        bytes.withUnsafeBytes { bytes in
            guard let source = BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count)) else { return nil }
            defer { BIO_free(source) }
            guard let certificate = PEM_read_bio_X509(source, nil, nil, nil) else {
                ERR_clear_error()
                return nil
            }
            defer { X509_free(certificate) }
            guard let end = X509_get0_notAfter(certificate) else { return nil }
            let epoch = ASN1_TIME_set(nil, 0)
            defer { ASN1_STRING_free(epoch) }
            var (days, seconds): (Int32, Int32) = (0, 0)
            guard ASN1_TIME_diff(&days, &seconds, epoch, end) == 1 else { return nil }
            return Int(days) * 86_400 + Int(seconds)
        }
    }
}
