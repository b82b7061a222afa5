"""Logging in and out. What people see is `templates/registration/login.html`."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import views
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

LOCKED = "Too many attempts with this name from here. Wait a quarter of an hour, then try again."


class LogInForm(AuthenticationForm):
    """A name longer than any person's is refused before attempts are counted: no column could hold it."""

    def clean(self) -> dict[str, Any]:
        if len(self.cleaned_data.get("username", "")) > (self.username_field.max_length or 0):
            raise self.get_invalid_login_error()
        return super().clean()


class LogIn(views.LoginView):
    """Attempts are counted and cut off by axes, in the database, so a restart forgives nothing.

    Open to people who are logged in already: approving asks them to log in again.
    """

    form_class = LogInForm


class LogOut(views.LogoutView):
    """POST only, so that no picture on another page can log anybody out."""


class LockedForm(AuthenticationForm):
    """The form of somebody who tried too often: no password is looked at."""

    def clean(self) -> dict[str, Any]:
        raise ValidationError(LOCKED)


def locked_out(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
    """What axes answers once the limit is reached, whether the password was right or not."""
    form = LockedForm(request, data=request.POST)
    return render(request, "registration/login.html", {"form": form}, status=429)
