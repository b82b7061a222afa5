#!/usr/bin/env python
"""Django's command line."""

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings.production")
    from django.core.management import execute_from_command_line

    from console.offline import stand_in_for_database

    stand_in_for_database(sys.argv[1:])
    execute_from_command_line(sys.argv)
