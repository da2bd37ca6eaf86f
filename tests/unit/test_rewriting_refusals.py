import pytest

from r2med_ray.rewriting.answers import read_answer
from r2med_ray.rewriting.refusals import refusal_in

PASSAGE = "Moths that circle a lamp keep their backs to the light."


@pytest.mark.parametrize(
    "text",
    [
        "Sorry, I can't assist with that.",
        "I'm sorry, but I can't assist with that.",
        "I’m sorry, I can’t help with that request.",
        "I am sorry. I am unable to provide medical advice.",
        "Sorry.",
        "I cannot answer this.",
        "I cannot provide a diagnosis, as I have not seen the patient.",
        "I apologize, but I'm not able to write that.",
        "Unfortunately, I can't comply.",
        "As an AI language model, I cannot give medical advice.",
        "We're sorry, we can't fulfill this request.",
        "I'm afraid I won't discuss that.",
        "I must decline to answer.",
        "I'm sorry, but I don't have enough information to answer.",
        "I'm sorry, but I can't help with that. Please consult a doctor.",
        "I can't provide that. If you have other questions, feel free to ask!",
        "Sorry, I can't assist with that. Is there anything else I can help you with?",
        "Thank you for asking. I'm sorry, but I can't help. I'm just a language model.",
        "I'm sorry, this request violates our policy.",
        "**I'm sorry, but I can't assist with that.**",
        "I'm really sorry that you're feeling this way, but I'm unable to provide the help that you need.",
        "I'm sorry to hear that you have a rash. I can't give medical advice.",
        "I'm sorry to hear that. Please consult a doctor.",
        "I won't be able to help with that.",
        "I must decline.",
        "I refuse.",
        "I must respectfully decline to answer.",
        "I'm sorry, I can't.",
        "I'm just an AI, I can't give medical advice.",
        "I am an AI language model, so I cannot examine patients.",
        "As an AI language model, I cannot diagnose.",
        "I'm sorry, I don't know.",
        "I don't know the answer.",
        "Can't help with that.",
        "Unable to assist with this request.",
        "My guidelines don't allow me to answer that.",
        "Our safety policy prohibits this.",
        "I'm sorry, but we cannot provide medical advice.",
        "We can't help you with this.",
    ],
)
def test_a_refusal_is_no_text(text: str) -> None:
    answer = read_answer(text, "gpt4")

    assert refusal_in(text) == "whole"
    assert (answer.text, answer.flag) == ("", "refusal")


@pytest.mark.parametrize(
    "text",
    [
        f"I'm sorry, but I cannot provide a diagnosis. {PASSAGE}",
        f"I am sorry, but I cannot provide a diagnosis.\n{PASSAGE}",
        f"Sorry for the delay. {PASSAGE}",
        f"My apologies! {PASSAGE}",
        "I can't provide a diagnosis, but the symptoms suggest measles.",
        f"I cannot answer: {PASSAGE}",
        f"As an AI, I can't give medical advice. {PASSAGE} Please consult a doctor.",
        f"I can't help but notice this. {PASSAGE}",
        f"As an AI language model, I cannot diagnose. However, {PASSAGE}",
        f"I'm just an AI, I can't give medical advice. {PASSAGE}",
        f"Thank you for asking. I can't give medical advice. {PASSAGE}",
        f"I'm sorry to hear that you have a rash. {PASSAGE}",
        f"{PASSAGE} I cannot provide a diagnosis.",
    ],
)
def test_a_passage_after_an_apology_is_kept_and_flagged(text: str) -> None:
    answer = read_answer(text, "gpt4")

    assert (answer.text, answer.flag) == (text, "refusal before a text")


@pytest.mark.parametrize(
    "text",
    [
        PASSAGE,
        "Unfortunately, the prognosis of ALS is poor.",
        "Patients say: I can't give up smoking.",
        "I cannot rule out measles.",
        "We are unable to provide support for the spine without a brace in these patients",
        "We cannot offer surgery to these patients.",
        "Unfortunately, we can't give methotrexate in pregnancy.",
        "We cannot help the pain of these patients with opioids.",
        "Patients say, I can't give up smoking.",
        "I refuse surgery.",
        "I don't know a better drug for gout.",
        "Unable to walk, the patient was admitted.",
        "Our guidelines allow methotrexate.",
        "Please consult a doctor if a rash lasts.",
        "If you have a fever, measles is likely.",
        "",
    ],
)
def test_a_passage_that_sounds_like_a_refusal_is_a_text_like_any_other(text: str) -> None:
    assert refusal_in(text) == "none"


def test_a_long_clause_says_more_than_a_refusal() -> None:
    # a refusing clause of 20 words and 40 words of a passage, with no mark between them
    text = (
        "I cannot provide a diagnosis " + "because moths circle a lamp with their backs to the light and so on " * 4
    )

    assert refusal_in(text) == "none"
