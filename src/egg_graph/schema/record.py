"""One verdict with all that is needed to check it and to repeat it, and the format of everything that is saved."""

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

FORMAT = 3
"""Format of evidence records, and of a run's evidence.json with the history.jsonl beside it.

Format 1 is the first; its evidence.json names no format. Format 2 has the same fields, and evidence.json names it. In
format 3 history.jsonl has lines for calls beside those for attempts (`egg_graph.schema.ledger`).
Raise it, and read the older ones, with every change that renames or removes a field of a saved value, or that adds one
to `KernelTask`, whose digest covers every field.
"""
KEY_VARIABLE = "EGG_GRAPH_EVIDENCE_KEY"
"""Environment variable with the key that records are signed with."""


def check_format(found: object) -> None:
    """Refuse a format that this version cannot read.

    Raises:
        BadInput: if `found` is no number from 1 to `FORMAT`.
    """
    if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= FORMAT:
        raise BadInput(f"unknown format {found!r}: this egg-graph reads formats 1 to {FORMAT}")


class EvaluatorSettings(Value):
    """The settings of the evaluator that a verdict depends on."""

    device: Literal["gpu", "none"]
    timeout: float
    """Seconds that one run of the candidate could take."""
    finalist: bool = False
    """Whether the slow rungs for finalists ran."""


class EvidenceRecord(Value):
    """A verdict with its task, its candidate and the settings of the evaluator, signed.

    The signature covers the canonical JSON of all other fields. A plain SHA-256 shows damage, but anyone can make it
    anew; an HMAC-SHA256 can only be made by the holders of its key.
    """

    format: int = FORMAT
    egg_graph: str
    """Version of egg-graph that made the record."""
    created: str
    """Time of the verdict, ISO 8601, UTC."""
    task: KernelTask
    candidate: Candidate
    settings: EvaluatorSettings
    seed: int | None
    """Root of every seed; None where the evaluator did not give it, and then nothing can be repeated."""
    reference_sha256: str
    """SHA-256 of the reference's source, as hex digits."""
    source_sha256: str
    """SHA-256 of the candidate's source, as hex digits."""
    evaluation: Evaluation
    signed_with: Literal["sha256", "hmac-sha256"]
    signature: str

    @classmethod
    def make(
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
        """Make a signed record: HMAC-SHA256 under `key`, or a plain SHA-256 where `key` is empty."""
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
        """Read a record from JSON data, and verify it.

        Args:
            data: what `data()` returned, in this format or an older one.
            key: key that the record must be signed with; empty for a plain checksum.

        Raises:
            BadInput: if `data` is no record, has an unknown format, was changed, or is not signed as the key demands.
        """
        if not isinstance(data, dict) or not isinstance(data.get("format"), int):
            raise BadInput('no evidence record: it has no number under "format"')
        check_format(data["format"])
        _verify_signature(data, key)
        try:
            record = cls.model_validate(data)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BadInput(f"no evidence record of format {data['format']}: {where}: {first['msg']}") from error
        record._verify_hashes()
        return record

    def data(self) -> dict[str, Any]:
        """The record as JSON data. Infinities become text, because JSON has none."""
        plain: dict[str, Any] = json.loads(self.model_dump_json())
        return plain

    def _verify_hashes(self) -> None:
        """Refuse parts that do not belong together, whoever signed them."""
        for what, recorded, found in (
            ("reference", self.reference_sha256, _sha256(self.task.reference)),
            ("candidate's source", self.source_sha256, _sha256(self.candidate.source)),
            ("evaluated candidate", self.evaluation.candidate, self.candidate.id),
            ("evaluated task", self.evaluation.task, self.task.digest),
        ):
            if recorded != found:
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
        cause = "or it was signed with another key" if key else "so its text is not the one that was written"
        raise BadInput(f"tampered with: the record does not fit its signature ({method}), {cause}")


def _signature(data: dict[str, Any], key: str) -> str:
    """Sign the canonical JSON (sorted keys, no spaces, ASCII) of all fields but the signature."""
    signed = {name: value for name, value in data.items() if name != "signature"}
    text = json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    return hmac.new(key.encode(), text, hashlib.sha256).hexdigest() if key else hashlib.sha256(text).hexdigest()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
