"""The files of the project: what git knows, or where git or its folder is missing, what lies in the tree outside build folders."""

import subprocess

NOT_SOURCE = ("build", ".git", "target", "__pycache__", ".venv")


def project_files(root):
    """Sorted names relative to root, of files that exist; with git also new files that are not ignored."""
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True,
                                text=True, check=True)
        names = [n for n in listed.stdout.split("\0") if n]
    except (FileNotFoundError, subprocess.CalledProcessError):
        names = [str(p.relative_to(root)) for p in root.rglob("*")
                 if not any(part.startswith(NOT_SOURCE) for part in p.relative_to(root).parts)]
    return sorted(n for n in names if (root / n).is_file())
