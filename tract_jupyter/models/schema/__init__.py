"""Named, typed values: one description, and its forms.

`parameters` describes an operation's fields, an action's parameters, a tool's arguments. `types` has the
types that can be written as text. `json_schema` reads a schema that somebody else wrote, and
`schema_parameters` takes one for a tool's arguments. `providers` gives the forms that providers take, `stubs`
the text of a `.pyi` file.
"""
