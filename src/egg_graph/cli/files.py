"""Read the files that a user names; each failure is one clear line."""

from pathlib import Path

from egg_graph.context import choose_target
from egg_graph.schema import BadInput, Candidate, Domain, KernelTask, Precision


def read_source(path: Path, what: str) -> str:
    """Text of a Python file.

    Args:
        path: the file.
        what: what it should hold ("reference", "candidate", "kernel"), for the message.

    Raises:
        BadInput: if it is absent, a folder, not UTF-8, or empty where no candidate is meant.
    """
    if path.is_dir():
        raise BadInput(f"{path}: is a folder; name the {what}'s .py file")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise BadInput(f"{path}: no such file; name the {what}'s .py file") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 at byte {error.start}; save the {what} as UTF-8") from error
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from error
    if what != "candidate" and not text.strip():  # an empty candidate is judged like any other
        holds = "the reference: Model, get_inputs, get_init_inputs" if what == "reference" else f"the {what}"
        raise BadInput(f"the file {path} is empty; it should hold {holds}")
    return text


def check_reference(path: Path | None) -> Path:
    """See that a reference is named and can be read, before seconds of imports.

    Raises:
        BadInput: if not.
    """
    if path is None:
        raise BadInput("name the reference's .py file, such as examples/softmax.py (or a run to --resume)")
    read_source(path, "reference")
    return path


def read_task(
    reference: Path,
    precision: Precision,
    *,
    domain: Domain = "finite",
    target: str = "auto",
    triton_only: bool = False,
    knowledge: str | None = None,
) -> KernelTask:
    """A task from a reference's file.

    Args:
        reference: the file.
        precision: precision policy.
        domain: inputs on which a kernel has to be right.
        target: GPU to compile for; auto takes this machine's own.
        triton_only: forbid library calls beside Triton.
        knowledge: folder with further hardware specifications.

    Raises:
        BadInput: if the file cannot be read, or the target is unknown.
    """
    return KernelTask(
        name=reference.stem,
        reference=read_source(reference, "reference"),
        target=choose_target(target, knowledge),
        precision=precision,
        domain=domain,
        triton_only=triton_only,
    )


def read_candidate(path: Path) -> Candidate:
    """A candidate from its file.

    Raises:
        BadInput: if the file cannot be read.
    """
    return Candidate(source=read_source(path, "candidate"), author="user", stage="algorithmic_structure", mode="seed")
