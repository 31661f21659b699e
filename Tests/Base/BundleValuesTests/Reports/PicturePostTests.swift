import Testing

@testable import BundleValues

@Suite("PicturePost") struct PicturePostTests {
    private static let jpeg: [UInt8] = [0xFF, 0xD8, 0xFF, 0xE0, 1, 2, 3, 0xFF, 0xD9]
    private static let png: [UInt8] = [
        0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 0x0D, 0x49, 0x48, 0x44, 0x52, 0, 1, 0x49, 0x45, 0x4E,
        0x44, 0xAE, 0x42, 0x60, 0x82,
    ]

    private func post(_ bytes: [UInt8]) throws -> PicturePost {
        PicturePost(
            device: "3f9a0b1c2d3e4f50", kind: .failed, taken: Timestamp(clamping: 1_800_000_000),
            picture: try #require(ScreenPicture(bytes)))
    }

    @Test func `a message keeps its members`() throws {
        for (bytes, format) in [(Self.jpeg, ScreenPicture.Format.jpeg), (Self.png, .png)] {
            let post = try post(bytes)
            #expect(post.picture.format == format)
            #expect(try PicturePost(parsing: post.bytes) == post)
        }
    }

    @Test func `only a whole JPEG or PNG of at most 48 KiB is a picture`() {
        let page = Array("<script>alert(1)</script>".utf8)
        var hostile = [[], page, Array("GIF89a".utf8), Array("<svg xmlns='http://www.w3.org/2000/svg'/>".utf8)]
        hostile.append([0xFF, 0xD8])
        for picture in [Self.jpeg, Self.png] {
            hostile += [Array(picture.dropLast()), page + picture, picture + page]
        }
        var large = Self.jpeg
        large.insert(contentsOf: [UInt8](repeating: 0, count: ScreenPicture.maximumBytes), at: 4)
        hostile.append(large)
        for bytes in hostile { #expect(ScreenPicture(bytes) == nil, "\(bytes.prefix(12))") }
    }

    @Test func `refuses a message that no device sends`() throws {
        let text = String(decoding: try post(Self.jpeg).bytes, as: UTF8.self)
        for (part, other) in [
            ("\"schema\":1", "\"schema\":2"), ("3f9a0b1c2d3e4f50", "../../../../etc/"), ("\"failed\"", "\"all\""),
            ("2027-", "soon-"), ("\"picture\":\"/9j/", "\"picture\":\"PHNj"), ("\"kind\"", "\"more\":1,\"kind\""),
        ] {
            let changed = text.replacing(part, with: other)
            #expect(changed != text, "\(part)")
            #expect(throws: (any Error).self, "\(other)") { try PicturePost(parsing: Array(changed.utf8)) }
        }
    }

    @Test func `the path of a picture names its device and its kind, and nothing else`() {
        for kind in PicturePost.Kind.allCases {
            let place = PicturePost.Kind.place(kind.path(of: "3f9a0b1c2d3e4f50"))
            #expect(place?.device == "3f9a0b1c2d3e4f50" && place?.kind == kind)
        }
        for path in [
            "picture", "/picture", "3f9a0b1c2d3e4f50", "../3f9a0b1c2d3e4f50/picture", "3F9A0B1C2D3E4F50/picture",
        ] {
            #expect(PicturePost.Kind.place(path) == nil, "\(path)")
        }
    }
}
