import BundleValues

/// A command that runs at a decision or an alert, without a shell, to notify a person.
struct HookCommand: Sendable {
    private static let limit = Duration.seconds(30)

    private let words: [String]
    private let flag: String

    /// Reads the command of a flag; nil if the flag is not set. Throws if its program does not exist.
    init?(_ line: String?, of flag: String) throws {
        guard let words = try CommandWords.read(line, of: flag), let program = words.first else { return nil }
        try CommandWords.requireProgram(program, of: flag)
        (self.words, self.flag) = (words, flag)
    }

    /// Runs the command with `facts` as variables, and ends it when the task is cancelled. Returns whether it succeeded; its failure is a
    /// warning.
    @discardableResult
    func run(with facts: [String: String]) async -> Bool {
        do {
            let program = try StartedProgram(words, adding: facts)
            program.end(after: Self.limit)
            let ending = try await withTaskCancellationHandler {
                try await program.ending()
            } onCancel: {
                program.end()
            }
            if ending == .exited(0) { return true }
            Output.warn("the command of --\(flag) \(ending)")
        } catch {
            Output.warn("\(UpdateFailure(error).message)")
        }
        return false
    }
}
