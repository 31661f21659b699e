import ArgumentParser
import BundleValues
import CLibrary

enum PublishTime {
    /// Returns the time of a release: `SOURCE_DATE_EPOCH`, or now if it is not set or empty.
    ///
    /// Files that expire always use the clock. With the time of a commit, they would expire early and a ramp would begin in the past.
    static func created() throws -> Timestamp {
        guard let text = getenv("SOURCE_DATE_EPOCH").map({ String(cString: $0) }), !text.isEmpty else {
            return Timestamp(clamping: CLibrary.time(nil))
        }
        guard let seconds = Int(text), let time = try? Timestamp(secondsSinceEpoch: seconds) else {
            throw UpdateFailure(
                .configInvalid, subject: "SOURCE_DATE_EPOCH",
                "SOURCE_DATE_EPOCH is not a number of seconds: \(UntrustedName.display(text)). Set it to seconds since 1970, or unset it."
            )
        }
        return time
    }

    /// Returns the duration of flag `name`, at least one second; nil if it is not given.
    static func duration(_ text: String?, of name: String) throws -> Duration? {
        guard let text else { return nil }
        let duration = try FlagValue.duration(text, of: name)
        guard duration >= .seconds(1) else {
            throw ValidationError(
                "--\(name) takes at least one second, such as 30d, not \(UntrustedName.display(text)).")
        }
        return duration
    }
}
