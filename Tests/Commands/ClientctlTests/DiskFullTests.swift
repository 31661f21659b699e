import BundleCore
import BundleTestTraits
import BundleTesting
import Testing

/// A store on a disk of a few megabytes: at every size, an installation completes or fails with `diskFull`.
@Suite(.ownThread) struct DiskFullTests {
    /// Stores the output and status of every step in `results`. The last step runs on a disk with free space.
    private static let script = """
        size=$1 mount=$2 results=$3 old=$4 new=$5 program=$6 key=$7 oldManifest=$8 newManifest=$9
        mount -t tmpfs -o size="$size"m,mode=700 tmpfs "$mount" || exit 90
        install() {
            "$program" install --manifest "$1" --trust "$key" --store "$3/store" --shell-version 1.5.0 --json \\
                > "$results/$2.json" 2> "$results/$2.errors"
            echo $? > "$results/$2.status"
        }
        install "$oldManifest" old "$mount"
        [ "$(cat "$results/old.status")" = 0 ] || exit 91
        cp -a "$mount/store" "$results/before"
        install "$newManifest" new "$mount"
        "$program" list --store "$mount/store" --json > "$results/list.json"
        cp -a "$mount/store" "$results/after"
        mkdir "$results/roomy" && cp -a "$mount/store" "$results/roomy/" || exit 92
        install "$newManifest" again "$results/roomy"
        cd "$results/roomy/store/clients" && diff -r "$old" v1.0.0 && diff -r "$new" v2.0.0 || exit 93
        """

    private let site: Site
    private let old: String
    private let new: String

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
        old = site.folder.file("web-1.0.0")
        // Three megabytes that do not compress.
        var generator = SeededGenerator(seed: 5)
        var files = Site.client("2.0.0")
        for index in 0..<60 {
            let noise = (0..<6400).map { _ in generator.next() }
            files["part\(index % 7)/file\(index)"] = noise.withUnsafeBytes { Array($0) }
        }
        new = try site.folder.writeTree(files, to: "web-2.0.0")
    }

    private func run(_ size: Int, _ newManifest: String, archiveSize: Int) throws {
        let comment: Comment = "\(size) MB"
        let unshare = try #require(PrivateMounts.command)
        let mount = try site.folder.makeFolder("mount-\(size)")
        let results = try site.folder.makeFolder("results-\(size)")
        let ending = try Program.run(
            unshare + [
                "sh", "-c", Self.script, "sh", "\(size)", mount, results, old, new, Clientctl.path, site.trust,
                "\(site.feed)/releases/v1.0.0/manifest.json", newManifest,
            ], environment: Clientctl.environment())
        #expect(ending.status == 0, "\(comment) \(ending.text.prefix(1000)) \(ending.errors.prefix(1000))")
        let outcome = try answer("new", in: results)
        let list = Outcome(try Program.run(["cat", "\(results)/list.json"], environment: [:]))
        if outcome.status == 0 {
            outcome.succeeded("installed", comment)
            #expect(list.strings("versions") == ["embedded", "v1.0.0", "v2.0.0"], comment)
            #expect(
                try TreeSnapshot(of: "\(results)/after/clients/v2.0.0").files == TreeSnapshot(of: new).files, comment)
        } else {
            outcome.failed(30, "diskFull", comment)
            #expect(list.strings("versions") == ["embedded", "v1.0.0"], comment)
            let before = try TreeSnapshot(of: "\(results)/before").withoutWanted
            let after = try TreeSnapshot(of: "\(results)/after").withoutWanted
            // The run may keep a complete archive, to avoid a second download, but not a partial one that filled the
            // disk.
            let parts = after.files.filter { $0.key.hasPrefix("downloads/") && $0.key.hasSuffix(".part") }
            #expect(parts.values.allSatisfy { $0.count == archiveSize }, comment)
            let changes = after.changes(since: before).filter { !$0.hasPrefix("downloads/") }
            #expect(changes == [], comment)
        }
        // With free space, the next run needs no cleanup.
        let again = try answer("again", in: results)
        again.succeeded(outcome.status == 0 ? "upToDate" : "installed", comment)
        print("disk full: \(size) MB: \(outcome.status == 0 ? "installed" : "refused, then installed with more room")")
        #expect((outcome.status == 0) == (size >= 8), comment)
    }

    private func answer(_ name: String, in results: String) throws -> Outcome {
        let ending = try Program.run(
            [
                "sh", "-c", "cat \"$1.json\"; cat \"$1.errors\" >&2; exit $(cat \"$1.status\")", "sh",
                "\(results)/\(name)",
            ],
            environment: Clientctl.environment())
        return Outcome(ending)
    }

    private static let sizes = [1, 2, 4, 8, 16]

    @Test func `install completes or fails with diskFull when the sizes are signed`() throws {
        guard possible() else { return }
        try site.publish(new, as: "2.0.0").succeeded("published")
        let archiveSize = try contents(ofFile: "\(site.feed)/releases/v2.0.0/client-v2.0.0.tar.zst").count
        for size in Self.sizes {
            try run(size, "\(site.feed)/releases/v2.0.0/manifest.json", archiveSize: archiveSize)
        }
    }

    @Test func `install completes or fails with diskFull when the release has no sizes`() throws {
        guard possible() else { return }
        let handmade = HandmadeRelease(site: site)
        try Clientctl.stock(["tar", "--zstd", "-C", new, "-cf", site.folder.file("client"), "."])
        let manifest = try handmade.write(handmade.required("2.0.0", archive: "client"), to: "hand.json")
        let archiveSize = try contents(ofFile: site.folder.file("client")).count
        for size in Self.sizes { try run(size, manifest, archiveSize: archiveSize) }
    }

    private func possible() -> Bool {
        if PrivateMounts.command == nil {
            print(
                "disk full: KNOWN LIMITATION: no tmpfs can be mounted here (neither root nor user namespaces); not run")
        }
        return PrivateMounts.command != nil
    }
}
