"""One verdict with all that is needed to check it and to repeat it."""

import hashlib
import hmac
import json
from typing import Any, Literal

from pydantic import ValidationError

from egg_graph.schema.base import Value
from egg_graph.schema.candidate import Candidate
from egg_graph.schema.errors import BadInput
from egg_graph.schema.evaluation import Evaluation
from egg_graph.schema.task import KernelTask

FORMAT = 1
"""Of the record; a reader refuses a later one."""
KEY_VARIABLE = "EGG_GRAPH_EVIDENCE_KEY"


class EvaluatorSettings(Value):
    """How the evaluator was set up, as far as a verdict depends on it."""

    device: Literal["gpu", "none"]
    timeout: float
    """Seconds that one run of the candidate could take."""
    finalist: bool = False


class EvidenceRecord(Value):
    """A verdict, what it is about, and how it came about.

    The signature is over the canonical JSON of everything else: a plain SHA-256, which shows damage but can be made
    anew by anyone, or an HMAC-SHA256 under a key, which only its holders can make.
    """

    format: int = FORMAT
    egg_graph: str
    """Version of egg-graph."""
    created: str
    """ISO 8601, UTC."""
    task: KernelTask
    candidate: Candidate
    settings: EvaluatorSettings
    seed: int | None
    """Root of every seed; None where the evaluator did not tell it, and then nothing can be repeated."""
    reference_sha256: str
    source_sha256: str
    """Of the candidate."""
    evaluation: Evaluation
    signed_with: Literal["sha256", "hmac-sha256"]
    signature: str

    @classmethod
    def made(
        cls,
        task: KernelTask,
        candidate: Candidate,
        evaluation: Evaluation,
        settings: EvaluatorSettings,
        *,
        egg_graph: str,
        created: str,
        key: str = "",
    ) -> "EvidenceRecord":
        """A signed record; under `key`, if it is not empty."""
        plain = cls(
            egg_graph=egg_graph,
            created=created,
            task=task,
            candidate=candidate,
            settings=settings,
            seed=evaluation.seed,
            reference_sha256=_sha256(task.reference),
            source_sha256=_sha256(candidate.source),
            evaluation=evaluation,
            signed_with="hmac-sha256" if key else "sha256",
            signature="",
        )
        return plain.model_copy(update={"signature": _signature(plain.data(), key)})

    @classmethod
    def read(cls, data: Any, *, key: str = "") -> "EvidenceRecord":
        """A record from JSON data, verified.

        Args:
            data: as `data()` gives it.
            key: what it must be signed with; empty for a plain checksum.

        Raises:
            BadInput: if it is no record, was changed, or is not signed as the key demands; one line that says which.
        """
        if not isinstance(data, dict) or not isinstance(data.get("format"), int):
            raise BadInput('no evidence record: it has no number under "format"')
        if data["format"] > FORMAT:
            raise BadInput(f"the record has format {data['format']}, and this egg-graph reads up to {FORMAT}")
        _verify_signature(data, key)
        try:
            record = cls.model_validate(data)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BadInput(f"no evidence record of format {FORMAT}: {where}: {first['msg']}") from error
        record._verify_hashes()
        return record

    def data(self) -> dict[str, Any]:
        """As JSON data; infinities as text, for JSON has none."""
        plain: dict[str, Any] = json.loads(self.model_dump_json())
        return plain

    def _verify_hashes(self) -> None:
        """What the signature covers must also fit together."""
        for what, told, found in (
            ("reference", self.reference_sha256, _sha256(self.task.reference)),
            ("candidate's source", self.source_sha256, _sha256(self.candidate.source)),
            ("evaluated candidate", self.evaluation.candidate, self.candidate.id),
            ("evaluated task", self.evaluation.task, self.task.digest),
        ):
            if told != found:
                raise BadInput(f"tampered with: the {what} is not the one that the record names")


def _verify_signature(data: dict[str, Any], key: str) -> None:
    method = data.get("signed_with")
    if method == "sha256" and key:
        raise BadInput(
            f"the record carries only a checksum (sha256), though {KEY_VARIABLE} is set: whoever changed it could have "
            "made the checksum anew; unset the key to read it all the same"
        )
    if method == "hmac-sha256" and not key:
        raise BadInput(f"the record is signed with a key (hmac-sha256): set {KEY_VARIABLE} to verify it")
    if not hmac.compare_digest(_signature(data, key), str(data.get("signature"))):
        told = "or it was signed with another key" if key else "so its text is not the one that was written"
        raise BadInput(f"tampered with: the record does not fit its signature ({method}), {told}")


def _signature(data: dict[str, Any], key: str) -> str:
    """Over the canonical JSON (sorted keys, no spaces, ASCII) of all but the signature itself."""
    signed = {name: value for name, value in data.items() if name != "signature"}
    text = json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    return hmac.new(key.encode(), text, hashlib.sha256).hexdigest() if key else hashlib.sha256(text).hexdigest()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
