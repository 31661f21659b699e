package import BundleValues

/// One finding about a device.
package struct DoctorFinding: Sendable, Equatable {
    /// The severity of a finding.
    package enum Severity: String, Sendable, CaseIterable, Comparable {
        case ok
        /// The device works, but an operator should act.
        case warning
        /// The device does not update itself, or does not show its client.
        case failure

        /// Orders findings from good to bad.
        package static func < (left: Severity, right: Severity) -> Bool {
            allCases.firstIndex(of: left) ?? 0 < allCases.firstIndex(of: right) ?? 0
        }
    }

    package let code: FindingCode
    package let severity: Severity
    /// The name of the subject: a path, an address, or a port.
    package let subject: String
    /// The finding, as a sentence.
    package let message: String
    /// The remedy; nil if nothing has to be done.
    package let advice: String?

    static func ok(_ code: FindingCode, _ subject: String, _ message: String) -> DoctorFinding {
        DoctorFinding(code: code, severity: .ok, subject: subject, message: message, advice: nil)
    }

    /// Without `advice`, the remedy of the code is the advice.
    static func warning(_ code: FindingCode, _ subject: String, _ message: String, _ advice: String? = nil)
        -> DoctorFinding
    {
        DoctorFinding(
            code: code, severity: .warning, subject: subject, message: message, advice: advice ?? code.remedy)
    }

    static func failure(_ code: FindingCode, _ subject: String, _ message: String, _ advice: String? = nil)
        -> DoctorFinding
    {
        DoctorFinding(
            code: code, severity: .failure, subject: subject, message: message, advice: advice ?? code.remedy)
    }
}
