import BundleCore
import BundleValues
import ClientShell

/// Stores the errors of pages for `clientctl status`.
struct PageComplaints {
    private let file: ComplaintFile

    init(_ store: String) { file = ComplaintFile(store: store) }

    /// Stores the page error in `event`. If the disk is full, the page is still shown, and the log has the error.
    func hear(_ event: ShellEvent) {
        do {
            switch event {
            case .launched(let name, _): try file.clear(name)
            case .complained(let name, let complaint): try file.add(complaint, of: name)
            case .unconfirmed(let name, let what):
                try file.add(ComplaintFile.unconfirmed(what), of: name)
            case .blank(let name, isOver: false): try file.add("it confirmed its start, and its screen is blank", of: name)
            default: break
            }
        } catch {
            Log.note(
                LogLine(
                    level: .warning, event: "complained",
                    message: "the page error cannot be stored for `clientctl status`: \(UpdateFailure(error).message)"))
        }
    }
}
