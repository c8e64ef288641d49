"""Scoring of word segmentation: as the SIGHAN bakeoff counts, by spans, by boundaries; the words that are missed."""

from __future__ import annotations

from hanlattice.evaluation.segmentation.cuts import Cut, cut, words_in
from hanlattice.evaluation.segmentation.report import SegmentationReport, score_segmentation
from hanlattice.evaluation.segmentation.worst import Instead, Missed

__all__ = ["Cut", "Instead", "Missed", "SegmentationReport", "cut", "score_segmentation", "words_in"]
