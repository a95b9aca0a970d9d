"""SVG in fewer bytes: the same words, and dots and steps where they were."""

from __future__ import annotations

from anew.lab.charts.figures import compact

HERD = """<svg>
 <g id="PathCollection_1">
  <defs>
   <path id="dot1" d="M 0 1.5 
C 0.4 1.5 0.8 1.3 1 1 
z
"/>
  </defs>
  <g>
   <use xlink:href="#dot1" x="10.123456" y="20.5" style="fill: #112233"/>
   <use xlink:href="#dot1" x="11" y="21.987654" style="fill: #112233"/>
  </g>
 </g>
 <g id="PathCollection_2">
  <g>
   <use xlink:href="#dot1" x="12" y="22" style="fill: #445566"/>
  </g>
 </g>
 <g id="tick">
  <defs>
   <path id="tick1" d="M 0 0 
L 0 3 
" style="stroke: #5d6675"/>
  </defs>
  <use xlink:href="#tick1" x="57.6" y="185.04" style="fill: #5d6675; stroke: #5d6675; stroke-width: 0.7"/>
 </g>
 <text x="1.23456" y="2">job 1</text>
</svg>"""  # noqa: W291


def test_dots_become_one_path_for_each_retry() -> None:
    small = compact(HERD)
    assert 'd="M10.12 20.5h0M11 21.99h0" style="fill: none; stroke: #112233; stroke-width: 3' in small
    assert 'd="M12 22h0" style="fill: none; stroke: #445566; stroke-width: 3; stroke-linecap: round' in small
    assert "dot1" not in small


def test_what_is_no_dot_stays() -> None:
    small = compact(HERD)
    assert '<use xlink:href="#tick1" x="57.6" y="185.04"' in small
    assert '<path id="tick1" d="M 0 0 \nL 0 3 \n"' in small
    assert '<text x="1.23456" y="2">job 1</text>' in small


def test_steps_go_across_and_up_and_never_nowhere() -> None:
    line = "M 1 9 \nL 1 5 \nL 2 5 \nL 2 5 \nL 3.14159 5 \nL 3.14159 7 \nL 5 8 \nL 5 9 \nz\n"
    assert compact(f'<path d="{line}" style="fill: #112233"/>') == (
        '<path d="M1 9V5H3.14V7L5 8V9z" style="fill: #112233"/>'
    )


def test_so_do_the_steps_of_a_path_in_several_parts() -> None:
    parts = "M 1 9 \nL 1 5 \nL 2 5 \nL 2 9 \nM 4 9 \nL 4 7.125 \nL 6 7.125 \nL 6 9 \n"
    assert compact(f'<path d="{parts}"/>') == '<path d="M1 9V5H2V9M4 9V7.12H6V9"/>'
