import BundleArchive
import BundleDisk
import BundleTesting
import Glibc
import Testing

@Suite("CanonicalTar") struct CanonicalTarTests {
    private static func name(_ character: Character, _ count: Int) -> String {
        String(repeating: character, count: count)
    }

    static let plain = [
        "index.html", "a", "assets/h\u{E9}llo.js", name("n", 99), name("n", 100), "d/" + name("n", 98),
    ]

    /// Paths that can be split at one slash only, so all programs agree.
    static let split = [
        name("p", 1) + "/" + name("n", 100), name("p", 155) + "/" + name("n", 100), name("p", 100) + "/n",
        name("p", 155) + "/n", name("p", 54) + "/" + name("n", 100),
    ]

    /// Paths that can be split at several slashes. GNU tar uses the longest prefix, Python does not.
    static let splitAnywhere = [
        "x/y/z/" + name("n", 96), (0..<50).map { "d\($0)" }.joined(separator: "/"),
        name("p", 60) + "/" + name("q", 60) + "/" + name("r", 60),
    ]

    static let unsplittable = [
        name("n", 101), name("n", 255), name("p", 156) + "/" + name("n", 50), "p/" + name("n", 101),
        name("p", 200) + "/" + name("q", 200) + "/" + name("n", 255), name("p", 156) + "/n",
        "d/" + name("\u{E9}", 100),
    ]

    static let sizes = [0, 1, 511, 512, 513, 4096, 8_589_934_591]

    private func header(_ path: String, _ size: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        CanonicalTar.appendHeader(path: path.utf8, size: size, to: &bytes)
        return bytes
    }

    @Test(arguments: plain + split) func `has the headers of Python's tarfile except for device numbers`(_ path: String)
        throws
    {
        let folder = try TemporaryFolder()
        try Command.run(
            [
                "python3", "-c",
                """
                import sys, tarfile
                info = tarfile.TarInfo(sys.argv[2])
                info.mode, info.mtime, info.uid, info.gid, info.uname, info.gname = 0o644, 0, 0, 0, "", ""
                with open(sys.argv[1], "wb") as out:
                    for size in sys.argv[3:]:
                        info.size = int(size)
                        out.write(info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict"))
                """, folder.file("headers"), path,
            ] + Self.sizes.map(String.init))
        #expect(try withDeviceNumbers(contents(folder.file("headers"))) == Self.sizes.flatMap { header(path, $0) })
    }

    @Test(arguments: [("ustar", plain + split + splitAnywhere), ("pax", unsplittable)])
    func `is identical to the output of GNU tar`(
        _ format: String, _ paths: [String]
    ) throws {
        let temporary = try TemporaryDirectory.ofTests()
        var seeded = SeededGenerator(seed: 7)
        var items: [Item] = []
        for (index, path) in paths.enumerated() {
            let item = Item(path, seeded.text([0, 1, 511, 512, 513, 10_000][index % 6]))
            items.append(item)
            let names = "\(temporary.directory.path)/tree/\(path)".split(separator: "/").map(String.init)
            let folder = names.dropLast().reduce("") { "\($0)/\($1)" }
            try Directory.createAll(folder)
            try Directory.open(folder).createDurableFile(names[names.count - 1], with: item.content, mode: 0o600)
        }
        let output = "\(temporary.directory.path)/out.tar"
        // GNU tar includes the process ID in the name of a pax header by default.
        let pax =
            format == "pax" ? ["--pax-option=exthdr.name=././@PaxHeader,exthdr.mtime=0,delete=atime,delete=ctime"] : []
        try Command.run(
            ["tar", "-C", "\(temporary.directory.path)/tree", "--format=\(format)"] + pax + [
                "--mode=0644", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--blocking-factor=1",
                "-cf", output, "--",
            ] + paths)
        #expect(try differingOffsets(contents(output), Written.tar(items)) == [])
    }

    @Test(arguments: plain + split + splitAnywhere + unsplittable)
    func `is read by Python and by ArchiveReader`(_ path: String) throws {
        let folder = try TemporaryFolder()
        var seeded = SeededGenerator(seed: 3)
        let item = Item(path, seeded.text(700))
        let tar = Written.tar([item])
        try Command.run([
            "python3", "-c",
            """
            import sys, tarfile
            (member,) = tarfile.open(sys.argv[1]).getmembers()
            assert member.name == sys.argv[2], member.name
            assert (member.size, member.mode, member.mtime, member.uid, member.gid) == (700, 0o644, 0, 0, 0)
            assert member.isreg() and member.uname == member.gname == ""
            """, try folder.write(tar, to: "tar"), path,
        ])
        #expect(try Reading.items(of: tar) == [item])
    }

    @Test(arguments: [(0, 0), (1, 511), (511, 1), (512, 0), (513, 511)])
    func `pads data to whole blocks`(_ size: Int, _ padding: Int) {
        #expect(CanonicalTar.padding(after: size) == padding)
    }

    private func contents(_ path: String) throws -> [UInt8] {
        try File.open(reading: path).readAll(maximumBytes: 1 << 26)
    }

    /// GNU tar and the canonical tar write the device numbers 0 of a file as digits; Python leaves them empty.
    private func withDeviceNumbers(_ tar: [UInt8]) -> [UInt8] {
        var tar = tar
        for start in stride(from: 0, to: tar.count, by: 512)
        where tar[start + 257..<start + 262].elementsEqual("ustar".utf8) {
            for offset in [329, 337] { tar.replaceSubrange(start + offset..<start + offset + 7, with: "0000000".utf8) }
            for offset in start + 148..<start + 156 { tar[offset] = UInt8(ascii: " ") }
            let digits = String(tar[start..<start + 512].reduce(0) { $0 + Int($1) }, radix: 8)
            let sum = String(repeating: "0", count: 6 - digits.utf8.count) + digits
            tar.replaceSubrange(start + 148..<start + 155, with: sum.utf8 + [0])
        }
        return tar
    }

    /// Returns the first offsets at which two byte strings differ, or their lengths.
    private func differingOffsets(_ left: [UInt8], _ right: [UInt8]) -> [Int] {
        if left.count != right.count { return [left.count, right.count] }
        return Array(left.indices.filter { left[$0] != right[$0] }.prefix(16))
    }
}
