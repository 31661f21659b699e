import BundleDisk
import BundleValues
import BundleShell

/// The sentences of the state pages and the notice, by language.
package struct ScreenTexts: Sendable, Equatable {
    /// The name of a sentence, as files of texts have it.
    enum Sentence: String, CaseIterable {
        case startingTitle = "starting.title"
        case startingText = "starting.text"
        case lockedTitle = "locked.title"
        case lockedText = "locked.text"
        case signedOutTitle = "signedOut.title"
        case signedOutText = "signedOut.text"
        case maintenanceTitle = "maintenance.title"
        case maintenanceText = "maintenance.text"
        case waitingTitle = "waiting.title"
        case waitingText = "waiting.text"
        case failureTitle = "failure.title"
        /// `{code}` stands for the error code.
        case failureText = "failure.text"
        /// `{time}` stands for the local time since which a device without content shows its state.
        case sinceText = "since.text"
        /// `{host}` stands for the server that does not answer.
        case noAnswerText = "noAnswer.text"
        case checkFailedText = "checkFailed.text"
        /// `{version}` stands for the shell version that is needed.
        case noticeText = "notice.text"
        case noticeHide = "notice.hide"
    }

    /// The maximum size of a file of texts, in bytes.
    package static let maximumBytes = 64 << 10
    /// The largest number of characters of a sentence.
    private static let longestSentence = 500
    /// The language that is used where another one has no sentence.
    private static let fallback = "en"

    /// The texts that come with the program.
    package static let standard = ScreenTexts(sentences: builtIn)

    private var sentences: [String: [Sentence: String]]

    private init(sentences: [String: [Sentence: String]]) { self.sentences = sentences }

    /// Reads a file that maps language tags to objects with a sentence for each key. Languages and keys that it omits keep their
    /// sentences. Throws `UpdateFailure` for a file with other content.
    package init(file path: String) throws {
        self = .standard
        let bytes = try EditedText.bytes(
            of: File.open(reading: path).readAll(maximumBytes: Self.maximumBytes), in: path)
        func refusal(_ problem: String) -> UpdateFailure {
            UpdateFailure(
                .configInvalid, subject: path,
                "The texts \(path) \(problem). Write an object for each language, such as {\"en\": {\"locked.title\": \"Closed\"}}."
            )
        }
        guard let languages = try? JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes).objectValue else {
            throw refusal("are not a JSON object")
        }
        for language in languages.members {
            let shown = UntrustedName.display(language.name)
            guard language.name.wholeMatch(of: /[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}/) != nil else {
                throw refusal("name \(shown), which is not a language tag")
            }
            guard let members = language.value.objectValue?.members else {
                throw refusal("have no object for the language \(shown)")
            }
            for member in members {
                guard let key = Sentence(rawValue: member.name) else {
                    throw refusal("have the unknown key \(UntrustedName.display(member.name))")
                }
                guard let sentence = member.value.stringValue, (1...Self.longestSentence).contains(sentence.count)
                else {
                    throw refusal("need 1 to \(Self.longestSentence) characters for \(key.rawValue) in \(shown)")
                }
                sentences[language.name.lowercased(), default: [:]][key] = sentence
            }
        }
    }

    /// The languages: English, and the others by their tags.
    var languages: [String] { [Self.fallback] + sentences.keys.filter { $0 != Self.fallback }.sorted() }

    /// Returns the sentence in `language`, or else in the language without its region, or else in English.
    func sentence(_ key: Sentence, in language: String) -> String {
        let general = String(language.prefix { $0 != "-" })
        return sentences[language]?[key] ?? sentences[general]?[key] ?? sentences[Self.fallback]?[key] ?? key.rawValue
    }
}

extension ScreenTexts {
    private static let builtIn: [String: [Sentence: String]] = [
        "en": english, "de": german, "fr": french, "es": spanish, "ja": japanese,
    ]

    private static let english: [Sentence: String] = [
        .startingTitle: "One moment",
        .startingText: "This device is starting.",
        .lockedTitle: "Locked",
        .lockedText: "This device is locked. Ask an administrator to unlock it.",
        .signedOutTitle: "Signed out",
        .signedOutText: "No user is signed in.",
        .maintenanceTitle: "Under maintenance",
        .maintenanceText: "This device is being serviced. It will be back soon.",
        .waitingTitle: "Waiting for the first update",
        .waitingText: "This device shows its content as soon as it has arrived.",
        .failureTitle: "This device has nothing to show",
        .failureText: "The log of this device contains the reason ({code}).",
        .sinceText: "Since {time}.",
        .noAnswerText: "No answer from {host} since {time} ({code}).",
        .checkFailedText: "The last check failed, since {time} ({code}).",
        .noticeText: "The newest version of this content needs a newer shell, version {version} or later. "
            + "Until then this device shows an older version.",
        .noticeHide: "Hide",
    ]

    private static let german: [Sentence: String] = [
        .startingTitle: "Einen Moment",
        .startingText: "Dieses Gerät startet gerade.",
        .lockedTitle: "Gesperrt",
        .lockedText: "Dieses Gerät ist gesperrt. Bitte wenden Sie sich an den Administrator.",
        .signedOutTitle: "Abgemeldet",
        .signedOutText: "Es ist niemand angemeldet.",
        .maintenanceTitle: "Wartung",
        .maintenanceText: "Dieses Gerät wird gerade gewartet. Es ist bald wieder verfügbar.",
        .waitingTitle: "Warten auf die erste Aktualisierung",
        .waitingText: "Dieses Gerät zeigt seinen Inhalt, sobald er eingetroffen ist.",
        .failureTitle: "Dieses Gerät hat nichts anzuzeigen",
        .failureText: "Der Grund steht im Protokoll dieses Geräts ({code}).",
        .sinceText: "Seit {time}.",
        .noAnswerText: "Keine Antwort von {host} seit {time} ({code}).",
        .checkFailedText: "Die letzte Prüfung schlug fehl, seit {time} ({code}).",
        .noticeText: "Die neueste Version dieses Inhalts benötigt eine neuere Shell, Version {version} oder höher. "
            + "Bis dahin zeigt dieses Gerät eine ältere Version.",
        .noticeHide: "Ausblenden",
    ]

    private static let french: [Sentence: String] = [
        .startingTitle: "Un instant",
        .startingText: "Cet appareil démarre.",
        .lockedTitle: "Verrouillé",
        .lockedText: "Cet appareil est verrouillé. Demandez à un administrateur de le déverrouiller.",
        .signedOutTitle: "Déconnecté",
        .signedOutText: "Aucun utilisateur n’est connecté.",
        .maintenanceTitle: "En maintenance",
        .maintenanceText: "Cet appareil est en cours de maintenance. Il sera bientôt de nouveau disponible.",
        .waitingTitle: "En attente de la première mise à jour",
        .waitingText: "Cet appareil affichera son contenu dès qu’il l’aura reçu.",
        .failureTitle: "Cet appareil n’a rien à afficher",
        .failureText: "Le journal de cet appareil en indique la raison ({code}).",
        .sinceText: "Depuis {time}.",
        .noAnswerText: "Aucune réponse de {host} depuis {time} ({code}).",
        .checkFailedText: "La dernière vérification a échoué, depuis {time} ({code}).",
        .noticeText:
            "La dernière version de ce contenu nécessite un shell plus récent, version {version} ou ultérieure. "
            + "En attendant, cet appareil affiche une version plus ancienne.",
        .noticeHide: "Masquer",
    ]

    private static let spanish: [Sentence: String] = [
        .startingTitle: "Un momento",
        .startingText: "Este dispositivo se está iniciando.",
        .lockedTitle: "Bloqueado",
        .lockedText: "Este dispositivo está bloqueado. Pida a un administrador que lo desbloquee.",
        .signedOutTitle: "Sesión cerrada",
        .signedOutText: "Ningún usuario ha iniciado sesión.",
        .maintenanceTitle: "En mantenimiento",
        .maintenanceText: "Este dispositivo está en mantenimiento. Volverá a estar disponible en breve.",
        .waitingTitle: "Esperando la primera actualización",
        .waitingText: "Este dispositivo mostrará su contenido en cuanto llegue.",
        .failureTitle: "Este dispositivo no tiene nada que mostrar",
        .failureText: "El registro de este dispositivo indica el motivo ({code}).",
        .sinceText: "Desde {time}.",
        .noAnswerText: "Sin respuesta de {host} desde {time} ({code}).",
        .checkFailedText: "La última comprobación falló, desde {time} ({code}).",
        .noticeText:
            "La última versión de este contenido necesita un shell más reciente, versión {version} o posterior. "
            + "Mientras tanto, este dispositivo muestra una versión anterior.",
        .noticeHide: "Ocultar",
    ]

    private static let japanese: [Sentence: String] = [
        .startingTitle: "お待ちください",
        .startingText: "この端末は起動中です。",
        .lockedTitle: "ロック中",
        .lockedText: "この端末はロックされています。解除は管理者に依頼してください。",
        .signedOutTitle: "サインアウト済み",
        .signedOutText: "サインインしているユーザーはいません。",
        .maintenanceTitle: "メンテナンス中",
        .maintenanceText: "この端末はメンテナンス中です。まもなく再開します。",
        .waitingTitle: "最初の更新を待っています",
        .waitingText: "コンテンツを受信すると、この端末に表示されます。",
        .failureTitle: "表示できるコンテンツがありません",
        .failureText: "理由はこの端末のログに記録されています（{code}）。",
        .sinceText: "{time} から。",
        .noAnswerText: "{time} から {host} の応答がありません（{code}）。",
        .checkFailedText: "{time} から更新の確認に失敗しています（{code}）。",
        .noticeText: "このコンテンツの最新版には、バージョン {version} 以降のシェルが必要です。それまでは、以前のバージョンを表示します。",
        .noticeHide: "閉じる",
    ]
}

/// A style sheet of an operator for the state pages and the notice. It loads nothing from a server.
package struct ScreenStyle: Sendable, Equatable {
    /// The maximum size of a style sheet, in bytes.
    package static let maximumBytes = 64 << 10

    /// The reason why a style sheet is refused.
    enum StyleRefusal: String, Error {
        case notText = "is not UTF-8 text"
        case import_ = "has an @import rule"
        case resource = "has a URL that is not a data: URL"
        case escape = "has a backslash, which could hide a URL"
        case endTag = "has the characters </"
    }

    let css: String

    /// Parses a style sheet.
    init(parsing bytes: [UInt8]) throws(StyleRefusal) {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw .notText }
        let lower = text.lowercased()
        if lower.contains("@import") { throw .import_ }
        if lower.contains("\\") { throw .escape }
        if lower.contains("</") { throw .endTag }
        if lower.contains(/image-set\s*\(|\bsrc\s*\(/) { throw .resource }
        // A function name and its parenthesis are adjacent in CSS.
        for use in lower.split(separator: "url(", omittingEmptySubsequences: false).dropFirst() {
            guard use.drop(while: { $0.isWhitespace || $0 == "\"" || $0 == "'" }).hasPrefix("data:") else {
                throw .resource
            }
        }
        css = text
    }

    /// Reads a style sheet. Throws `UpdateFailure` if it is refused.
    package init(file path: String) throws {
        let bytes = try EditedText.bytes(
            of: File.open(reading: path).readAll(maximumBytes: Self.maximumBytes), in: path)
        do {
            try self.init(parsing: bytes)
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "The style sheet \(path) \(error.rawValue). State pages load nothing: write images as data: URLs.")
        }
    }
}

/// The texts and the style of the shell's own pages and of the notice.
package struct ScreenDesign: Sendable, Equatable {
    let texts: ScreenTexts
    let style: ScreenStyle?
    /// The name of the device, which pages without content show; empty for none.
    let device: String
    let notice: UpdateNotice.Showing

    /// Creates a design.
    package init(
        texts: ScreenTexts = .standard, style: ScreenStyle? = nil, device: String = "",
        notice: UpdateNotice.Showing = .auto
    ) {
        self.texts = texts
        self.notice = notice
        self.style = style
        self.device = device
    }
}
