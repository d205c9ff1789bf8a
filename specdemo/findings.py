"""What was found out about a pair before anything was loaded: one plain sentence for each thing looked at."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Grade = Literal["ok", "warning", "refusal"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`check` names what was looked at, for programs; `sentence` says it to a person."""

    grade: Grade
    check: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Report:
    """All findings on one pair. `family` is what the drafter was found to be, "" where it could not be told."""

    target: str
    drafter: str
    family: str
    findings: tuple[Finding, ...]

    @property
    def is_refused(self) -> bool:
        """Whether loading the pair would fail."""
        return any(finding.grade == "refusal" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "is_refused": self.is_refused}
