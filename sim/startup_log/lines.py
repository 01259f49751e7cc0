"""One line of a log without what its way to the file added: JSON wrapping, colours; and which rank printed it."""

import json
import re

_COLOUR = re.compile(r"(?:\x1b|#033|\^\[)\[[0-9;]{0,20}m")
_VLLM_PROCESS = re.compile(
    r"\(((?:Vllm|Ray|Engine|API|Api|Worker)[A-Za-z0-9_]{0,60})(?: rank=(\d{1,6}))? ?pid=(\d{1,10})"
)
_SGLANG_RANK = re.compile(r"\[[-0-9: ,.]{8,30} ((?:[A-Z]{1,4}\d{1,5} ?){1,6})\]")
_NUMBERED = re.compile(r"\d$")
_JSON_TEXT_KEYS = ("log", "message", "msg", "MESSAGE", "text", "textPayload", "line")


def plain(line: str) -> str:
    """Return the text the engine printed: out of a JSON object, without colours and without the line's end."""
    text = line.strip()
    if text.startswith("{") and text.endswith("}"):
        text = _unwrapped(text)
    if "[" in text and "m" in text:
        text = _COLOUR.sub("", text)
    return text.strip()


def _unwrapped(text: str) -> str:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text
    texts = [record[key] for key in _JSON_TEXT_KEYS if isinstance(record.get(key), str)]
    return texts[0] if texts else text


def rank_of(text: str) -> str:
    """Return the process that printed a line (`Worker_TP1`, `TP0`), empty where the line names none.

    vLLM's older workers and Ray's have no number in their name: their process ids tell them apart.
    """
    if sglang := _SGLANG_RANK.search(text, 0, 200):
        return sglang[1].strip()
    names = [_process_name(*found) for found in _VLLM_PROCESS.findall(text[:400])]
    return " ".join(dict.fromkeys(names))


def _process_name(name: str, rank: str, pid: str) -> str:
    if rank:
        return f"{name} rank {rank}"
    if name.startswith(("API", "Api", "Engine")) or _NUMBERED.search(name):
        return name
    return f"{name} {pid}"
