"""One page about a data directory: how much is here, is it sound, what goes when. Facts are gathered once; the page is drawn from them."""

from tidelog.report.facts import ReportFacts
from tidelog.report.gathering import gather
from tidelog.report.page import build_page

__all__ = ["ReportFacts", "build_page", "gather"]
