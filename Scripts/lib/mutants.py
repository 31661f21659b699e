"""Generates the mutants of Swift sources: single steps that can be switched off, found by patterns of the code.

A mutant wraps a piece of source with a switch that is read at run time. The rest of the file keeps its lines. The name is
FILE.FUNCTION.KIND.HASH, where the hash is of the piece without blanks: it stays the same if the piece moves inside its function.
"""

import bisect
import os
import re
import zlib
from collections import namedtuple

import swift

# `before` and `after` enclose the piece from `start` to `end`; N stands for the number of the switch.
Mutant = namedtuple("Mutant", "name number path line function kind piece start end before after")

KINDS = {
    "pass": "a condition of a guard is true",
    "default": "a guard receives a value instead of nil",
    "exit": "a guard leaves",
    "never": "an if is skipped",
    "always": "a condition of an if is true",
    "throw": "an error is not thrown",
    "give": "a value is returned instead of an error",
    "case": "a case of a switch does nothing",
    "nil": "nil is returned",
    "true": "true is returned",
    "false": "false is returned",
    "call": "a call is skipped",
    "set": "a value is not assigned",
    "bound": "a comparison includes or excludes its boundary",
    "hand": "an entry of the list by-hand",
}
WORD = r"(?<![\w.`#])"
HEADER = re.compile(WORD + r"(guard|if|while|for|switch|catch)\b")
PREDICATE = re.compile(
    r"(?:\.(?:filter|first|contains|allSatisfy|drop|prefix|firstIndex|lastIndex|last|removeAll|flatMap|map)(?:\((?:where|while):)?|"
    r"\b(?:where|while|by):)\s*\{\s*")
CALL = re.compile(r"(?:_ = )?(?:try[?!]? )?(?:await )?[A-Za-z_][\w.]*[?!]?(?:\.[\w]+[?!]?)*\(")
NO_CALL = re.compile(r"(?:try )?(?:if|guard|while|for|switch|return|throw|case|default|defer|catch|precondition|assert|super|self\.init|init|func)\b")
ASSIGNMENT = re.compile(r"[A-Za-z_$][\w.?!]*(?:\[[^\]\n]*\])?(?:\.\w+)* (?:=|\+=|-=) ")
OPERATORS = {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > "}


class Source:
    """A file with the places that mutants can wrap."""

    def __init__(self, path, text, boundaries=False):
        self.path, self.text, self.code = path, text, swift.code(text)
        self.stem = os.path.basename(path).removesuffix(".swift").removesuffix(".c")
        self.boundaries = boundaries
        self.functions = swift.functions(self.code)
        self.found, self.seen = [], set()
        self.closes, stack = {}, []
        for place, letter in enumerate(self.code):
            if letter in "([{":
                stack.append(place)
            elif letter in ")]}" and stack:
                self.closes[stack.pop()] = place
        self.opens = sorted(self.closes)
        # The block of a brace: the body of an if, of a guard's else, of another control statement, or a closure.
        self.bodies = {}

    # MARK: Positions

    def function(self, place):
        inside = [one for one in self.functions if one.body < place < one.end]
        return inside[-1] if inside else None

    def bracket(self, place, kinds="{"):
        """Returns the innermost open bracket around a place."""
        at = bisect.bisect_left(self.opens, place) - 1
        while at >= 0 and not (self.closes[self.opens[at]] >= place and self.code[self.opens[at]] in kinds):
            at -= 1
        return self.opens[at] if at >= 0 else None

    def skip(self, place):
        """Returns the place after the bracket that closes the one at `place`."""
        return self.closes.get(place, len(self.code) - 1) + 1

    def trim(self, start, end):
        while start < end and self.code[start].isspace():
            start += 1
        while end > start and self.code[end - 1].isspace():
            end -= 1
        return start, end

    def split(self, start, end, separator):
        """Returns the parts between the separators outside of brackets."""
        parts, begin, at = [], start, start
        while at < end:
            if self.code[at] in "([{":
                at = self.skip(at)
            elif self.code.startswith(separator, at):
                parts.append((begin, at))
                at += len(separator)
                begin = at
            else:
                at += 1
        parts.append((begin, end))
        return [self.trim(*part) for part in parts]

    def statement_end(self, at):
        while at < len(self.code):
            letter = self.code[at]
            if letter in "([{":
                at = self.skip(at)
            elif letter in ")]};":
                break
            elif letter == "\n":
                before = self.code[:at].rstrip()
                rest = self.code[at:at + 400].lstrip()
                goes_on = re.match(r"[.?:+\-*/%&|<>=]", rest) or re.search(r"(?:[-+*/%&|<>=?:,(]|\breturn|\bin)$", before[-8:])
                if not goes_on:
                    break
                at += 1
            else:
                at += 1
        return len(self.code[:at].rstrip())

    def starts_statement(self, place):
        before = self.code[:place].rstrip(" \t")
        if before.endswith(("\n", "{", ";")):
            previous = before.rstrip()
            return not re.search(r"[-+*/%&|<>=?,(\[]$|(?<![\w)\]])in$", previous[-6:]) or previous.endswith("{")
        if before.endswith(":"):
            return re.search(r"\b(?:case\b[^\n]*|default):$", before[before.rfind("\n") + 1:]) is not None
        return False

    # MARK: Mutants

    def add(self, kind, start, end, before, after, variant="", function=None):
        start, end = self.trim(start, end)
        function = function or self.function(start)
        if end <= start or function is None or (kind, start, end, before, after) in self.seen:
            return
        self.seen.add((kind, start, end, before, after))
        piece = re.sub(r"\s+", " ", self.text[start:end])
        digest = zlib.crc32((re.sub(r"\s+", "", self.text[start:end]) + variant).encode()) & 0xFFFFF
        self.found.append([f"{self.stem}.{function.name}.{kind}.{digest:05x}", start, end, before, after, kind, piece, function])

    def type_of(self, place):
        """Returns the return type of the function around `place`: "" for Void, None in a closure."""
        function = self.function(place)
        brace = self.bracket(place)
        while brace is not None and brace != function.body:
            # A function returns the value of its only closure.
            if self.bodies.get(brace) is None and not (self.bracket(brace) == function.body and self.statements(function.body) == 1):
                return None
            brace = self.bracket(brace)
        if function.kind == "var":
            return function.signature.partition(":")[2].strip()
        if function.kind != "func":
            return None
        result = re.split(r"->(?![^(]*\))", function.signature)
        return re.split(r"\bwhere\b", result[-1])[0].strip() if len(result) > 1 else ""

    def expression(self, start, end, kinds):
        """Adds the mutants of a condition: forced to true and to false with these `kinds`, of its parts, and of its boundary."""
        start, end = self.trim(start, end)
        if match := re.compile(r"(?:try |await )+").match(self.code, start):
            start = match.end()
        if start >= end or self.code.startswith(("try? ", "try! "), start):
            return
        to_true, to_false = kinds
        if self.code[start:end] in ("true", "false"):
            return
        alternatives, terms = self.split(start, end, " || "), self.split(start, end, " && ")
        whole = len(self.split(start, end, " ? ")) > 1
        if to_true and (whole or len(terms) == 1):
            self.add(to_true, start, end, "isTrue(N, ", ")")
        if to_false and (whole or len(alternatives) == 1):
            self.add(to_false, start, end, "isFalse(N, ", ")")
        if whole:
            return
        if len(alternatives) > 1:
            for part in alternatives:
                self.expression(*part, (None, "false"))
                self.parts(*part)
        elif len(terms) > 1:
            for part in terms:
                self.expression(*part, ("true" if to_true is None else to_true, None))
        else:
            self.parts(start, end)

    def parts(self, start, end):
        """Adds the mutants of a comparison, or of a condition in parentheses."""
        begin = start + 1 if self.code[start] == "!" else start
        if self.code[begin] == "(" and self.skip(begin) == end:
            if " && " in self.code[begin:end] or " || " in self.code[begin:end]:
                self.expression(begin + 1, end - 1, (None, None))
            return
        if not self.boundaries:
            return
        for operator, other in OPERATORS.items():
            sides = self.split(start, end, operator)
            if len(sides) == 2 and not re.search(r"\btry\b", self.code[start:end]):
                left, right = (self.text[slice(*side)] for side in sides)
                if "\n" not in left + right:
                    self.add("bound", start, end, f"(isSwitchedOff(N) ? {left}{other}{right} : ", ")")

    def conditions(self, start, end, kinds):
        for begin, stop in self.split(start, end, ","):
            binding = re.compile(r"(let|var|case)\b").match(self.code, begin)
            if binding is None:
                if not self.code.startswith("#", begin):
                    self.expression(begin, stop, kinds)
            elif binding[1] != "case" and kinds[0] == "pass":
                self.binding(begin, stop)

    def binding(self, start, end):
        parts = self.split(start, end, " = ")
        if len(parts) == 1:
            if match := re.compile(r"(?:let|var) (\w+)$").match(self.code[:end], start):
                self.add("default", start, end, "", f" = orDefault(N, {match[1]})", "short")
            return
        begin, stop = parts[1][0], end
        if match := re.compile(r"(?:try |await )+").match(self.code, begin):
            begin = match.end()
        self.add("default", begin, stop, "orDefault(N, ", ")")

    def value(self, start, end):
        """Adds the mutants of a returned value."""
        start, end = self.trim(start, end)
        kind = self.type_of(start)
        if not kind or re.match(r"(?:if|switch|return|throw|let|var|for|while|guard|do)\b", self.code[start:]):
            return
        if kind == "Bool":
            self.expression(start, end, ("true", "false"))
        elif kind.endswith("?") and self.code[start:end] != "nil":
            if match := re.compile(r"(?:try |await )+").match(self.code, start):
                start = match.end()
            self.add("nil", start, end, "(isSwitchedOff(N) ? nil : ", ")")

    # MARK: The patterns

    def headers(self):
        places = []
        for match in HEADER.finditer(self.code):
            word, at = match[1], match.end()
            while at < len(self.code) and self.code[at] != "{" and self.code[at] not in ")]}":
                if self.code[at] in "([":
                    at = self.skip(at)
                elif word == "guard" and re.compile(r"\belse\s*\{").match(self.code, at):
                    break
                else:
                    at += 1
                # A closure in the conditions of a guard.
                while word == "guard" and at < len(self.code) and self.code[at] == "{":
                    at = self.skip(at)
            brace = self.code.find("{", at)
            if at >= len(self.code) or brace < 0 or self.code[at] in ")]}":
                continue
            self.bodies[brace] = word
            places.append((word, match.end(), at, brace))
        for match in re.finditer(WORD + r"(else|do|defer|repeat)\s*(?:throws\s*(?:\(\w+\)\s*)?)?(?=\{)", self.code):
            self.bodies.setdefault(match.end(), match[1])
        return places

    def statements(self, brace):
        """Returns the approximate number of statements in a block: the lines at its depth that begin a statement."""
        at, end, count = brace + 1, self.closes[brace], 0
        while True:
            at = self.trim(at, end)[0]
            if at >= end:
                return count
            count += 1
            at = max(self.statement_end(at), at + 1)
            while at < end and self.code[at] in "; ":
                at += 1

    def generate(self):
        for word, start, end, brace in self.headers():
            body = self.code[brace:self.skip(brace)]
            if word == "guard":
                # Of mutants that begin at one place, the outermost is first.
                if re.search(r"\bthrow [a-z]\w*\s*\}$", body) or not re.search(r"\bthrow\b", body):
                    self.add("exit", start, end, "!isSwitchedOff(N), ", "")
                self.conditions(start, end, ("pass", None))
            elif word == "if":
                self.add("never", start, end, "!isSwitchedOff(N), ", "")
                self.conditions(start, end, ("always", None))
            elif word == "for":
                parts = self.split(start, end, " where ")
                if len(parts) == 2:
                    self.expression(*parts[1], ("true", "false"))
        self.cases()
        self.throws()
        self.returns()
        self.steps()
        self.closures()

    def cases(self):
        for match in re.finditer(WORD + r"(?:case\b|default(?=:))", self.code):
            brace = self.bracket(match.start())
            if brace is None or self.bodies.get(brace) != "switch":
                continue
            colon = match.end()
            while colon < len(self.code) and self.code[colon] not in ":}":
                colon = self.skip(colon) if self.code[colon] in "([{" else colon + 1
            where = self.split(match.end(), colon, " where ")
            if len(where) == 2:
                self.expression(*where[1], ("true", "false"))
            start = self.trim(colon + 1, len(self.code))[0]
            end = self.statement_end(start)
            alone = re.match(r"\s*(?:case\b|default:|\}|@unknown)", self.code[end:]) is not None
            begins = re.match(r"(?:return|throw|if|guard|for|while|switch|do|let|var|try|await|break|continue)\b", self.code[start:])
            label, word = self.text[match.start():colon], self.code[start:end]
            if alone and (literal := re.fullmatch("(?:return )?(true|false)", word)) and (word == literal[1] or self.type_of(start) == "Bool"):
                other = "True" if literal[1] == "false" else "False"
                self.add(other.lower(), end - len(literal[1]), end, f"is{other}(N, ", ")", label)
            if alone and word in ("break", "continue", "return", "true", "false", "nil"):
                continue
            # Every case must return if no statement follows the switch.
            if self.type_of(start) != "" and self.ends_function(self.skip(brace)):
                if alone and not begins:
                    self.value(start, end)
                continue
            call = CALL.match(self.code, start)
            if not alone or begins and begins[0] not in ("try", "await") or call and self.type_of(start) == "":
                self.add("case", start, end, "if isSwitchedOff(N) { break }; ", "", label)
            elif re.search(r": [^=\n]*\?\s*=\s*(?:try )?switch [^{]*$", self.code[max(0, brace - 300):brace]):
                self.add("nil", start, end, "(isSwitchedOff(N) ? nil : ", ")")
            else:
                self.value(start, end)

    def throws(self):
        for match in re.finditer(WORD + r"throw\b", self.code):
            start, end = match.start(), self.statement_end(match.end())
            brace = self.bracket(start)
            kind, result = self.bodies.get(brace), self.type_of(start)
            if kind != "guard":
                sole = self.code[brace + 1:start].strip() == ""
                # A body that only throws has the same mutant as its if.
                if not (kind == "if" and sole and not self.code[self.skip(brace):].lstrip().startswith("else")):
                    if result == "" or not self.ends_function(end):
                        self.add("throw", start, end, "if !isSwitchedOff(N) { ", " }")
                if result in ("", "Bool"):
                    self.add("give", start, end, f"if isSwitchedOff(N) {{ return{' true' if result else ''} }}; ", "")
            elif result == "" or result and result.endswith("?"):
                self.add("give", start, end, f"if isSwitchedOff(N) {{ return{' nil' if result else ''} }}; ", "")

    def ends_function(self, place):
        """Returns whether only closing braces, other cases and catches follow until the function ends."""
        rest = self.code[place:self.function(place - 1).end - 1]
        return re.fullmatch(r"[\s}]*", rest) is not None

    def is_value(self, brace):
        """Returns whether the value of a switch is returned or assigned."""
        before = self.code[:brace]
        place = max(match.start() for match in re.finditer(r"\bswitch\b", before[-400:])) + max(0, len(before) - 400)
        return re.search(r"(?:=|return)\s*(?:try )?$", before[:place][-40:]) is not None

    def returns(self):
        for match in re.finditer(WORD + r"return\b[ \t]*(?=[^\s}])", self.code):
            if self.function(match.start()):
                self.value(match.end(), self.statement_end(match.end()))
        for function in self.functions:
            if function.body in self.closes and self.statements(function.body) == 1:
                start = self.trim(function.body + 1, self.closes[function.body])[0]
                if not self.code.startswith(("get ", "get{"), start):
                    self.value(start, self.statement_end(start))

    def steps(self):
        for match in re.finditer(r"(?<=[\n{;:]) *(?=[A-Za-z_$])", self.code):
            start = match.end()
            if self.bracket(start, "([{") is None or self.code[self.bracket(start, "([{")] != "{" or not self.starts_statement(start):
                continue
            function = self.function(start)
            if function is None or NO_CALL.match(self.code, start):
                continue
            end = self.statement_end(start)
            if CALL.match(self.code, start):
                # An implicitly returned expression is not a statement.
                brace = self.bracket(start)
                in_case = self.bodies.get(brace) == "switch" and re.match(r"\s*(?:case\b|default:|\})", self.code[end:])
                sole = brace in (function.body, None) or self.bodies.get(brace) is None or in_case
                if brace == function.body or not in_case:
                    sole = sole and self.statements(brace) == 1
                if self.code[end - 1] in ")}" and not (sole and (self.type_of(start) != "" or in_case and self.is_value(brace))):
                    self.add("call", start, end, "if !isSwitchedOff(N) { ", " }")
            elif ASSIGNMENT.match(self.code, start) and function.kind != "init" and not re.search(
                    rf"\blet {re.escape(self.code[start:end].split()[0])}\s*(?::[^=\n]*)?\n", self.code[function.body:start]):
                self.add("set", start, end, "if !isSwitchedOff(N) { ", " }")

    def closures(self):
        for match in PREDICATE.finditer(self.code):
            opening = self.code.index("{", match.start())
            end = self.closes.get(opening)
            if opening in self.bodies or end is None or self.statements(opening) != 1:
                continue
            start = match.end()
            if head := re.compile(r"(?:\([^)]*\)|[\w, ]+) in\s").match(self.code, start):
                start = head.end()
            looks_boolean = re.search(r"==|!=|[<>]=? |&&|\|\||!|\bcontains\b|\b(?:is|may|has)[A-Z]", self.code[start:end])
            maps = re.match(r"\.(?:flatMap|map)", match[0])
            if re.match(r"\.(?:filter|first|contains|allSatisfy|drop|removeAll)", match[0]) or looks_boolean and not (
                    maps and re.search(r"^\s*[A-Za-z.]*[A-Z]\w*\(|\?\?|\[", self.code[start:end])):
                self.expression(start, end, ("true", "false"))
        for match in re.finditer(r"\.filter\(([\w.]+)\)", self.code):
            self.add("true", match.start(1), match.end(1), "{ isSwitchedOff(N) || ", "($0) }")

    def hand(self, name, every, pattern, replacement):
        """Adds a mutant of the list by-hand: a pattern in a function, and the text around it, with OFF for the switch."""
        whole = swift.Function("whole", name, "", 0, 0, len(self.text))
        functions = [one for one in self.functions if one.name == name] or [whole] * (name == "whole")
        places = [(one, match) for one in functions for match in re.compile(pattern).finditer(self.text, one.start, one.end)]
        if len(places) != 1 and not (every and places):
            return f"{self.stem}.{name}: matches {len(places)} times: {pattern}"
        for function, match in places:
            before, after = match.expand(replacement).replace("OFF", "isSwitchedOff(N)").split("@", 1)
            self.add("hand", match.start(), match.end(), before, after, replacement, function)
        return None


def finish(sources):
    """Returns all mutants with unique names and numbers. A number depends on the name, so an edit keeps other builds valid."""
    mutants, names, numbers = [], {}, set()
    for source in sources:
        for name, start, end, before, after, kind, piece, function in sorted(source.found, key=lambda one: (one[1], -one[2])):
            names[name] = names.get(name, 0) + 1
            if names[name] > 1:
                name += f"~{names[name]}"
            number = zlib.crc32(name.encode()) & 0x3FFFFF or 1
            while number in numbers:
                number = number % 0x3FFFFF + 1
            numbers.add(number)
            mutants.append(Mutant(
                name, number, source.path, source.text.count("\n", 0, start) + 1, function, kind, piece, start, end,
                before.replace("(N", f"({number}"), after.replace("(N", f"({number}")))
    return mutants


def render(text, mutants):
    """Returns the text with all mutants, their places in it, and the omitted mutants that overlap another one."""
    parts, places, crossing = [], {}, []
    length, at, stack = 0, 0, []

    def emit(part):
        nonlocal length
        parts.append(part)
        length += len(part)

    def close(limit):
        nonlocal at
        while stack and stack[-1].end <= limit:
            mutant = stack.pop()
            emit(text[at:mutant.end])
            at = mutant.end
            emit(mutant.after)
            places[mutant.name] = (places[mutant.name], length)

    for mutant in sorted(mutants, key=lambda one: (one.start, -one.end)):
        close(mutant.start)
        if stack and mutant.end > stack[-1].end:
            crossing.append(mutant)
            continue
        emit(text[at:mutant.start])
        at = mutant.start
        places[mutant.name] = length
        emit(mutant.before)
        stack.append(mutant)
    close(len(text))
    emit(text[at:])
    return "".join(parts), places, crossing
