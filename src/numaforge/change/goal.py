"""The target state of a node, for which its parts look and say what is needed."""

from dataclasses import dataclass, field
from functools import cached_property

from numaforge.change.parts import FILES_ON_NODE
from numaforge.lib.file_content import FileContent, PlannedFile
from numaforge.machine.topology.model import NodeTopology
from numaforge.node.part import NodeState
from numaforge.planning.as_planned import machine_as_planned
from numaforge.planning.files import WRITERS
from numaforge.planning.plan import NodePlan
from numaforge.planning.render import files_of, render_file, role_files
from numaforge.roles.role import Role


@dataclass(frozen=True)
class Goal:
    """The target state of a node: its plan, for the roles that were called.

    `machine` is the node as it was detected. A start of the kubelet may take `start_seconds`, and it then has
    to stay healthy for `stable_seconds`. A changed node waits `confirm_seconds` for its confirmation. With
    `retry_failed` a plan is retried even where it was rolled back before. `ends_work` are the kinds of work
    that a change may end (numaforge.node.work).
    """

    plan: NodePlan
    machine: NodeTopology
    roles: frozenset[str]
    start_seconds: int = 120
    stable_seconds: int = 10
    confirm_seconds: int = 300
    retry_failed: bool = False
    ends_work: frozenset[str] = frozenset()
    # What a look and the decision after it both render.
    _rendered: dict[tuple[str, str | None], list[FileContent]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @property
    def kubelet_unit(self) -> str:
        """The unit of the kubelet whose process has to stay the same while the node is proved."""
        return self.plan.kubelet.unit if self.plan.kubelet else "kubelet.service"

    def as_planned(self, machine: NodeTopology) -> NodeTopology:
        """Return a machine, as this node's, with all of the plan carried out."""
        return machine_as_planned(machine, self.plan)

    def text_of(self, file: PlannedFile, plan: NodePlan) -> str:
        """Return the text of a file, by another plan than the goal's."""
        return render_file(plan, file)

    def files_of(self, role: Role, config_text: str | None) -> list[FileContent]:
        """Return the files of a role; `config_text` is the kubelet's main config file as it is now."""
        rendered = self._rendered.get((role.folder, config_text))
        if rendered is None:
            rendered = self._rendered[role.folder, config_text] = files_of(role, self.plan, config_text)
        return [*rendered]

    @cached_property
    def _plan_itself(self) -> list[FileContent]:
        return role_files(self.plan, "topology")

    def files(
        self, config_text: str | None, state: NodeState | None = None
    ) -> tuple[list[FileContent], list[str]]:
        """Return the files of the called roles, for the node of a `state`, and the paths not to exist."""
        files, absent = [*self._plan_itself], list[str]()
        for writer in WRITERS:
            if not writer.role.among(self.roles):
                continue
            planned_here = self.files_of(writer.role, config_text)
            written = [file.path for file in planned_here]
            obsolete = [path for path in writer.paths(self.plan, self.machine) if path not in written]
            on_node = FILES_ON_NODE.get(writer.role)
            if state and on_node:
                planned_here, obsolete = on_node(self, state, planned_here, obsolete)
            files += planned_here
            absent += obsolete
        return files, absent
