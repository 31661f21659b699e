import BundleValues

/// What the `type` of a script makes of it (HTML standard, "prepare the script element").
enum ScriptType {
    /// Whether a script with these attributes runs, or governs what runs, as import maps and speculation rules do.
    static func isJudged(type: ArraySlice<UInt8>?, language: ArraySlice<UInt8>?) -> Bool {
        guard let type else {
            guard let language, !language.isEmpty else { return true }
            return javaScript.contains("text/" + lowercased(language))
        }
        if type.isEmpty { return true }
        let name = lowercased(type.drop(while: HTMLTokenizer.isSpace).trimmingSuffix(while: HTMLTokenizer.isSpace))
        return javaScript.contains(name) || name == "module" || name == "importmap" || name == "speculationrules"
    }

    private static func lowercased(_ bytes: ArraySlice<UInt8>) -> String {
        String(decoding: bytes.map(\.asciiLowered), as: UTF8.self)
    }

    /// The JavaScript MIME type essences of the MIME Sniffing standard.
    private static let javaScript: Set<String> = [
        "application/ecmascript", "application/javascript", "application/x-ecmascript", "application/x-javascript",
        "text/ecmascript", "text/javascript", "text/javascript1.0", "text/javascript1.1", "text/javascript1.2",
        "text/javascript1.3", "text/javascript1.4", "text/javascript1.5", "text/jscript", "text/livescript",
        "text/x-ecmascript", "text/x-javascript",
    ]
}

extension ArraySlice<UInt8> {
    fileprivate func trimmingSuffix(while predicate: (UInt8) -> Bool) -> ArraySlice<UInt8> {
        guard let last = lastIndex(where: { !predicate($0) }) else { return prefix(0) }
        return self[startIndex...last]
    }
}
