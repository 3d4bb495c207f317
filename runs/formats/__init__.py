"""How a template writes numbers. A number that stands in one as it is, is for programs: a coordinate, a value of a form."""
