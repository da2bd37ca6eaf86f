"""A real HTTP server on loopback that answers like an OpenAI-compatible service, or with trouble first.

    with Service(embeddings) as service:
        service.trouble(refuse(429, retry_after="0"), garbage())     # the next two requests; then `embeddings`
        ... AsyncOpenAI(base_url=service.url) ...
        service.requests[0].body["input"]

An answer is a function that gets a `Request` and returns a `Reply`.
"""

import contextlib
import itertools
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias


@dataclass(frozen=True, kw_only=True)
class Request:
    path: str
    headers: dict[str, str]
    """The headers, with names in lower case."""

    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)


@dataclass(frozen=True, kw_only=True)
class Reply:
    content: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    bytes_sent: int | None = None
    """Number of bytes after which the connection closes, if `content` is longer. None sends all of it."""

    after_s: float = 0.0
    stalls_s: float = 0.0
    """Seconds of a pause in the middle of `content`."""


Answer: TypeAlias = Callable[[Request], Reply]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class Service:
    """A server that runs until the `with` block ends. `url` is the base URL for clients."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.most_at_once = 0
        self._trouble: deque[Answer] = deque()
        self._at_once = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def trouble(self, *answers: Answer) -> None:
        """Give these answers to the next requests, in the order in which the requests arrive."""
        self._trouble.extend(answers)

    def forget(self) -> None:
        """Forget the requests, and the answers of `trouble` that were not yet given."""
        self.requests.clear()
        self._trouble.clear()

    def __enter__(self) -> "Service":
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _reply(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            answer = self._trouble.popleft() if self._trouble else self.answer
        try:
            reply = answer(request)
            time.sleep(reply.after_s)
            return reply
        finally:
            with self._lock:
                self._at_once -= 1

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = service._reply(Request(path=self.path, headers=headers, content=content))
                with contextlib.suppress(ConnectionError):  # the client gave up
                    self._send(reply)
                self.close_connection = reply.bytes_sent is not None

            def _send(self, reply: Reply) -> None:
                self.send_response(reply.status)
                for name, value in {"content-type": reply.content_type, **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(reply.content)))
                self.end_headers()
                content, middle = reply.content[: reply.bytes_sent], len(reply.content) // 2
                self.wfile.write(content[:middle])
                self.wfile.flush()
                time.sleep(reply.stalls_s)
                self.wfile.write(content[middle:])

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


def as_json(value: Any, **changes: Any) -> Reply:
    return replace(Reply(content=json.dumps(value).encode()), **changes)


def refuse(status: int, message: str = "no", *, retry_after: str | None = None) -> Answer:
    """Return an answer that is an error in OpenAI's shape."""
    headers = {} if retry_after is None else {"retry-after": retry_after}
    return lambda request: as_json({"error": {"message": message}}, status=status, headers=headers)


def garbage(content: str = "<html>Bad gateway</html>", content_type: str = "text/html") -> Answer:
    return lambda request: Reply(content=content.encode(), content_type=content_type)


def half(answer: Answer) -> Answer:
    """Return an answer that sends the first half of another answer's bytes, and then closes the connection."""

    def cut(request: Request) -> Reply:
        reply = answer(request)
        return replace(reply, bytes_sent=len(reply.content) // 2)

    return cut


def stalling(answer: Answer, seconds: float) -> Answer:
    """Return an answer that sends the first half of another answer's bytes, pauses, and sends the rest."""
    return lambda request: replace(answer(request), stalls_s=seconds)


def slow(answer: Answer, seconds: float) -> Answer:
    return lambda request: replace(answer(request), after_s=seconds)


PATIENCE_S = 120.0
"""Seconds that a request waits for another request, or for the test, before it is refused."""


class Together:
    """An answer that holds requests until there are `size` of them, answers these, and begins again.

    If too few requests come, all are refused with a final status and a message that says so.

    Args:
        answer: the answer that each request gets.
        size: the number of requests that are answered together.
    """

    def __init__(self, answer: Answer, size: int) -> None:
        self._answer = answer
        self._barrier = threading.Barrier(size)

    def __call__(self, request: Request) -> Reply:
        try:
            self._barrier.wait(PATIENCE_S)
        except threading.BrokenBarrierError:
            message = f"expected {self._barrier.parties} requests at once; fewer came in {PATIENCE_S:.0f} s"
            return refuse(400, message)(request)
        return self._answer(request)


class Held:
    """An answer that answers the first requests, and holds the others until `open` is called.

    Args:
        answer: the answer that each request gets.
        after: the number of requests that are answered without being held.
        counted: tells whether a request is counted and may be held. Any other request is answered.

    Attributes:
        reached: set as soon as a request is held.
    """

    def __init__(
        self, answer: Answer, after: int, *, counted: Callable[[Request], bool] = lambda request: True
    ) -> None:
        self.reached = threading.Event()
        self._answer = answer
        self._after = after
        self._counted = counted
        self._numbers = itertools.count()
        self._opened = threading.Event()

    def __call__(self, request: Request) -> Reply:
        if self._counted(request) and next(self._numbers) >= self._after:
            self.reached.set()
            if not self._opened.wait(PATIENCE_S):
                return refuse(400, f"held for {PATIENCE_S:.0f} s, and never opened")(request)
        return self._answer(request)

    def open(self) -> None:
        """Answer the held requests, and hold no request any more."""
        self._opened.set()


def embeddings(vector_of: Callable[[str], Sequence[float]]) -> Answer:
    """Return the answer of an embedding service: `vector_of` each text, and one token per character."""

    def answer(request: Request) -> Reply:
        texts = request.body["input"]
        data = [
            {"object": "embedding", "index": index, "embedding": list(vector_of(text))}
            for index, text in enumerate(texts)
        ]
        return as_json({"object": "list", "data": data, "usage": {"total_tokens": sum(map(len, texts))}})

    return answer


def completions(answer_to: Callable[[str], str], finish_reason: str = "stop") -> Answer:
    """Return the answer of a chat service: `answer_to` the last message, and one token per character.

    It is a stream if the request asks for one.
    """

    def answer(request: Request) -> Reply:
        prompt = request.body["messages"][-1]["content"]
        text = answer_to(prompt)
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(text), "total_tokens": len(prompt + text)}
        if not request.body.get("stream"):
            message = {"role": "assistant", "content": text}
            return as_json(_completion("chat.completion", {"message": message}, finish_reason) | {"usage": usage})
        chunks = [_completion("chat.completion.chunk", {"delta": {"content": part}}, None) for part in text]
        chunks.append(_completion("chat.completion.chunk", {"delta": {}}, finish_reason) | {"usage": usage})
        return events(*map(json.dumps, chunks), "[DONE]")

    return answer


def continuations(
    text_after: Callable[[str], str],
    top_tokens: Callable[[str], dict[str, float]] = lambda prompt: {},
    finish_reason: str = "stop",
) -> Answer:
    """Return the answer of a service that continues raw prompts.

    Args:
        text_after: makes the text that follows a prompt.
        top_tokens: makes the likeliest next tokens with their log-probabilities, for a request that wants them.
        finish_reason: why a text ends.
    """

    def answer(request: Request) -> Reply:
        prompt, wanted = request.body["prompt"], request.body.get("logprobs")
        choice: dict[str, Any] = {"text": text_after(prompt)}
        if wanted:
            tokens = top_tokens(prompt)
            best = max(tokens, key=lambda token: tokens[token])
            choice = {"text": best, "logprobs": {"tokens": [best], "top_logprobs": [tokens]}}
        return as_json(_completion("text_completion", choice, "length" if wanted else finish_reason))

    return answer


def calling(answer_to: Callable[[list[dict[str, Any]]], Sequence[tuple[str, str]]]) -> Answer:
    """Return the answer of a chat service that calls tools: `answer_to` the messages gives names and arguments.

    Each call has another id every time. A stream has the arguments in pieces, and the pieces of two calls mixed.
    """
    ids = itertools.count()

    def answer(request: Request) -> Reply:
        calls = [
            {"index": index, "id": f"x{next(ids)}", "type": "function", "function": {"name": name, "arguments": text}}
            for index, (name, text) in enumerate(answer_to(request.body["messages"]))
        ]
        usage = {"prompt_tokens": 1, "completion_tokens": 5, "total_tokens": 6}
        if not request.body.get("stream"):
            whole = [{key: value for key, value in call.items() if key != "index"} for call in calls]
            message = {"role": "assistant", "content": None, "tool_calls": whole}
            return as_json(_completion("chat.completion", {"message": message}, "tool_calls") | {"usage": usage})
        begun = [{**call, "function": {**call["function"], "arguments": ""}} for call in calls]
        pieces = [
            {"index": call["index"], "function": {"arguments": letter}}
            for letters in itertools.zip_longest(*(call["function"]["arguments"] for call in calls))
            for call, letter in zip(calls, letters, strict=True)
            if letter is not None
        ]
        chunks = [
            _completion("chat.completion.chunk", {"delta": {"tool_calls": [piece]}}, None) for piece in begun + pieces
        ]
        chunks.append(_completion("chat.completion.chunk", {"delta": {}}, "tool_calls") | {"usage": usage})
        return events(*map(json.dumps, chunks), "[DONE]")

    return answer


def events(*data: str) -> Reply:
    """Return a reply of server-sent events, one per text."""
    content = "".join(f"data: {text}\n\n" for text in data)
    return Reply(content=content.encode(), content_type="text/event-stream")


def _completion(kind: str, choice: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    choices = [{"index": 0, "finish_reason": finish_reason, **choice}]
    return {"id": "x", "object": kind, "created": 0, "model": "m", "choices": choices}
