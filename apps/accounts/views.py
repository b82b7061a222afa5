"""Logging in and out. What people see is `templates/registration/login.html`."""

from __future__ import annotations

from django.contrib.auth import views


class LogIn(views.LoginView):
    """Attempts are counted and cut off by axes, in the database, so a restart forgives nothing."""

    redirect_authenticated_user = True


class LogOut(views.LogoutView):
    """POST only, so that no picture on another page can log anybody out."""
