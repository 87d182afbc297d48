# ruff: noqa: E501
"""Bugs that were planted, one at a time, and the test that must find each.

    python tests/planted_bugs.py            plants each in a copy of the checkout, and runs its test
    python tests/planted_bugs.py NAME ...   these alone

A bug is found if the test fails where it is planted, and passes where it is not. The last line says
how many were found, and the exit status is 1 unless all were. `.ci/long` runs this. The gate checks
with `test_planted_bugs` that each old text stands in its file once, and that each test exists:
change an entry in the same commit as the code that it changes.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("skdpsumm", "tests", "docs", "examples", "conftest.py", "pyproject.toml", "README.md")


class Bug(NamedTuple):
    """One patch of one file of `skdpsumm`, and the test that must fail with it."""

    name: str
    file: str
    old: str
    new: str
    test: str


# By the test that finds them: name, file, old text, and new text.
# fmt: off
PLANTED = {
    "tests/test_step_budget.py::test_no_path_costs_more_when_rows_are_replaced": [
        ("replaced_forgets_choices", "skdpsumm/privacy/_noise.py", "math.sqrt(2 * (1 + self.most_chosen))", "math.sqrt(2)"),
    ],
    "tests/test_step_budget.py::test_no_path_costs_more_than_the_claim": [
        ("filter_tolerant", "skdpsumm/privacy/_noise.py",
            "if math.fsum([*self._spent, share]) > 1 + _SHARE_TOLERANCE:", "if math.fsum([*self._spent, share]) > 1 + 1e-3:"),
        ("filter_off_by_a_step", "skdpsumm/privacy/_noise.py",
            "if math.fsum([*self._spent, share]) > 1 + _SHARE_TOLERANCE:", "if math.fsum(self._spent) > 1 + _SHARE_TOLERANCE:"),
        ("slack_of_own_values", "skdpsumm/privacy/_noise.py",
            "self._slack.needed(self.most_values, scale)", "self._slack.needed(1, scale)"),
        ("choices_free", "skdpsumm/privacy/_noise.py",
            "self._spent.append(float(share))", "self._spent.append(0.0 if chooses else float(share))"),
        ("steps_forgotten", "skdpsumm/privacy/_noise.py",
            "self._spent.append(float(share))", "self._spent = [*self._spent[-1:], float(share)]"),
        ("range_by_zcdp", "skdpsumm/privacy/_noise.py", "range_of_mu(math.sqrt(share) * self._mu)", "2 * math.sqrt(share) * self._mu"),
        ("counts_on_a_coarse_grid", "skdpsumm/privacy/_noise.py",
            'ScaledNoise("gaussian", scale * 2.0**lift, lift)', 'ScaledNoise("gaussian", scale, 0)'),
    ],
    "tests/test_vectorizer.py::test_vectors_with_interactions_are_no_longer_than_one_and_come_back": [
        ("products_for_nothing", "skdpsumm/schema/_vectorizer.py", "self._kept[self._entries[j]] = (1 - part) ** 0.5", "pass"),
    ],
    "tests/test_gradient.py::test_where_numbers_lie_moves_by_what_is_priced": [
        ("gradient_clip_of_the_exact_count", "skdpsumm/learners/mechanisms/_gradient.py",
            "self._descent(count), self._part_of_clip(count)", "self._descent(count), self._part_of_clip(_count(problem))"),
    ],
    "tests/test_kit.py::test_neighbours_cost_what_is_claimed[gradient-three rows]": [
        ("gradient_count_of_one", "skdpsumm/learners/mechanisms/_gradient.py",
            "rows = self.terms.rows_of_unit / _COUNT_GRID", "rows = 1 / _COUNT_GRID"),
        ("gradient_groups_unclipped", "skdpsumm/learners/mechanisms/_gradient.py",
            "clipped = np.trunc(clipped_rows(sums, self._plan._bound / self._plan._grid))", "clipped = np.trunc(sums)"),
    ],
    "tests/test_kit.py::test_random_groups_cost_no_more[gradient-replaced average]": [
        ("gradient_count_rows_of_average", "skdpsumm/learners/mechanisms/_gradient.py",
            "    return len(np.unique(problem.units))", "    return len(problem.X)"),
    ],
    "tests/test_gradient.py::test_a_sum_is_that_of_rows_or_groups_alone": [
        ("gradient_group_rint", "skdpsumm/learners/mechanisms/_gradient.py",
            "clipped = np.trunc(clipped_rows(sums, self._plan._bound / self._plan._grid))",
            "clipped = np.rint(clipped_rows(sums, self._plan._bound / self._plan._grid))"),
        ("gradient_rint_slopes", "skdpsumm/learners/mechanisms/_gradient.py",
            "return np.trunc(slopes / self._plan._slope_grid)", "return np.rint(slopes / self._plan._slope_grid)"),
        ("gradient_slopes_unclipped", "skdpsumm/learners/mechanisms/_gradient.py",
            "        slopes = clipped_rows(slopes, self._plan.clip)\n", ""),
        ("gradient_gain_after_the_clip", "skdpsumm/learners/mechanisms/_gradient.py",
            "        slopes = clipped_rows(slopes, self._plan.clip)\n",
            "        slopes = clipped_rows(slopes / self.gain, self._plan.clip) * self.gain\n"),
        ("gradient_clip_of_a_batch", "skdpsumm/learners/mechanisms/_gradient.py",
            "        slopes = clipped_rows(slopes, self._plan.clip)\n",
            "        slopes = slopes * min(1.0, self._plan.clip / max(np.linalg.norm(slopes.mean(axis=0)), 1e-99))\n"),
    ],
    "tests/test_kit.py::test_sparse_rows_cost_the_same[gradient-three rows]": [
        ("gradient_sparse_unclipped", "skdpsumm/learners/mechanisms/_gradient.py",
            "clipped = clipped_rows(SparseRows(sums), self._plan._bound / self._plan._grid)", "clipped = SparseRows(sums)"),
    ],
    "tests/test_groups_of_fits.py::test_shares_sum_to_no_more_than_1": [
        ("shares_rounded_up", "skdpsumm/learners/erm/_problem.py",
            "return np.where(exact, parts, np.nextafter(parts, 0.0))[:, None]", "return parts[:, None]"),
    ],
    "tests/test_groups.py::TestCoins::test_each_group_keeps_at_most_k_whatever_the_others": [
        ("coins_by_place", "skdpsumm/schema/_groups.py",
            "_by_coins(label_bytes(self.labels[group]), len(rows), key)",
            "_by_coins(str(int(rows[0])).encode(), len(rows), key)"),
    ],
    "tests/test_features.py::test_the_claimed_rounding_is_reached_and_not_passed": [
        ("mean_rounding", "skdpsumm/features/_feature_maps.py",
            "rounding = _FOURIER_MEAN_ROUNDING if averaged else _FOURIER_ROUNDING", "rounding = _FOURIER_ROUNDING"),
    ],
    "tests/test_kit.py::test_runs_of_a_search_cost_what_is_claimed": [
        ("search_score_replaced", "skdpsumm/model_selection/_candidate.py",
            'rows = self.rows_of_unit * (2 if self.adjacency == "replace_one" else 1)', "rows = self.rows_of_unit"),
        ("score_of_one_row", "skdpsumm/model_selection/_candidate.py",
            'rows = self.rows_of_unit * (2 if self.adjacency == "replace_one" else 1)',
            'rows = 2 if self.adjacency == "replace_one" else 1'),
    ],
    "tests/test_best_of.py::test_runs_that_are_not_ideal_move_a_search_by_the_slack": [
        ("search_slack", "skdpsumm/privacy/_best_of.py", "min(1.0, 2 * self.largest * tail)", "min(1.0, tail)"),
        ("search_moved", "skdpsumm/privacy/_best_of.py", "moved = (1 + self.eta) * (log_ratio + 2 * tail / self._odds)", "moved = 0.0"),
    ],
    "tests/test_private_summary.py::test_a_person_at_several_owners_composes": [
        ("across_one", "skdpsumm/summaries/_sketch_summarizer.py",
            "mechanism=compose([own.mechanism] * int(n_owners))", "mechanism=own.mechanism"),
    ],
    "tests/test_kit.py::test_targets_cost_what_is_claimed[propose-three rows]": [
        ("target_count_of_one", "skdpsumm/summaries/_protocol.py", "count = moved * GRID", "count = GRID"),
    ],
    "tests/test_rounding.py::test_noise_covers_the_rounding_of_coordinates": [
        ("functional_rounding_once", "skdpsumm/learners/mechanisms/_functional.py",
            "moved = terms.sensitivity + 2 * rounding", "moved = terms.sensitivity"),
    ],
    "tests/test_rounding.py::test_noise_covers_the_rounding_of_coordinates_to_the_grid": [
        ("functional_grid_forgotten", "skdpsumm/learners/mechanisms/_functional.py",
            "norm = (moved / self._grid + math.sqrt(n_coordinates)) * ROUNDED_UP", "norm = (moved / self._grid) * ROUNDED_UP"),
    ],
    "tests/test_noise.py::test_the_discreteness_of_a_group_by_the_densities_themselves": [
        ("group_log_ratio", "skdpsumm/privacy/_mechanisms.py",
            "return GaussianDP(size * self.mu, size**2 * self.log_ratio, tail)",
            "return GaussianDP(size * self.mu, self.log_ratio, tail)"),
    ],
    "tests/test_kit.py::test_neighbours_cost_what_is_claimed[fourier-replaced row]": [
        ("features_of_add_remove", "skdpsumm/features/_feature_maps.py",
            'rows, reach = (2, self.reach) if adjacency == "replace_one" else (1, 1.0)', "rows, reach = 1, 1.0"),
    ],
    "tests/test_kit.py::test_neighbours_cost_what_is_claimed[histogram-three rows]": [
        ("sketch_of_one_row", "skdpsumm/features/_feature_maps.py", "k = 1 if averaged or limit is None else int(limit)", "k = 1"),
    ],
    "tests/test_kit.py::test_neighbours_cost_what_is_claimed[functional-three rows]": [
        ("minimiser_of_one_row", "skdpsumm/learners/erm/_problem.py",
            'return self.rows_of_unit * (1 if self.adjacency == "add_remove" else 2)',
            'return 1 if self.adjacency == "add_remove" else 2'),
        ("all_rows_of_a_group_count", "skdpsumm/schema/_groups.py",
            "for group in np.flatnonzero(self.sizes > k).tolist():", "for group in np.flatnonzero(self.sizes > 10**9).tolist():"),
    ],
    "tests/test_kit.py::test_neighbours_cost_what_is_claimed[functional-replaced row]": [
        ("minimiser_of_new_rows", "skdpsumm/learners/erm/_problem.py",
            'return self.rows_of_unit * (1 if self.adjacency == "add_remove" else 2)', "return self.rows_of_unit"),
    ],
    "tests/test_kit.py::test_neighbours_cost_what_is_claimed[functional-replaced average]": [
        ("shares_of_one", "skdpsumm/learners/erm/_problem.py",
            "return np.where(exact, parts, np.nextafter(parts, 0.0))[:, None]", "return np.ones((len(exact), 1))"),
    ],
    "tests/test_kit.py::test_a_long_row_pulls_back_many_short_ones": [
        ("lipschitz_of_scores_in_bounds", "skdpsumm/learners/erm/_problem.py",
            "return self.loss.lipschitz * self.radius / self.regularization",
            "return min(self.loss.lipschitz, 1.0) * self.radius / self.regularization"),
    ],
    "tests/test_kit.py::test_neighbours_cost_what_is_claimed[functional-pure row]": [
        ("pure_noise_halved", "skdpsumm/learners/mechanisms/_functional.py",
            "self._terms, self._scale = terms, terms.sensitivity / terms.epsilon",
            "self._terms, self._scale = terms, terms.sensitivity / terms.epsilon / 2"),
    ],
    "tests/test_kit.py::test_neighbours_cost_what_is_claimed[union-pure row]": [
        ("epsilon_spent_on_each_block", "skdpsumm/privacy/_noise.py",
            "self._scales = [b.l1 / (b.share * epsilon) * SCALE_MARGIN for b in self.blocks]",
            "self._scales = [b.l1 / epsilon * SCALE_MARGIN for b in self.blocks]"),
    ],
    "tests/test_kit.py::test_neighbours_cost_what_is_claimed[union-row]": [
        ("mu_spent_on_each_block", "skdpsumm/privacy/_noise.py",
            "scales = [b.l2 / (mu * math.sqrt(b.share)) * (1 + 1e-12) for b in self.blocks]",
            "scales = [b.l2 / mu * (1 + 1e-12) for b in self.blocks]"),
    ],
    "tests/test_kit.py::test_neighbours_cost_what_is_claimed[fourier-row]": [
        ("count_of_a_sketch_is_exact", "skdpsumm/sketches/_private_sketch.py",
            "counted = float(noisy[-1]), float(deviations[-1])",
            "counted = float(n_rows), float(deviations[-1])"),
    ],
    "tests/test_kit.py::test_targets_cost_what_is_claimed[propose-row]": [
        ("target_count_is_exact", "skdpsumm/summaries/_protocol.py",
            "counted = float(self._noise.add_block(1, rows, noise_seed)[0]) / GRID",
            "counted = self._noise.add_block(1, rows, noise_seed)[0] * 0 + size"),
    ],
    "tests/test_kit.py::test_owners_hear_of_each_other_what_is_claimed[ask_all-gaussian-add_remove]": [
        ("one_swap_of_ask_all", "examples/papers/_ask_all.py",
            "l1, l2 = (terms.rows_moved * size for size in embedding.sensitivity(2))",
            "l1, l2 = (terms.rows_moved * size for size in embedding.sensitivity(1))"),
    ],
    "tests/test_kit.py::test_random_groups_are_in_one_part_of_a_search": [
        ("coins_of_rows", "skdpsumm/model_selection/_candidate.py",
            "return (np.array(coins, np.float64) < chance * 2.0**56)[groups.codes]",
            "return np.random.default_rng(coins).random(len(groups.codes)) < chance"),
    ],
    "tests/test_adaptive_audit.py::test_neighbours_cost_what_is_claimed": [
        ("choices_half_free", "skdpsumm/privacy/_noise.py",
            "step = self._spend(share, chooses=True)", "step = self._spend(share / 2, chooses=True)"),
        ("half_the_gumbel", "skdpsumm/privacy/_noise.py",
            "scale = 2 * sensitivity / spread * SCALE_MARGIN", "scale = sensitivity / spread * SCALE_MARGIN"),
        ("half_the_noise_of_counts", "skdpsumm/privacy/_noise.py",
            "scale = l2 / (self._mu * math.sqrt(share)) * SCALE_MARGIN", "scale = l2 / (self._mu * math.sqrt(share)) / 2"),
        ("scores_of_one_row", "skdpsumm/sketches/_adaptive.py", "return self.limit if isinstance(self.limit, int) else 1", "return 1"),
        ("scores_of_new_rows", "skdpsumm/sketches/_adaptive.py",
            'return self.rows_per_unit * GRID * (2 if self.adjacency == "replace_one" else 1)', "return self.rows_per_unit * GRID"),
        ("counts_of_new_rows", "skdpsumm/sketches/_adaptive.py",
            "((l1, l2),) = sensitivities(feature_map, self.adjacency, self.limit)",
            '((l1, l2),) = sensitivities(feature_map, "add_remove", self.limit)'),
        ("groups_of_a_size_moved_once", "skdpsumm/sketches/_adaptive.py", "self.design.distances_of(int(alike.sum()))", "self.design.distances_of(1)"),
        ("counts_of_one_row", "skdpsumm/sketches/_adaptive.py",
            "((l1, l2),) = sensitivities(feature_map, self.adjacency, self.limit)",
            "((l1, l2),) = sensitivities(feature_map, self.adjacency, None)"),
    ],
    "tests/test_adaptive_audit.py::test_heaps_elsewhere_come_over_the_wire": [
        ("cells_split_by_exact_counts", "skdpsumm/sketches/_adaptive.py",
            "for (j,), table, std in zip(finer.groups, part.tables(), part.std, strict=True):",
            "for (j,), table, std in zip(finer.groups, Part(finer, exact(finer) / GRID, part.std).tables(), part.std, strict=True):"),
    ],
    "tests/test_adaptive_audit.py::test_all_that_is_published_comes_over_the_wire": [
        ("candidates_by_exact_counts", "skdpsumm/sketches/_adaptive.py",
            "            joins = open_ & (np.ptp(self.joined[columns], axis=1) > 0)",
            "            open_ &= scores > np.median(scores)\n            joins = open_ & (np.ptp(self.joined[columns], axis=1) > 0)"),
        ("joining_ends_by_exact_scores", "skdpsumm/sketches/_adaptive.py",
            "            if place >= len(among):", "            if place >= len(among) or compete.max() <= 0:"),
        ("n_of_added_rows_is_public", "skdpsumm/sketches/_adaptive.py",
            'n_public = n_units if self.adjacency == "replace_one" else None', "n_public = n_units"),
    ],
    "tests/test_schema_finder.py::test_the_claim_covers_every_mix_of_new_and_common_values": [
        ("new_values_without_their_delta", "skdpsumm/schema/_finder.py", "log_ratio, own + tail), bound", "log_ratio, own), bound"),
    ],
    "tests/test_schema_finder.py::test_a_value_that_one_unit_brings_is_told_as_rarely_as_claimed": [
        ("tail_of_delta_twice", "skdpsumm/schema/_finder.py", "delta=self.delta - tail)", "delta=self.delta)"),
        ("threshold_without_the_unit", "skdpsumm/schema/_finder.py",
            "bound = _FEWEST_UNITS + 2.0**-noise.lift", "bound = _FEWEST_UNITS - 1 + 2.0**-noise.lift"),
        ("threshold_of_one_new_value", "skdpsumm/schema/_finder.py", "tail / (moved * kinds.count(CATEGORY))", "tail / moved"),
    ],
    "tests/test_ledger.py::test_the_first_charge_alone_may_set_a_part_of_delta_aside": [
        ("cap_of_all_delta_beside_a_first_tail", "skdpsumm/privacy/_ledger.py",
            "square = gdp_mu(self.epsilon * (1 - RESERVE), delta * (1 - RESERVE)) ** 2",
            "square = gdp_mu(self.epsilon * (1 - RESERVE), self.delta * (1 - RESERVE)) ** 2"),
        ("tails_of_later_charges_set_aside", "skdpsumm/privacy/_ledger.py",
            "tail = book.first_tail if book.charges else first_tail", "tail = book.first_tail or first_tail"),
    ],
    "tests/test_schema_finder.py::test_a_value_of_one_unit_is_never_told_and_gets_no_noise": [
        ("values_of_two_units_left_out", "skdpsumm/schema/_finder.py",
            "kept = np.flatnonzero(counts >= fewest)", "kept = np.flatnonzero(counts > fewest)"),
    ],
    "tests/test_schema_finder.py::test_nothing_but_noisy_counts_is_told_of_numbers": [
        ("finder_exact_maximum", "skdpsumm/schema/_finder.py",
            "yield values, noisy, ",
            "yield values, np.where(counts, 1e9, noisy), "),
    ],
    "tests/test_schema_finder.py::test_categories_are_in_an_order_of_their_own": [
        ("categories_by_appearance", "skdpsumm/schema/_finder.py",
            "values = sorted(found, key=lambda value: (isinstance(value, str), value))",
            "values = [value for value in dict.fromkeys(read) if value is not None]"),
        ("categories_by_count", "skdpsumm/schema/_finder.py",
            "found = [values[i] for i in np.sort(heaviest)]", "found = [values[i] for i in heaviest]"),
    ],
    "tests/test_schema_finder.py::test_a_unit_counts_once_in_a_cell": [
        ("finder_counts_rows_of_a_group", "skdpsumm/schema/_finder.py",
            "pairs = np.unique(units[there] * max(n, 1) + codes[there])", "pairs = units[there] * max(n, 1) + codes[there]"),
    ],
    "tests/test_schema_finder.py::test_neighbours_cost_what_is_claimed": [
        ("finder_keeps_all_rows_of_a_group", "skdpsumm/schema/_finder.py",
            "rows = labels.kept(self._rows_per_group, self._group_key(noise_seed))", "rows = np.arange(len(table))"),
        ("finder_forgets_replaced_rows", "skdpsumm/schema/_finder.py", 'units = 2 if self.adjacency == "replace_one" else 1', "units = 1"),
        ("finder_budget_for_each_column", "skdpsumm/schema/_finder.py",
            "Block(moved, float(moved), math.sqrt(moved), share)", "Block(moved, moved * share, math.sqrt(moved * share), share)"),
    ],
    "tests/test_schema_finder.py::test_what_is_made_with_a_found_schema_says_so": [
        ("summary_forgets_what_its_schema_cost", "skdpsumm/summaries/_protocol.py",
            "told = given_of_columns(terms.schema) + given_of_groups(terms.max_rows_per_group)", "told = given_of_groups(terms.max_rows_per_group)"),
    ],
    "tests/test_schema_finder.py::test_the_cell_of_a_number_is_a_matter_of_its_value": [
        ("sign_of_zero", "skdpsumm/schema/_finder.py",
            "place = np.where(numbers < 0, -m, m)", "place = np.where(np.signbit(numbers), -m - (m == 0), m)"),
    ],
    "tests/test_kit.py::test_neighbours_cost_what_is_claimed[gradient-row]": [
        ("gradient_steps_not_counted", "skdpsumm/learners/mechanisms/_gradient.py", "moved, share / self.n_steps)", "moved, share)"),
        ("gradient_noise_for_half_the_distance", "skdpsumm/learners/mechanisms/_gradient.py",
            "        return self._moved\n", "        return self._moved / 2\n"),
        ("gradient_noise_of_the_first_step", "skdpsumm/learners/mechanisms/_gradient.py",
            "noisy = self._noisy(step, self._rows.gradient(descent.weights))",
            "exact = self._rows.gradient(descent.weights)\n                self._drawn = self._noisy(step, exact) - exact if step == first else self._drawn\n                noisy = exact + self._drawn"),
    ],
    "tests/test_private_search.py::test_noise_of_the_score": [
        ("search_priced_as_one_run", "skdpsumm/model_selection/_candidate.py",
            "part = math.exp(brentq(excess, -60.0, 0.0, xtol=1e-14)) * (1 - _DISTANCE_FROM_ROOT)", "part = 1.0"),
        ("search_score_with_half_the_noise", "skdpsumm/model_selection/_candidate.py",
            "IntegerNoise([block], epsilon=self.plan.epsilon, delta=self.plan.delta)",
            "IntegerNoise([block], epsilon=2 * self.plan.epsilon, delta=self.plan.delta)"),
    ],
    "tests/test_compare.py::test_nothing_but_noisy_sums_is_told": [
        ("compare_auc_of_exact_counts", "skdpsumm/audit/_compare.py",
            "entries.append((score, block.names[0], *_auc(noisy.reshape(2, -1), std)))",
            "exact, told = (c.reshape(2, -1).sum(axis=1) for c in (block.values, noisy))\n                area, error = _auc(noisy.reshape(2, -1), std)\n                entries.append((score, block.names[0], area * told.prod() / exact.prod(), error))"),
        ("compare_mean_of_exact_rows", "skdpsumm/audit/_compare.py",
            "scales.append(-(high - low) / (GRID * max(weights.sum(), 1.0)))",
            "scales.append(-(high - low) / (GRID * (~np.isnan(units)).sum()))"),
    ],
    "tests/test_compare.py::test_neighbours_cost_what_is_claimed": [
        ("compare_forgets_replaced_rows", "skdpsumm/audit/_compare.py",
            'moved = GRID * self._rows_per_group * (2 if self.adjacency == "replace_one" else 1)',
            "moved = GRID * self._rows_per_group"),
        ("compare_rows_of_a_group_in_many_cells", "skdpsumm/audit/_compare.py",
            "l1, l2 = (2 * k, math.sqrt(2) * k) if replaced else (k, k)",
            "l1, l2 = (2 * k, math.sqrt(2 * k)) if replaced else (k, math.sqrt(k))"),
    ],
    "tests/test_compare.py::test_no_row_moves_the_score_of_another": [
        ("compare_scores_in_company", "skdpsumm/audit/_compare.py",
            "scores, taken = (part[which] for part in map_rows([self], rows, 1))",
            "scores, taken = self.transform(rows)[which][:, None], np.ones(len(which), bool)"),
    ],
    "tests/test_simulation.py::test_answers_have_the_noise_of_their_fit_wherever_they_are_asked": [
        ("seed_read_again_when_asked", "skdpsumm/learners/erm/_problem.py",
            "return derived_seed(self.noise_seed, *key)",
            'return derived_seed(__import__("skdpsumm").privacy._noise.current_seed(), *key)'),
    ],
    "tests/test_simulation.py::test_no_two_parts_of_a_release_share_a_stream": [
        ("owners_of_one_stream", "skdpsumm/summaries/_sketch_summarizer.py",
            "derived_seed(self.noise_seed, NOISE_OF_OWNER, k)", "derived_seed(self.noise_seed, NOISE_OF_OWNER)"),
        ("seed_read_again_at_release", "skdpsumm/sketches/_private_sketch.py",
            "self.noise.add(values, self.noise_seed)",
            'self.noise.add(values, __import__("skdpsumm").privacy._noise.current_seed())'),
    ],
    "tests/test_simulation.py::test_what_a_callback_begins_is_not_the_noise_of_the_fit": [
        ("seed_read_again_for_the_terms", "skdpsumm/learners/_base.py",
            "noise_seed=noise_seed,", 'noise_seed=__import__("skdpsumm").privacy._noise.current_seed(),'),
    ],
    "tests/test_simulation.py::test_a_ledger_in_a_file_is_refused_before_the_data_are_read": [
        ("simulation_spends_a_file", "skdpsumm/privacy/_ledger.py",
            "if simulated and self.path is not None:", "if simulated and self.path is None:"),
    ],
    "tests/test_simulation.py::test_trials_of_a_search_have_seeds_of_their_own_or_none": [
        ("trials_without_their_seeds", "skdpsumm/model_selection/_candidate.py", "with silence(), drawing_from(seeds[0]):", "with silence():"),
    ],
}
# fmt: on
BUGS = [Bug(*own, test) for test, found in PLANTED.items() for own in found]


def copied(box):
    """Return a copy of the checkout."""
    for name in NEEDED:
        source, ignored = ROOT / name, shutil.ignore_patterns("__pycache__", "generated")
        if source.is_dir():
            shutil.copytree(source, box / name, ignore=ignored)
        else:
            shutil.copy(source, box / name)
    return box


def passes(box, *tests):
    """Return whether tests pass in a copy of the checkout; an error that is no failure raises."""
    options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not long"]
    command = [sys.executable, "-m", "pytest", *options]
    own = {**os.environ, "PYTHONPATH": str(box), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run([*command, *tests], cwd=box, env=own, capture_output=True, text=True)
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"pytest could not run {tests}:\n{ran.stdout}{ran.stderr}")
    return ran.returncode == 0


def planted(box, bug):
    """Return whether the test of a bug passes where it is planted."""
    path = box / bug.file
    right = path.read_text("utf-8")
    if right.count(bug.old) != 1:
        raise RuntimeError(f"{bug.name}: the old text is not in {bug.file} once")
    path.write_text(right.replace(bug.old, bug.new), "utf-8")
    try:
        return passes(box, bug.test)
    finally:
        path.write_text(right, "utf-8")


def main(names):
    """Plant the bugs of these names, or all; return the exit status."""
    bugs = [bug for bug in BUGS if not names or bug.name in names]
    with tempfile.TemporaryDirectory() as folder:
        box = copied(Path(folder))
        if not passes(box, *sorted({bug.test for bug in bugs})):
            print("a test fails though no bug is planted")
            return 1
        survived = []
        for bug in bugs:
            if planted(box, bug):
                survived.append(bug.name)
            print(f"{bug.name}: {'SURVIVED' if bug.name in survived else 'found'}", flush=True)
    print(f"{len(bugs) - len(survived)} of {len(bugs)} planted bugs were found")
    return int(bool(survived) or not bugs)


if __name__ == "__main__":
    sys.exit(main(set(sys.argv[1:])))
