from tupe.cli.main import parser_of


def test_what_is_repeated_counts_once():
    grid = ["--tasks", "CoLA,RTE,CoLA", "--lrs", "1e-5,2e-5,0.00001", "--seeds", "2,2"]
    args = parser_of("sweep").parse_args(["glue", *grid, "checkpoint", "data", "out"])
    assert (args.tasks, args.lrs, args.seeds) == (["CoLA", "RTE"], [1e-5, 2e-5], [2])
