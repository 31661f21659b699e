import BundleCore
import BundleValues
import ClientShell

/// Keeps what pages complain of for `status`.
struct PageComplaints {
    private let file: ComplaintFile

    init(_ store: String) { file = ComplaintFile(store: store) }

    /// Takes in `event`. A disk that takes no notes keeps nobody from the page: the log has them.
    func hear(_ event: ShellEvent) {
        do {
            switch event {
            case .launched(let name, _): try file.clear(name)
            case .complained(let name, let complaint): try file.add(complaint, of: name)
            case .unconfirmed(let name, let what):
                try file.add(ComplaintFile.unconfirmed(what), of: name)
            default: break
            }
        } catch {
            Log.note(
                LogLine(
                    level: .warning, event: "complained",
                    message: "this cannot be kept for `clientctl status`: \(UpdateFailure(error).message)"))
        }
    }
}
