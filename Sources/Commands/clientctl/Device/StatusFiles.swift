import BundleCore
import BundleValues
import ClientShell

/// Stores the errors of pages and of checks for `clientctl status`, which cannot ask a running `serve`.
struct StatusFiles {
    private let complaints: ComplaintFile
    private let check: CheckFile

    init(_ store: String) { (complaints, check) = (ComplaintFile(store: store), CheckFile(store: store)) }

    /// Stores the error in `event`. If the disk is full, the page is still shown, and the log has the error.
    func record(_ event: ShellEvent) {
        do {
            switch event {
            case .launched(let name, _): try complaints.clear(name)
            case .complained(let name, let complaint): try complaints.add(complaint, of: name)
            case .unconfirmed(let name, let what):
                try complaints.add(ComplaintFile.unconfirmed(what), of: name)
            case .blank(let name, isOver: false):
                try complaints.add("it confirmed its start, and its screen is blank", of: name)
            case .checked(let failure, _): try check.record(failure, at: .now)
            default: break
            }
        } catch {
            let subject = if case .checked = event { "the result of the check" } else { "the page error" }
            Log.note(
                LogLine(
                    level: .warning, event: "complained",
                    message: "\(subject) cannot be stored for `clientctl status`: \(UpdateFailure(error).message)"))
        }
    }
}
