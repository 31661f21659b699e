package import BundleValues

/// The executable files of a release with a program.
package struct ReleaseProgram: Sendable, Hashable {
    /// The largest number of executable files beside the program.
    package static let mostOthers = 8

    /// The file that `clientctl run` starts.
    package let path: BundlePath
    /// Further executable files, which the program starts itself.
    package let others: [BundlePath]

    package var files: [BundlePath] { [path] + others }

    package enum Refusal: Error, Equatable, CustomStringConvertible {
        case path(BundlePathError)
        case twice(String)
        case tooMany

        package var description: String {
            switch self {
            case .path(let error): "\(error)"
            case .twice(let path): "\(UntrustedName.display(path)) is named twice"
            case .tooMany: "it names more than \(ReleaseProgram.mostOthers) files beside the program"
            }
        }
    }

    /// Creates the program of the first of `paths`, relative to the folder of the release.
    package init(_ paths: [String]) throws(Refusal) {
        var files: [BundlePath] = []
        for text in paths {
            let path: BundlePath
            do throws(BundlePathError) { path = try BundlePath(parsing: text) } catch { throw .path(error) }
            if files.contains(path) { throw .twice(text) }
            files.append(path)
        }
        guard let first = files.first else { throw .path(.notCanonical(path: "")) }
        if files.count > Self.mostOthers + 1 { throw .tooMany }
        path = first
        others = Array(files.dropFirst())
    }
}

/// The content of a release, and of a store.
package enum ReleaseKind: String, Sendable, CaseIterable {
    /// A web client, which `serve` shows.
    case client
    /// A program, which `clientctl run` starts.
    case program

    /// The role whose keys sign releases of this kind.
    package var role: TrustRole { self == .client ? .release : .program }

    /// Returns the refusal of the release `version` of this kind by a device whose store has the other kind.
    package func refusal(of version: SemanticVersion) -> UpdateFailure {
        let advice =
            self == .program
            ? "a store for web clients installs none. Use a store of its own: `clientctl install --program --store ...`."
            : "a store for programs installs none. Check the address of the feed."
        return UpdateFailure(
            .wrongKind, subject: "\(version)",
            "Version \(version) \(self == .program ? "is a program, and " : "is a web client, and ")\(advice)")
    }
}

extension Manifest {
    package var kind: ReleaseKind { program == nil ? .client : .program }
    /// The files that the archive must have.
    package var requiredFiles: [BundlePath] { program?.files ?? [.index] }
}

/// The processor that an executable file is for, as its ELF header states.
package struct ProgramMachine: Sendable, Equatable, CustomStringConvertible {
    /// The bytes of the header that are read.
    package static let headBytes = 20

    /// The number of the machine (`e_machine`), with 32 or 64 bits.
    private let number: UInt16
    private let is64: Bool

    /// Returns nil for a file that is not ELF, such as a script.
    package init?(head: [UInt8]) {
        guard head.count >= Self.headBytes, head.starts(with: [0x7F, 0x45, 0x4C, 0x46]) else { return nil }
        is64 = head[4] == 2
        // The byte order of the file; 2 is big-endian.
        number =
            head[5] == 2 ? UInt16(head[18]) << 8 | UInt16(head[19]) : UInt16(head[19]) << 8 | UInt16(head[18])
    }

    private init(_ number: UInt16, is64: Bool) { (self.number, self.is64) = (number, is64) }

    /// The names of Debian for machines (ELF gABI, table of e_machine).
    private static let names: [(name: String, machine: ProgramMachine)] = [
        ("amd64", ProgramMachine(62, is64: true)), ("arm64", ProgramMachine(183, is64: true)),
        ("armhf", ProgramMachine(40, is64: false)), ("i386", ProgramMachine(3, is64: false)),
        ("riscv64", ProgramMachine(243, is64: true)),
    ]

    /// Returns the machine that a channel names by its end, as in `stable-arm64`; nil if it names none.
    package init?(channel name: String) {
        guard let found = Self.names.first(where: { name == $0.name || name.hasSuffix("-\($0.name)") }) else {
            return nil
        }
        self = found.machine
    }

    /// The machine of this process.
    package static var own: ProgramMachine? {
        #if arch(x86_64)
        ProgramMachine(62, is64: true)
        #elseif arch(arm64)
        ProgramMachine(183, is64: true)
        #else
        nil
        #endif
    }

    /// The name of Debian, or the number.
    package var description: String {
        Self.names.first { $0.machine == self }?.name ?? "machine \(number) with \(is64 ? 64 : 32) bits"
    }

    /// Returns the refusal of the file at `path`, which is for this machine, where `wanted` is required.
    package func refusal(of path: BundlePath, wanted: ProgramMachine, by requirer: String) -> UpdateFailure {
        UpdateFailure(
            .wrongMachine, subject: path.string,
            "\(path) is for \(self), and \(requirer) for \(wanted). Publish each architecture to a channel of its own, such "
                + "as stable-\(wanted).")
    }
}
