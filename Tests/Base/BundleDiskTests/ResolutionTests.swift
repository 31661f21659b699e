import BundleDisk
import CLinux
import Glibc
import Testing

/// The ways to open a relative path: the kernel's openat2, and the fallback that walks the components.
enum Opener: CaseIterable {
    case kernel, walk

    func open(_ directory: Int32, _ path: String, _ flags: Int32) -> Int32 {
        switch self {
        case .kernel: clinux_open_beneath(directory, path, flags, 0o644)
        case .walk: clinux_open_walking(directory, path, flags, 0o644)
        }
    }
}

@Suite("Path resolution") struct ResolutionTests {
    let sandbox: Sandbox
    let descriptor: Int32

    init() throws {
        sandbox = try Sandbox()
        let folder = try sandbox.inside.directory(creating: "a").directory(creating: "b")
        try folder.write("file", "ours")
        try sandbox.inside.symbolicLink("up", to: "../outside")
        try sandbox.inside.symbolicLink("absolute", to: sandbox.outside.path)
        try sandbox.inside.symbolicLink("within", to: "a")
        try sandbox.inside.symbolicLink("leaf", to: "a/b/file")
        try sandbox.inside.symbolicLink("dangling", to: "../outside/made")
        descriptor = Glibc.open(sandbox.inside.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        try #require(descriptor >= 0)
    }

    static let refused = [
        "..", "../outside/secret", "a/..", "a/../../outside/secret", "a/../a/b/file", "/etc/passwd", "/",
        "up/secret", "absolute/secret", "within/b/file", "leaf", "dangling", "up", "",
    ]

    @Test(arguments: Opener.allCases, refused)
    func `rejects a path that leaves the directory, is absolute or contains a link`(_ opener: Opener, _ path: String)
        throws
    {
        defer { close(descriptor) }
        for flags in [O_RDONLY, O_RDWR | O_CREAT, O_WRONLY | O_CREAT | O_EXCL] {
            let file = opener.open(descriptor, path, flags)
            #expect(file < 0, "\(path) was opened with \(flags)")
            if file >= 0 { close(file) }
        }
        try sandbox.requireOutsideUntouched()
    }

    @Test(arguments: Opener.allCases) func `opens a plain path`(_ opener: Opener) throws {
        defer { close(descriptor) }
        for path in ["a/b/file", "a/b", "a", "."] {
            let file = opener.open(descriptor, path, O_RDONLY)
            #expect(file >= 0, "\(path) was not opened: \(file)")
            #expect(fcntl(file, F_GETFD) & FD_CLOEXEC != 0)
            close(file)
        }
    }

    @Test(arguments: Opener.allCases) func `creates a file with its mode and closes it on exec`(_ opener: Opener) throws
    {
        defer { close(descriptor) }
        let file = opener.open(descriptor, "a/new", O_RDWR | O_CREAT | O_EXCL)
        try #require(file >= 0)
        #expect(fcntl(file, F_GETFD) & FD_CLOEXEC != 0)
        close(file)
        #expect(try sandbox.inside.file("a/new").permissions() == 0o644)
        #expect(opener.open(descriptor, "a/new", O_RDWR | O_CREAT | O_EXCL) == -EEXIST)
    }

    @Test(arguments: Opener.allCases) func `accepts components of at most 255 bytes`(_ opener: Opener) throws {
        defer { close(descriptor) }
        let longest = String(repeating: "n", count: 255)
        let file = opener.open(descriptor, longest, O_RDWR | O_CREAT)
        #expect(file >= 0)
        close(file)
        #expect(opener.open(descriptor, longest + "n", O_RDWR | O_CREAT) == -ENAMETOOLONG)
        #expect(opener.open(descriptor, "a/\(longest)n/x", O_RDONLY) == -ENAMETOOLONG)
    }

    @Test func `closes all descriptors of a walk that fails`() throws {
        defer { close(descriptor) }
        func openDescriptors() throws -> Int { try Directory.open("/proc/self/fd").names().count }
        // Other tests open files at the same time, so only a large leak is significant.
        let before = try openDescriptors()
        for _ in 0..<2000 {
            for path in ["a/b/..", "a/b/missing", "a/b/file/x", "a/b/"] {
                #expect(clinux_open_walking(descriptor, path, O_RDONLY, 0) < 0)
            }
        }
        #expect(try openDescriptors() < before + 1000)
    }

    @Test(arguments: ["../x", "/tmp/x", "a/x", "..", "."])
    func `rejects paths with several components in rename, link, remove and create`(_ name: String) throws {
        defer { close(descriptor) }
        let folder = sandbox.inside
        try folder.write("mine", "ours")
        #expect(code { try folder.makeDirectory(name) } == EXDEV)
        #expect(code { _ = try folder.directory(creating: name) } == EXDEV)
        #expect(code { try folder.rename("mine", to: name) } == EXDEV)
        #expect(code { try folder.rename(name, to: "target") } == EXDEV)
        #expect(code { try folder.rename("mine", to: sandbox.outside, as: name) } == EXDEV)
        #expect(code { try folder.move("mine", to: sandbox.outside, as: name) } == EXDEV)
        #expect(code { try folder.move(name, to: sandbox.outside, as: "x") } == EXDEV)
        #expect(code { try folder.link("mine", to: sandbox.outside, as: name) } == EXDEV)
        #expect(code { try folder.link(name, to: folder, as: "x") } == EXDEV)
        #expect(code { try folder.removeFile(name) } == EXDEV)
        #expect(code { try folder.removeTree(name) } == EXDEV)
        #expect(code { _ = try folder.kind(of: name) } == EXDEV)
        try sandbox.requireOutsideUntouched()
    }
}
