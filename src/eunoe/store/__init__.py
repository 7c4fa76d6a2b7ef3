"""Where it is kept: tables, migrations, one module per aggregate, transactions."""
