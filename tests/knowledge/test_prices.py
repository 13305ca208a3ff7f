"""Prices of models: data that is checked, and never guessed."""

import pytest

from egg_graph.knowledge import find_price, load_prices
from egg_graph.schema import BadInput, Usage


def test_every_shipped_price_names_its_host_and_where_it_was_read():
    prices = load_prices()
    assert prices and all(price.host and "20" in price.source and price.output >= price.input for price in prices)
    assert len({(price.model, price.host) for price in prices}) == len(prices)


def test_a_price_of_ones_own_goes_before_a_shipped_one_at_every_host(tmp_path):
    (tmp_path / "prices.toml").write_text('[[price]]\nmodel = "gpt-5"\ninput = 1\noutput = 2\nsource = "a bill"\n')
    price = find_price("gpt-5", "localhost", tmp_path)
    assert price.of(Usage(input_tokens=1_000_000, cached_tokens=500_000, output_tokens=1_000_000)) == 3.0
    assert find_price("gpt-5", "localhost") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('model = "m"', r"no \[\[price\]\] table"),
        ('[[price]]\nmodel = "m"\ninput = 1\noutput = 2\n', "source: Field required; add it"),
        ('[[price]]\nmodel = "m"\ninput = -1\noutput = 2\nsource = "x"\n', "input: .*greater than or equal to 0"),
    ],
)
def test_a_wrong_price_is_one_line(tmp_path, text, said):
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(BadInput, match=said) as error:
        load_prices(tmp_path)
    assert "prices.toml" in str(error.value) and "\n" not in str(error.value)
