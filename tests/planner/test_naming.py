from apps.planner.naming import family_of, shown_model


def test_a_model_is_shown_without_its_vendor_and_spoken_of_by_its_family():
    assert shown_model("NVIDIA-A100-SXM4-80GB") == "A100-SXM4-80GB"
    assert family_of("NVIDIA-A100-SXM4-80GB") == "A100"
    assert family_of("Ascend910") == "Ascend910"
    assert family_of("") == ""
