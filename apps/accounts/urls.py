"""Addresses of logging in and out."""

from django.urls import path

from apps.accounts.views import LogIn, LogOut

urlpatterns = [
    path("login/", LogIn.as_view(), name="login"),
    path("logout/", LogOut.as_view(), name="logout"),
]
