import { dtypeBytes, floatTypes, integerTypes, type SortProblem, transposition } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import { copy } from "../copy/index.js";
import { isNarrow } from "../machine.js";
import type { OperationEntry } from "../operation.js";
import { scan } from "../scan/index.js";
import { sortByDigits } from "./digits.js";
import { flipOf, keyTexts } from "./keys.wgsl.js";
import { leastProgram } from "./least.wgsl.js";
import { linesProgram } from "./lines.wgsl.js";
import {
  placed,
  type Results,
  type Rows,
  regionsOf,
  type Sinks,
  type Sources,
  sinkOf,
  WORD,
} from "./regions.js";
import { sortSegments } from "./segments.js";
import { itemsFor, mostItems, planSort, roundsOf } from "./select.js";
import { tileRecords } from "./tile.wgsl.js";

type Problem = SortProblem<DeviceMemory>;

const leastOf = memoized(leastProgram);
const linesOf = memoized(linesProgram);

function run(context: KernelContext, problem: Problem): void {
  const plan = planSort(problem, mostItems(context.features));
  if (plan.form === "rows") {
    asRows(context, problem);
    return;
  }
  const { dtype, outer, length, inner, count, descending, input, values, indices } = problem;
  const flip = descending ? flipOf[dtype] : 0;
  const { results, store } = placed(context, dtype, values, indices);
  const rows = { dtype, count: outer * inner, length, kept: count, flip };
  if (plan.form === "digits") {
    const addUp = (problem: Parameters<typeof scan.run>[1]) => scan.run(context, problem);
    sortByDigits(context, rows, { length, sources: [{ data: input }], results: [results], addUp });
  } else if (plan.form === "parts") sortParts(context, rows, input, results);
  else {
    const { method, items, tileLines } = plan;
    const along = inner === 1 ? "length" : "inner";
    context.dispatch(
      linesOf({
        ...{ dtype, source: "elements", sink: sinkOf(results), along, method, items },
        unrolled: !isNarrow(context.features),
      }),
      regionsOf({ data: input }, results),
      {
        ...{ lines: rows.count, length, pitch: length * inner, inner, count },
        ...{ tile_lines: tileLines, rounds: roundsOf(keyTexts[dtype].bits, tileLines), flip },
      },
      Math.ceil(rows.count / tileLines),
    );
  }
  store();
}

/**
 * The first elements of each part of a row have those of the row among them: they are selected, without an order of their
 * own, until one part is left, which is sorted. Equal ones stay in their order.
 */
function sortParts(context: KernelContext, rows: Rows, input: BufferRegion, results: Results): void {
  const { dtype, kept, flip } = rows;
  const most = mostItems(context.features);
  const largest = tileRecords(most);
  const unrolled = !isNarrow(context.features);
  let source: Sources = { data: input };
  let { length } = rows;
  let pitch = length;
  while (length > largest) {
    const parts = Math.ceil(length / largest);
    const lines = rows.count * parts;
    const bytes = WORD * lines * kept;
    const sink: Sinks = { keys: context.scratch(bytes), tags: context.scratch(bytes) };
    context.dispatch(
      leastOf({ dtype, source: "data" in source ? "elements" : "records", items: most, unrolled }),
      regionsOf(source, sink),
      { lines, parts, part_length: largest, length, pitch, count: kept, flip },
      lines,
    );
    source = sink;
    pitch = parts * kept;
    length = pitch - kept + Math.min(kept, length - (parts - 1) * largest);
  }
  context.dispatch(
    linesOf({
      ...{ dtype, source: "records", sink: sinkOf(results), along: "length", method: "digits", unrolled },
      items: itemsFor(length, most),
    }),
    regionsOf(source, results),
    {
      ...{ lines: rows.count, length, pitch, inner: 1, count: kept },
      ...{ tile_lines: 1, rounds: roundsOf(keyTexts[dtype].bits, 1), flip },
    },
    rows.count,
  );
}

/** The elements of a row are moved together, and its results apart. */
function asRows(context: KernelContext, problem: Problem): void {
  const { dtype, outer, length, inner, count, input, values, indices } = problem;
  const scratchOf = (type: "i32" | typeof dtype, elements: number) =>
    context.scratch(dtypeBytes[type] * outer * inner * elements);
  const moved = scratchOf(dtype, length);
  copy.run(context, transposition(dtype, [outer, length, inner], input, moved));
  // A single result of each row is where it belongs.
  const isMoved = count > 1;
  const rowValues = values !== undefined && isMoved ? scratchOf(dtype, count) : values;
  const rowIndices = indices !== undefined && isMoved ? scratchOf("i32", count) : indices;
  const rows = { outer: outer * inner, inner: 1, input: moved, values: rowValues, indices: rowIndices };
  run(context, { ...problem, ...rows });
  if (!isMoved) return;
  const extents = [outer, inner, count] as const;
  if (values !== undefined) copy.run(context, transposition(dtype, extents, rowValues!, values));
  if (indices !== undefined) copy.run(context, transposition("i32", extents, rowIndices!, indices));
}

/**
 * values[..., j, ...] = the j-th element of each line in order, and indices[..., j, ...] its place. What WebGPU lacks
 * to sort in one pass over memory is a promise that workgroups go on while others wait for them.
 */
export const sort: OperationEntry<"sort", Problem> = {
  operation: "sort",
  supports: [{ dtype: [...floatTypes, ...integerTypes] }],
  run,
  segments: sortSegments,
};
