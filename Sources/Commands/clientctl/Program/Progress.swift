import BundleCore
import BundleValues
import CLibrary
import Synchronization

/// A progress line on standard error, if that is a terminal, and the times at which steps began.
final class Progress: Sendable {
    private struct State {
        var shown = ContinuousClock.now - .seconds(1)
        var isVisible = false
        var began: [(step: String, at: ContinuousClock.Instant)] = []
    }

    private let isTerminal = isatty(2) == 1 && getenv("TERM").map { String(cString: $0) } != "dumb"
    private let state = Mutex(State())
    private let start = ContinuousClock.now

    /// Shows an event.
    var observer: UpdateObserver { UpdateObserver { self.report($0) } }

    private func report(_ event: UpdateEvent) {
        // The result of the command reports this event.
        if case .routed = event { return }
        let (step, text) = Self.describe(event)
        show(step, text: text, amount: Self.amount(event))
    }

    /// Shows an upload to a bucket. Small files are not shown.
    func uploaded(_ bytes: Int, of total: Int) {
        guard total >= Self.leastUpload else { return }
        show(
            "upload",
            text: "uploading " + Self.bar(bytes, of: total)
                + " \(ByteCount(bytes: bytes)) of \(ByteCount(bytes: total))",
            amount: (bytes, total))
    }

    private static let leastUpload = 256 << 10

    private func show(_ step: String, text: String, amount: (done: Int, total: Int)?) {
        state.withLock { state in
            let now = ContinuousClock.now
            let text = text + Self.left(amount, since: state.began.last { $0.step == step }?.at, now: now)
            if state.began.last?.step != step { state.began.append((step, now)) }
            guard isTerminal, Output.detail != .warnings, now - state.shown > .milliseconds(100) else {
                return
            }
            state.shown = now
            state.isVisible = true
            Output.overwrite(with: text)
        }
    }

    /// Clears the line, and ends the last step.
    func end() {
        state.withLock { state in
            if state.isVisible { Output.overwrite(with: "") }
            state.isVisible = false
            state.began.append(("end", .now))
        }
    }

    /// The milliseconds of each step, in order.
    var timings: JSONObject {
        state.withLock { state in
            var object: JSONObject = [:]
            var last = (step: "decideMilliseconds", at: start)
            for (step, at) in state.began {
                object[last.step] = .integer(Int((at - last.at) / .milliseconds(1)))
                last = (step + "Milliseconds", at)
            }
            return object
        }
    }

    private static func describe(_ event: UpdateEvent) -> (step: String, text: String) {
        switch event {
        case .planning: ("plan", "looking for installed files")
        case .downloading(let bytes, let total):
            ("download", "downloading " + bar(bytes, of: total) + " \(ByteCount(bytes: bytes))")
        case .unpacking(let files, let total):
            ("unpack", "unpacking " + bar(files, of: total) + " " + counted(files, "file"))
        case .settling, .routed: ("settle", "writing everything to the disk")
        case .comparing(let bytes, let total, let base):
            (
                "delta",
                "making a delta from \(base) " + bar(bytes, of: total)
                    + " \(ByteCount(bytes: bytes)) of \(ByteCount(bytes: total))"
            )
        case .packing(let bytes, let total):
            ("pack", "packing " + bar(bytes, of: total) + " \(ByteCount(bytes: bytes)) of \(ByteCount(bytes: total))")
        }
    }

    /// Returns the progress of a step with a known total.
    private static func amount(_ event: UpdateEvent) -> (done: Int, total: Int)? {
        switch event {
        case .packing(let bytes, let total), .comparing(let bytes, let total, _): (bytes, total)
        case .downloading(let bytes, let total?): (bytes, total)
        default: nil
        }
    }

    /// Returns the rate and the remaining time of a step with a known total, one second after its start.
    private static func left(
        _ amount: (done: Int, total: Int)?, since began: ContinuousClock.Instant?, now: ContinuousClock.Instant
    ) -> String {
        guard let (done, total) = amount, let began, done > 0, total > done, now - began > .seconds(1) else {
            return ""
        }
        let seconds = (now - began) / .seconds(1)
        let rate = Double(done) / seconds
        return ", \(ByteCount(bytes: Int(rate)))/s, \(Int(Double(total - done) / rate) + 1) s left"
    }

    private static func bar(_ done: Int, of total: Int?) -> String {
        guard let total, total > 0 else { return "" }
        let cells = min(20, done * 20 / total)
        return "[" + String(repeating: "#", count: cells) + String(repeating: ".", count: 20 - cells) + "]"
    }
}
