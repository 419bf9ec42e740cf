"""`python -m sixth_kind ARGUMENTS`: the command `quintet` after the one registration that a new kind needs."""

from pathlib import Path

from quintet import kinds

FOLDER = Path(__file__).parent

kinds.register(
    kinds.Kind(
        api_version="samples.quintet.dev/v1",
        name="Greeting",
        summary="a greeting in a ConfigMap.",
        component="greeting",
        declaration="sixth_kind.types:GREETING",
        rbac="sixth_kind.rbac",
        start="sixth_kind.controller:start",
        admission="sixth_kind.admission:ADMISSION",
        preview="sixth_kind.controller:preview",
        probe={"person": "doctor"},
        docs_page="tests/sixth_kind/__init__.py",
        sample=str(FOLDER / "greeting.yaml"),
        full_sample=str(FOLDER / "greeting-every-field.yaml"),
    )
)

if __name__ == "__main__":
    from quintet.cli.main import main

    main()
