"""Exact numbers in text: integers, fractions, decimals, percentages, units."""

import dataclasses
import fractions
import re

_MAX_DIGITS = 400
_MAX_EXPONENT = 400

_DECIMAL = r"(?:\d+(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+"
_NUMBER = re.compile(rf"({_DECIMAL})(?:[eE]([+-]?\d{{1,9}}))?$", re.ASCII)
_POWER_OF_TEN = re.compile(r"(.+?)(?:\\times|\\cdot|×|\*)10\^(?:\{([+-]?\d+)\}|(\d))$")
_LATEX_FRACTION = re.compile(r"\\[dtc]?frac(?:\{([^{}]*)\}|(\d))(?:\{([^{}]*)\}|(\d))$")
_MIXED = re.compile(
    r"(\d+)(?:\s*\\[dtc]?frac\s*(?:\{\s*(\d+)\s*\}|(\d))\s*(?:\{\s*(\d+)\s*\}|(\d))"
    r"|\s+(\d+)\s*/\s*(\d+))$",
    re.ASCII,
)
# Dropped anywhere: none of them changes a number.
_NOTHING = re.compile(r"\\!|\\left|\\right|\\?\$|\\mathrm|\\text")
_SPACE = re.compile(r"\\[,;: ]|~|\s+")
_GROUPED = re.compile(r"([+-]?)(\d{1,3}(?: \d{3})+)(\.\d+)?$", re.ASCII)

_POWER = re.compile(r"\s*\^\s*\{?\s*([23])\s*\}?$")
_DEGREES = re.compile(r"(?:\^\s*(?:\{\s*\\circ\s*\}|\\circ)|°|\\degree)$")
_TEXT_UNIT = re.compile(r"\\(?:text(?:rm|bf|it)?|mbox|mathrm|rm)\s*\{([^{}]*)\}$")
_BARE_UNIT = re.compile(r"(?<![A-Za-z\\{])([A-Za-z][A-Za-z. ]*)$")
# Words that mean the same unit; a unit that is not here conflicts with none.
_UNITS = {
    "mm": "millimeter millimetre",
    "cm": "centimeter centimetre",
    "m": "meter metre",
    "km": "kilometer kilometre",
    "inch": "in inche",
    "foot": "ft feet",
    "yard": "yd",
    "mile": "mi",
    "mg": "milligram",
    "g": "gram gm",
    "kg": "kilogram",
    "pound": "lb",
    "ounce": "oz",
    "second": "sec",
    "minute": "min",
    "hour": "hr",
    "day": "",
    "week": "",
    "month": "",
    "year": "yr",
    "ml": "milliliter millilitre",
    "liter": "litre",
    "gallon": "gal",
    "dollar": "usd buck",
    "cent": "",
    "degree": "deg",
    "radian": "rad",
    "mph": "",
    "unit": "",
    "am": "",
    "pm": "",
}
_CANONICAL = {
    word: unit for unit, words in _UNITS.items() for word in (unit, *words.split())
}
_DIMENSIONS = {"square": "^2", "sq": "^2", "cubic": "^3", "cu": "^3"}
# Bare letters are variables unless they are one of these.
_NEVER_BARE = {"m", "g", "in", "am", "pm", "min", "sec", "deg", "rad"}


@dataclasses.dataclass(frozen=True)
class Quantity:
    """A number as it was written.

    Args:
        value: exact; a percentage is its number of hundredths.
        percent: it had a percent sign.
        unit: canonical, "" if there was none, "?" if it is not one that we know.
    """

    value: fractions.Fraction
    percent: bool = False
    unit: str = ""

    def matches(self, gold: "Quantity") -> bool:
        """Same number, and not two different units."""
        if "?" not in (self.unit, gold.unit) and self.unit and gold.unit:
            plain = [unit for unit in (self.unit, gold.unit) if unit[:4] != "unit"]
            if len(plain) == 2 and self.unit != gold.unit:
                return False
        if self.value == gold.value:
            return True
        if self.percent == gold.percent:
            return False
        if self.percent:
            return 100 * self.value == gold.value
        return self.value == 100 * gold.value


def quantity(text: str) -> Quantity | None:
    """A number with or without a unit, or None if the text is something else.

    Args:
        text: the whole quantity and nothing else, at most 400 digits, exponents within
            +-400: larger ones are not numbers here, so that none is slow.
    """
    text = text.strip()
    if len(text) > 4 * _MAX_DIGITS:
        return None
    unit = "dollar" if "\\$" in text else ""
    found = number(text)
    if found is None:
        text, unit = _without_unit(text.rstrip(". "))
        found = number(text) if unit else None
    return Quantity(*found, unit) if found else None


def _without_unit(text):
    """(text before the unit, unit): ("45", "cm^2") for "45 cm^2"."""
    power = _POWER.search(text)
    body = text[: power.start()] if power else text
    dimension = f"^{power.group(1)}" if power else ""
    if not power and (match := _DEGREES.search(text)):
        return text[: match.start()], "degree"
    if match := _TEXT_UNIT.search(body):
        return body[: match.start()], _canonical(match.group(1), dimension)
    if match := _BARE_UNIT.search(body):
        words = match.group(1)
        unit = _canonical(words, dimension)
        spaced = body[: match.start()].endswith((" ", "}", "\\,"))
        if unit == "?":
            known = spaced and len(words) >= 4 and words.strip().isalpha()
        else:
            known = spaced or words.lower() not in _NEVER_BARE
        if known and (words not in _NEVER_BARE or spaced):
            return body[: match.start()], unit
    return text, ""


def _canonical(words, dimension):
    words = words.replace(".", "").lower().split()
    while words and words[0] in _DIMENSIONS:
        dimension = _DIMENSIONS[words.pop(0)]
    if len(words) != 1:
        return "?"
    word = words[0]
    unit = _CANONICAL.get(word) or _CANONICAL.get(word.removesuffix("s"))
    return unit + dimension if unit else "?"


def number(text: str) -> tuple[fractions.Fraction, bool] | None:
    """A number and whether it had a percent sign, or None if it is not a number.

    Args:
        text: see `quantity`, without a unit.
    """
    if len(text) > 4 * _MAX_DIGITS:
        return None
    text = _NOTHING.sub("", text).replace("\\%", "%").replace("−", "-")
    text = _SPACE.sub(" ", text.replace("{,}", ",")).strip()
    while len(text) > 1 and text[0] == "{" and text[-1] == "}":
        text = text[1:-1].strip()
    percent = text.rstrip(". ").endswith("%")
    text = text.rstrip(". ").rstrip("% ") if percent else text.rstrip()
    sign = 1
    if text[:1] in ("-", "+"):
        sign, text = (-1 if text[0] == "-" else 1), text[1:].strip()
    value = _mixed(text)
    if value is None:
        if grouped := _GROUPED.match(text):
            text = grouped.group().replace(" ", "")
        if re.search(r"[\d.,] +[\d.]", text):
            return None  # two numbers
        value = _fraction(text.replace(" ", ""))
    if value is None:
        return None
    return sign * value / (100 if percent else 1), percent


def _mixed(text):
    """The value of 1\\frac{2}{3} or "1 2/3"."""
    match = _MIXED.match(text.rstrip("."))
    if not match:
        return None
    whole, *parts = (part for part in match.groups() if part is not None)
    if any(len(part) > _MAX_DIGITS for part in (whole, *parts)):
        return None
    upper, lower = int(parts[0]), int(parts[1])
    return int(whole) + fractions.Fraction(upper, lower) if upper < lower else None


def _fraction(text):
    match = _LATEX_FRACTION.match(text.rstrip("."))
    if match:
        parts = [part for part in match.groups() if part is not None]
    else:
        parts = text.split("/")
    if len(parts) == 2:
        upper, lower = _signed(parts[0]), _signed(parts[1].rstrip("."))
        return upper / lower if upper is not None and lower else None
    return _decimal(text)


def _signed(text):
    negative = text.startswith("-")
    value = _decimal(text[1:] if negative else text)
    return -value if negative and value is not None else value


def _decimal(text):
    exponent = 0
    if power := _POWER_OF_TEN.match(text):
        text, exponent = power.group(1), int((power.group(2) or power.group(3))[:9])
    match = _NUMBER.match(text)
    if not match or len(match.group(1)) > _MAX_DIGITS:
        return None
    exponent += int(match.group(2) or 0)
    if abs(exponent) > _MAX_EXPONENT:
        return None
    digits = match.group(1).replace(",", "").rstrip(".")
    return fractions.Fraction(digits) * fractions.Fraction(10) ** exponent
