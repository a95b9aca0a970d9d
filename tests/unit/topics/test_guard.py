"""The guard's rules, one by one (section 3.9 of the notifications' contract). Expected values are the contract's."""

from __future__ import annotations

import msgspec
import pytest

from anew.errors import BlockedAddress, InvalidConfig, InvalidInput
from anew.topics.delivery_policy import layer_of
from anew.topics.guard import (
    BLOCKED_TEXT,
    GuardSettings,
    Target,
    can_be_sent,
    judge_addresses,
    judge_url,
    plain_address,
)

STRICT = GuardSettings()
HTTP = GuardSettings(allow_http=True)
EXAMPLE = Target(url="https://example.com/", scheme="https", host="example.com", port=443)

# First and last address of each range of 3.9 item 4, and what stands just outside where it is public.
BLOCKED_RANGES = [
    ("0.0.0.0", "0.255.255.255"),
    ("10.0.0.0", "10.255.255.255"),
    ("100.64.0.0", "100.127.255.255"),
    ("127.0.0.0", "127.255.255.255"),
    ("168.63.129.16", "168.63.129.16"),
    ("169.254.0.0", "169.254.255.255"),
    ("172.16.0.0", "172.31.255.255"),
    ("192.0.0.0", "192.0.0.255"),
    ("192.0.2.0", "192.0.2.255"),
    ("192.88.99.0", "192.88.99.255"),
    ("192.168.0.0", "192.168.255.255"),
    ("198.18.0.0", "198.19.255.255"),
    ("198.51.100.0", "198.51.100.255"),
    ("203.0.113.0", "203.0.113.255"),
    ("224.0.0.0", "239.255.255.255"),
    ("240.0.0.0", "255.255.255.255"),
    ("::", "::ffff:ffff"),
    ("64:ff9b::", "64:ff9b::ffff:ffff"),
    ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
    ("100::", "100::ffff:ffff:ffff:ffff"),
    ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("::ffff:127.0.0.1", "::ffff:10.0.0.1"),
    ("::ffff:7f00:1", "::ffff:a9fe:a9fe"),
]
BLOCKED = [address for both in BLOCKED_RANGES for address in both]

PUBLIC = [
    "1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
    "168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0",
    "192.0.3.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
    "198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255", "8.8.8.8",
    "64:ff9b:2::", "100:0:0:1::", "2001:200::", "2001:db7::", "2001:db9::", "2003::", "2600::1", "3ffe::", "5eff::", "5f01::",
    "2a00:1450:4001::1",
]  # fmt: skip


def in_url(address: str) -> str:
    return f"https://[{address}]/" if ":" in address else f"https://{address}/"


@pytest.mark.parametrize("address", BLOCKED)
def test_notifications_43_each_blocked_range_is_refused_in_literal_form_and_as_the_answer_of_a_name(
    address: str,
) -> None:
    with pytest.raises(BlockedAddress, match=f"^{BLOCKED_TEXT}$"):
        judge_url(in_url(address), STRICT)
    with pytest.raises(BlockedAddress, match=f"^{BLOCKED_TEXT}$"):
        judge_addresses(EXAMPLE, [address], STRICT)


@pytest.mark.parametrize("address", PUBLIC)
def test_the_addresses_beside_the_ranges_are_allowed(address: str) -> None:
    assert judge_url(in_url(address), STRICT).address == address
    assert judge_addresses(EXAMPLE, [address], STRICT) == (address,)


@pytest.mark.parametrize(
    "answers",
    [["8.8.8.8", "127.0.0.1"], ["10.0.0.1", "8.8.8.8"], ["8.8.8.8", "fe80::1%eth0"], ["no address"]],
)
def test_notifications_44_one_blocked_answer_blocks_them_all(answers: list[str]) -> None:
    with pytest.raises(BlockedAddress, match=f"^{BLOCKED_TEXT}$"):
        judge_addresses(EXAMPLE, answers, STRICT)


def test_a_mapped_answer_is_judged_and_connected_to_as_ipv4() -> None:
    assert judge_addresses(EXAMPLE, ["::ffff:8.8.8.8", "2600:0:0::1"], STRICT) == ("8.8.8.8", "2600::1")
    assert judge_url("https://[::ffff:8.8.8.8]/", STRICT).address == "8.8.8.8"


@pytest.mark.parametrize(
    "url",
    [
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0x7f000001/",
        "http://0X7F.0.0.1/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://127.0.1/",
        "http://127.0.0.01/",
        "http://0/",
        "http://8.8.8.8.8/",
        "http://1.2.3.256/",
        "http://example.0x/",
        "http://example.1/",
        "http://[::ffff:127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[::1%25lo]/",
        "http://[2600::1%eth0]/",
        "http://[2600::1%25eth0]/",
        "http://[8.8.8.8]/",
        "http://[2600::1/",
        "http://[]/",
        "http://2600::1/",
        "http://user@example.com/",
        "http://user:word@example.com/",
        "http://@example.com/",
        "http://example.com@127.0.0.1/",
        "http://127.0.0.1./",
        "http://１２７.0.0.1/",
        "http://127。0。0。1/",
        "http://①27.0.0.1/",
    ],
)
def test_notifications_45_addresses_in_disguise_and_userinfo_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        judge_url(url, HTTP)
    with pytest.raises(InvalidInput):
        judge_url(url.replace("http:", "https:"), STRICT)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "https:/example.com/",
        "https:///path",
        "https://",
        "https://:443/",
        "https://example.com/#part",
        "https://example.com/#",
        "https://example.com:/",
        "https://example.com:0/",
        "https://example.com:22/",
        "https://example.com:1023/",
        "https://example.com:65536/",
        "https://example.com:99999999/",
        "https://example.com:٤٤٣/",
        "https://example.com:+443/",
        "https://exa mple.com/",
        "https://example.com\\@127.0.0.1/",
        "https://example.com/a b",
        "https://example.com/\r\nx: y",
        "https://example.com/\x00",
        "https://example.com/ä",
        "https://example.com/a\\b",
        " https://example.com/",
        "https://example.com/\n",
        "https://example..com/",
        "https://.example.com/",
        "https://example.com../",
        "https://-example.com/",
        "https://example-.com/",
        "https://exam%70le.com/",
        "https://%31%32%37.0.0.1/",
        "https://" + "a" * 64 + ".com/",
        "https://" + "a." * 127 + "com/",
        "https://\ud800.com/",
        "https://example.com/" + "a" * 2_029,
    ],
)
def test_what_is_no_plain_url_is_refused_with_its_place(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        judge_url(url, HTTP, "/endpoint/url")
    assert caught.value.field == "/endpoint/url"
    assert not isinstance(caught.value, BlockedAddress)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "printer.local",
        "local",
        "metadata.google.internal",
        "Metadata.Google.Internal.",
    ],
)
def test_names_for_the_inside_are_refused(host: str) -> None:
    with pytest.raises(BlockedAddress, match=f"^{BLOCKED_TEXT}$"):
        judge_url(f"https://{host}/", STRICT)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://example.com", Target(url="https://example.com/", scheme="https", host="example.com", port=443)),
        (
            "HTTPS://EXAMPLE.com.:8443/A/%2e%2E/b?x=%20&y=a+b",
            Target(url="https://example.com:8443/A/%2e%2E/b?x=%20&y=a+b", scheme="https", host="example.com", port=8443),
        ),
        ("https://example.com?q", Target(url="https://example.com/?q", scheme="https", host="example.com", port=443)),
        ("https://a_b.example.com:80/", Target(url="https://a_b.example.com:80/", scheme="https", host="a_b.example.com", port=80)),
        ("https://notlocalhost/", Target(url="https://notlocalhost/", scheme="https", host="notlocalhost", port=443)),
        (
            "https://Bücher.example/",
            Target(url="https://xn--bcher-kva.example/", scheme="https", host="xn--bcher-kva.example", port=443),
        ),
        (
            "https://faß.example/",
            Target(url="https://xn--fa-hia.example/", scheme="https", host="xn--fa-hia.example", port=443),
        ),
        (
            "https://[2600:0::1]:1024/",
            Target(url="https://[2600::1]:1024/", scheme="https", host="2600::1", port=1024, address="2600::1"),
        ),
    ],
)  # fmt: skip
def test_a_url_is_brought_into_one_form(url: str, target: Target) -> None:
    assert judge_url(url, STRICT) == target


def test_http_is_for_who_allows_it() -> None:
    with pytest.raises(InvalidInput, match=r"expected https$"):
        judge_url("http://example.com/", STRICT)
    assert judge_url("http://example.com/", HTTP).port == 80


def test_allowed_networks_are_no_longer_blocked_and_others_are() -> None:
    settings = GuardSettings(allow_cidrs=("10.1.0.0/16", "::1/128"))
    assert judge_url("https://10.1.2.3/", settings).address == "10.1.2.3"
    assert judge_url("https://[::ffff:10.1.2.3]/", settings).address == "10.1.2.3"
    assert judge_url("https://[::1]/", settings).address == "::1"
    assert judge_addresses(EXAMPLE, ["10.1.255.255", "8.8.8.8"], settings) == ("10.1.255.255", "8.8.8.8")
    for blocked in ("10.2.0.0", "127.0.0.1", "::2"):
        with pytest.raises(BlockedAddress):
            judge_addresses(EXAMPLE, [blocked], settings)
    with pytest.raises(BlockedAddress):
        judge_url("https://localhost/", settings)


def test_allowed_hosts_may_resolve_to_anything() -> None:
    settings = GuardSettings(allow_hosts=("localhost", "*.corp.internal", "127.0.0.1"))
    for host in ("localhost", "hooks.corp.internal", "a.b.corp.internal"):
        target = judge_url(f"https://{host}/", settings)
        assert judge_addresses(target, ["10.0.0.1"], settings) == ("10.0.0.1",)
    assert judge_url("https://127.0.0.1/", settings).address == "127.0.0.1"
    for host in ("corp.internal", "xcorp.internal", "a.localhost", "127.0.0.2"):
        with pytest.raises(BlockedAddress):
            judge_url(f"https://{host}/", settings)
    with pytest.raises(BlockedAddress):
        judge_addresses(EXAMPLE, ["127.0.0.1"], settings)


def test_allowed_hosts_may_be_written_in_any_way() -> None:
    settings = GuardSettings(allow_hosts=("Hooks.Corp.Internal.", "*.Bücher.internal", "[::1]"))
    for host in ("hooks.corp.internal", "HOOKS.corp.internal", "a.xn--bcher-kva.internal", "[::1]"):
        assert judge_url(f"https://{host}/", settings).port == 443


def test_a_network_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"10\.0\.0\.1/8"):
        GuardSettings(allow_cidrs=("10.0.0.1/8",))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("host", "x"),
        ("Host", "x"),
        ("Content-Length", "1"),
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
        ("TE", "trailers"),
        ("upgrade", "h2c"),
        ("proxy-authorization", "x"),
        ("Proxy-Anything", "x"),
        ("webhook-id", "x"),
        ("Webhook-Signature", "x"),
        ("anew-topic", "x"),
        ("Metadata-Flavor", "Google"),
        ("x-aws-ec2-metadata-token", "x"),
        ("X-aws-ec2-metadata-token-ttl-seconds", "1"),
        ("Metadata", "true"),
        ("", "x"),
        ("a b", "x"),
        ("a:b", "x"),
        ("a\r\nb", "x"),
        ("ä", "x"),
        ("x-a", "a\r\nhost: b"),
        ("x-a", "a\nb"),
        ("x-a", "a\rb"),
        ("x-a", "a\x00b"),
        ("x-a", "\x7f"),
        ("x-a", "\ud800"),
    ],
)
def test_notifications_47_reserved_headers_and_broken_lines_are_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        layer_of({"request": {"headers": {"x-good": "1", name: value}}})
    assert caught.value.field == f"/request/headers/{name}"


def test_the_place_of_a_header_is_a_json_pointer() -> None:
    with pytest.raises(InvalidInput) as caught:
        layer_of({"request": {"headers": {"a/b~c": "1"}}})
    assert caught.value.field == "/request/headers/a~1b~0c"


def test_other_headers_may_be_sent() -> None:
    headers = {"Authorization": "Bearer a.b", "hostname": "1", "team": "", "x-tenant": "a b"}
    kept = msgspec.to_builtins(layer_of({"request": {"headers": headers}}))
    assert kept["request"]["headers"] == headers


def test_our_own_headers_can_be_sent_and_none_that_change_the_framing() -> None:
    assert can_be_sent({"webhook-id": "msg_1", "anew-attempt": "1", "content-type": "application/json"})
    assert can_be_sent({})
    assert not can_be_sent({"webhook-id": "a\nb"})
    assert not can_be_sent({"Content-Length": "1"})
    assert not can_be_sent({"": "1"})


@pytest.mark.parametrize(
    ("text", "plain"),
    [("::ffff:1.2.3.4", "1.2.3.4"), ("2001:0DB8::0", "2001:db8::"), ("1.2.3.4", "1.2.3.4"), ("x", ""), ("::1%lo", "")],
)  # fmt: skip
def test_an_address_has_one_usual_form(text: str, plain: str) -> None:
    assert plain_address(text) == plain
