import { scatterKinds, scatterTypes } from "@backplane/core";
import { memoized, WORKGROUP_SIZE } from "../../program/index.js";
import type { BufferRegion, KernelContext } from "../../runtime/index.js";
import { isNarrow } from "../machine.js";
import type { OperationEntry } from "../operation.js";
import { scan } from "../scan/index.js";
import { middleOf, type Segmentation, windowBytes, windowOf } from "../segments/index.js";
import { columnsProgram } from "./columns.wgsl.js";
import { claimProgram, lastProgram } from "./last.wgsl.js";
import { listsProgram } from "./lists.wgsl.js";
import { countProgram, placeProgram, RADIX, type Source } from "./order.wgsl.js";
import { columns, type Problem, rows, slab, some } from "./parts.js";
import { rangesProgram } from "./ranges.wgsl.js";
import { planScatter, rangesOfKeys, type ScatterPlan, shareOfRow, tilesFor } from "./select.js";

type LastPlan = Extract<ScatterPlan, { form: "last" }>;
type RangesPlan = Extract<ScatterPlan, { form: "ranges" }>;
type ListsPlan = Extract<ScatterPlan, { form: "lists" }>;

const columnsOf = memoized(columnsProgram);
const claimOf = memoized(claimProgram);
const lastOf = memoized(lastProgram);
const countOf = memoized(countProgram);
const placeOf = memoized(placeProgram);
const rangesOf = memoized(rangesProgram);
const listsOf = memoized(listsProgram);

/** Bytes of a count or number, and of a pair. */
const WORD = 4;
const PAIR = 8;

/** A list is as long as all entries if all indices are alike, and one invocation after the other takes all of a column. */
const MOST_ENTRIES = 2 ** 22;

function run(context: KernelContext, problem: Problem): void {
  const plan = planScatter(problem, !isNarrow(context.features));
  if (plan.form === "columns") runColumns(context, problem, plan.width);
  else if (plan.form === "last") runLast(context, problem, plan);
  else if (plan.form === "ranges") runRanges(context, problem, plan);
  else if (plan.entries > mostEntries(plan.period)) runInParts(context, problem, plan);
  else runLists(context, problem, plan, roomFor(context, plan.entries, plan.digits.length, radixOf(plan)));
}

function runColumns(context: KernelContext, problem: Problem, width: 1 | 2): void {
  const { dtype, kind, outer, length, count, inner, outerStride, axisStride, innerStride } = problem;
  const { indices, updates, output, first = 0 } = problem;
  const total = (outer * inner) / width;
  context.dispatch(
    columnsOf(kind, dtype),
    { indices, updates, output },
    {
      total,
      length,
      count,
      inner,
      width,
      outer_stride: outerStride,
      axis_stride: axisStride,
      inner_stride: innerStride,
      first,
    },
    Math.ceil(total / WORKGROUP_SIZE),
  );
}

function targetsOf(problem: Problem, { period, keys }: LastPlan | RangesPlan | ListsPlan) {
  return {
    count: problem.count,
    length: problem.length,
    period,
    first: problem.first ?? 0,
    keys,
    outer_stride: problem.outerStride,
    axis_stride: problem.axisStride,
    inner_stride: problem.innerStride,
  };
}

function rowsOf({ rows, units }: LastPlan | ListsPlan) {
  const { laneShift, parts } = shareOfRow(units);
  const workgroups = Math.ceil((rows * parts * 2 ** laneShift) / WORKGROUP_SIZE);
  return { parameters: { rows, units, lane_shift: laneShift, parts }, workgroups };
}

function runLast(context: KernelContext, problem: Problem, plan: LastPlan): void {
  const { indices, updates, output } = problem;
  const { entries } = plan;
  const last = context.scratch(WORD * plan.keys);
  const targets = targetsOf(problem, plan);
  for (const step of ["clear", "claim"] as const)
    context.dispatch(
      claimOf(step),
      { indices, last },
      { ...targets, entries },
      Math.ceil(entries / WORKGROUP_SIZE),
    );
  const { parameters, workgroups } = rowsOf(plan);
  const regions = { indices, last, updates, output };
  context.dispatch(lastOf(plan.unit), regions, { ...targets, ...parameters, entries }, workgroups);
}

function runRanges(context: KernelContext, problem: Problem, plan: RangesPlan): void {
  const { dtype, kind, indices, updates, output } = problem;
  const { entries, keys, rows, units, vector } = plan;
  const { ranges, range } = rangesOfKeys(keys);
  const repeats = rows / entries;
  context.dispatch(
    rangesOf(kind, dtype, vector),
    { indices, updates, output },
    {
      ...targetsOf(problem, plan),
      ...{ entries, ranges, range, repeats, units, lane_shift: shareOfRow(units).laneShift },
    },
    ranges * repeats,
  );
}

/** Scratch of lists: pairs twice, or once if one pass sorts them; counts, and their sums. */
interface Room {
  readonly pairs: readonly BufferRegion[];
  readonly counts: BufferRegion;
  readonly sums: BufferRegion;
}

function countBytes(entries: number, radix: number): number {
  return WORD * tilesFor(entries) * radix;
}

/** `radix`: the most numbers that a digit may be. */
function roomFor(context: KernelContext, entries: number, passes: number, radix: number): Room {
  const pairs = Array.from({ length: Math.min(passes, 2) }, () => context.scratch(PAIR * entries));
  const bytes = countBytes(entries, radix);
  return { pairs, counts: context.scratch(bytes), sums: context.scratch(bytes) };
}

const radixOf = ({ digits }: ListsPlan): number => digits[0]!.mask + 1;

/** Sorts the pairs, and combines each list with its row. */
function runLists(context: KernelContext, problem: Problem, plan: ListsPlan, room: Room): void {
  const { dtype, kind, indices, updates, output } = problem;
  const { counts, sums } = room;
  const { entries, digits } = plan;
  const targets = targetsOf(problem, plan);
  const tiles = tilesFor(entries);
  let pairs = indices;
  for (const [pass, { shift, mask }] of digits.entries()) {
    const by: Source = pass === 0 ? "indices" : "pairs";
    const source = { [by]: pairs } as Record<Source, BufferRegion>;
    const parameters = { ...targets, entries, tiles, shift, mask };
    context.dispatch(countOf(by), { ...source, counts }, parameters, tiles);
    scan.run(context, {
      ...{ dtype: "u32", kind: "sum", outer: mask + 1, length: tiles, inner: 1 },
      ...{ exclusive: false, reverse: false, input: counts, output: sums },
    });
    pairs = room.pairs[pass % 2]!;
    context.dispatch(placeOf(by), { ...source, sums, placed: pairs }, parameters, tiles);
  }
  const { parameters, workgroups } = rowsOf(plan);
  context.dispatch(
    listsOf(kind, dtype, plan.vector),
    { pairs, updates, output },
    { ...parameters, entries, keys: plan.keys },
    workgroups,
  );
}

/** Some slabs after the others, or some updates of each, which are made in order. */
function runInParts(context: KernelContext, problem: Problem, { period }: ListsPlan): void {
  const { outer, count } = problem;
  const steps = Math.max(1, Math.floor(MOST_ENTRIES / period));
  const slabs = Math.max(1, Math.floor(steps / count));
  const room = roomFor(context, mostEntries(period), 2, RADIX);
  for (let o = 0; o < outer; o += slabs) {
    const own = slab(problem, o, Math.min(slabs, outer - o));
    for (let j = 0; j < count; j += steps) {
      const part = own.outer > 1 ? own : some(own, j, Math.min(steps, count - j));
      const plan = planScatter(part, false);
      if (plan.form === "lists") runLists(context, part, plan, room);
      else run(context, part);
    }
  }
}

/** A part has at least one step of a slab. */
const mostEntries = (period: number): number => Math.max(MOST_ENTRIES, period);

function scratchBound(problem: Problem): number {
  // Ranges take none.
  const plan = planScatter(problem, false);
  if (plan.form === "columns" || plan.form === "ranges") return 0;
  if (plan.form === "last") return WORD * plan.keys;
  const most = mostEntries(plan.period);
  if (plan.entries > most) return Math.max(PAIR * most, countBytes(most, RADIX));
  return Math.max(PAIR * plan.entries, countBytes(plan.entries, radixOf(plan)));
}

/** Cuts the axes before the given one; then the updates, in order; then the rows of the output; then a row. */
const segments: Segmentation<Problem> = {
  longestWindow: ({ indices, updates, output }) =>
    Math.max(windowOf(indices), windowOf(updates), windowOf(output)),
  scratchBound,

  divide(context, problem, run) {
    const { outer, length, count, inner, indices, updates } = problem;
    // The scratch of lists is as long as their updates are many; where only the last one counts, it is as long as the output.
    const scratch = planScatter(problem, false).form === "lists" ? scratchBound(problem) : 0;
    const isTooLong = Math.max(windowOf(indices), windowOf(updates), scratch) > windowBytes(context.features);
    const [extent, part] =
      outer > 1
        ? ([outer, slab] as const)
        : count > 1 && isTooLong
          ? ([count, some] as const)
          : length > 1
            ? ([length, rows] as const)
            : ([inner, columns] as const);
    const middle = middleOf(extent);
    run(context, part(problem, 0, middle));
    run(context, part(problem, middle, extent - middle));
  },
};

/** output[o, indices[o, j, i], i] = kind(that, updates[o, j, i]), for j in order */
export const scatter: OperationEntry<"scatter", Problem> = {
  operation: "scatter",
  supports: [{ dtype: scatterTypes, kind: scatterKinds }],
  run,
  segments: () => segments,
};
