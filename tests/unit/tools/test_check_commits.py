"""`tools/check-commits` and the hook that uses it, on repositories made for the test."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BODY = "\n\nBecause it was wrong."


class Repository:
    """A git repository with a copy of the check, and a first commit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(ROOT / "tools/hooks", root / "tools/hooks")
        shutil.copy2(ROOT / "tools/check-commits", root / "tools/check-commits")
        # Neither the configuration of the person who runs the test nor a surrounding git command may matter.
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        self.environment |= {
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "HOME": str(root),
        }
        for who in ("AUTHOR", "COMMITTER"):
            self.environment |= {f"GIT_{who}_NAME": "Test", f"GIT_{who}_EMAIL": "test@example.com"}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.root, env=self.environment, capture_output=True, text=True, check=False
        )

    def commit(self, message: str, file: str = "docs/page.md") -> subprocess.CompletedProcess[str]:
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.read_text() + "x" if path.exists() else "x")
        self.run("git", "add", file)
        return self.run("git", "commit", "-q", "-m", message)

    def check(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("tools/check-commits", *arguments)


@pytest.fixture
def repository(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    made = Repository(tmp_path)
    made.run("git", "init", "-q")
    made.commit("Everything before the rule may have any subject. " * 3)
    made.run("git", "tag", "base")
    return made


@pytest.mark.parametrize(
    ("message", "file"),
    [
        pytest.param("docs: explain the queue", "docs/page.md", id="docs-without-body"),
        pytest.param("runtime: keep a key once" + BODY, "src/queue.py", id="src-with-body"),
        pytest.param("kube, nats: share the connection pool" + BODY, "src/pool.py", id="two-areas"),
        pytest.param("runtime/queue: feed the workers in order" + BODY, "src/queue.py", id="path-as-area"),
        pytest.param("docs: " + "x" * 66, "docs/page.md", id="72-characters"),
    ],
)
def test_check_commits_accepts_conforming_message(message, file, repository):
    repository.commit(message, file)
    done = repository.check("--since", "base")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("message", "file", "problem"),
    [
        pytest.param("Explain the queue", "docs/page.md", "not `area: imperative summary`", id="no-area"),
        pytest.param(
            "docs: Explain the queue", "docs/page.md", "not `area: imperative summary`", id="capital"
        ),
        pytest.param(
            "docs: explain the queue.", "docs/page.md", "not `area: imperative summary`", id="full-stop"
        ),
        pytest.param("docs: explained the queue", "docs/page.md", 'imperative: "explained"', id="past-tense"),
        pytest.param("docs: explaining the queue", "docs/page.md", 'imperative: "explaining"', id="gerund"),
        pytest.param("docs: explains the queue", "docs/page.md", 'imperative: "explains"', id="third-person"),
        pytest.param(
            "docs: " + "x" * 67, "docs/page.md", "has 73 characters; 72 are allowed", id="73-characters"
        ),
        pytest.param(
            "runtime: keep a key once", "src/queue.py", "needs a body that says why", id="src-without-body"
        ),
    ],
)
def test_check_commits_names_problem_of_nonconforming_commit(message, file, problem, repository):
    repository.commit(message, file)
    done = repository.check("--since", "base")
    assert done.returncode == 1
    assert problem in done.stderr
    assert message.splitlines()[0] in done.stderr


def test_check_commits_ignores_merge_commits_and_commits_before_base(repository):
    repository.run("git", "checkout", "-q", "-b", "side")
    repository.commit("docs: explain the queue", "docs/side.md")
    repository.run("git", "checkout", "-q", "-")
    repository.commit("docs: explain the cache")
    repository.run("git", "merge", "-q", "--no-ff", "-m", "Merge the branch 'side'", "side")
    assert repository.check("--since", "base").returncode == 0


def test_check_commits_passes_when_clone_lacks_base_commit(repository):
    done = repository.check("--since", "0" * 40)
    assert done.returncode == 0
    assert "this clone does not have commit" in done.stdout


@pytest.mark.parametrize("parent", [False, True], ids=["no-repository", "inside-another-repository"])
def test_check_commits_passes_in_tree_without_git(parent, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    copy = Repository(tree)
    if parent:
        subprocess.run(["git", "init", "-q", str(tmp_path)], env=copy.environment, check=False)
    done = copy.check()
    assert done.returncode == 0
    assert "this is not a git checkout" in done.stdout


def test_commit_msg_hook_refuses_nonconforming_message(repository):
    repository.run("git", "config", "core.hooksPath", "tools/hooks")
    refused = repository.commit("Explained the queue")
    assert refused.returncode != 0
    assert "commit message: the subject is not `area: imperative summary`" in refused.stderr
    assert repository.commit("runtime: keep a key once", "src/queue.py").returncode != 0
    assert repository.commit("runtime: keep a key once" + BODY, "src/queue.py").returncode == 0
    assert repository.commit("fixup! runtime: keep a key once", "src/queue.py").returncode == 0


def test_commit_msg_hook_ignores_comments_of_editor(repository, tmp_path):
    message = tmp_path / "message"
    message.write_text("docs: explain the queue\n# Please enter the commit message for your changes.\n")
    assert repository.check("--message", str(message)).returncode == 0
