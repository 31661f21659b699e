import ArgumentParser
import BundlePublish
import BundleValues

/// The time for which a command waits for another process that changes the feed.
struct WaitOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "How long to wait for another clientctl that changes the feed. (default: 30s)", valueName: "duration"))
    var wait: String?

    func feedWait() throws -> FeedWait {
        FeedWait(
            try FlagValue.duration(wait, of: "wait") ?? FeedWait.standard,
            environment: Environment(log: { Output.say($0) }))
    }
}
