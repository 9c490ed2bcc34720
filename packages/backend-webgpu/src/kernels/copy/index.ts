import { type CopyProblem, dtypes } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { DeviceMemory, KernelContext } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { copySegments } from "./segments.js";
import { type Axis, planCopy } from "./select.js";
import { tilesProgram } from "./tiles.wgsl.js";
import { AXIS_ROWS, lineUnitsProgram, unitsProgram } from "./units.wgsl.js";
import { vectorTilesProgram } from "./vector-tiles.wgsl.js";
import { lineWordsProgram, wordsProgram } from "./words.wgsl.js";

export { conversionFunction, conversionFunctions } from "./convert.wgsl.js";

type Problem = CopyProblem<DeviceMemory>;

const units = memoized(unitsProgram);
const lineUnits = memoized(lineUnitsProgram);
const tiles = memoized(tilesProgram);
const vectorTiles = memoized(vectorTilesProgram);
const words = memoized(wordsProgram);
const lineWords = memoized(lineWordsProgram);

function run(context: KernelContext, problem: Problem): void {
  const { dtype, outputDtype, input, output } = problem;
  const plan = planCopy(problem);
  const regions = { source: input, output };
  switch (plan.form) {
    case "bytes":
      context.copy(output, input);
      break;
    case "units": {
      const { unit, line, count, start, axes, workgroups } = plan;
      const [rank, table] = [axes.length, tableOf(axes)];
      if (line === undefined) {
        context.dispatch(units(unit), regions, { count, start, rank, axes: table }, workgroups);
        break;
      }
      const { laneShift, parts } = line;
      const parameters = { count, lane_shift: laneShift, parts, start, rank, axes: table };
      context.dispatch(lineUnits(unit), regions, parameters, workgroups);
      break;
    }
    case "tiles":
    case "vectorTiles": {
      const { bytes, start, rows, columns, down, across, matrices, axes } = plan;
      const parameters = {
        ...{ start, rows: rows.extent, columns: columns.extent },
        ...{ column_step: columns.from >>> 0, row_step: rows.to },
        ...{ down, across, matrices, rank: axes.length, axes: tableOf(axes) },
      };
      const program = plan.form === "tiles" ? tiles(bytes) : vectorTiles(bytes);
      context.dispatch(program, regions, parameters, down * across * matrices);
      break;
    }
    case "words": {
      const { line, start, blocks, blockWords, blockBytes, outer, axes, workgroups } = plan;
      if (line !== undefined) {
        const [rank, table] = [axes.length, tableOf(axes)];
        const { laneShift, parts } = line;
        const parameters = { count: blocks, lane_shift: laneShift, parts, start, rank, axes: table };
        context.dispatch(lineWords(dtype, outputDtype), regions, parameters, workgroups);
        break;
      }
      const parameters = {
        ...{ start, blocks, block_words: blockWords, block_bytes: blockBytes },
        ...{ outer, rank: axes.length, axes: tableOf(axes) },
      };
      context.dispatch(words(dtype, outputDtype), regions, parameters, workgroups);
    }
  }
}

/** Negative strides wrap around, as sums of u32 do. */
function tableOf(axes: readonly Axis[]): readonly number[] {
  const table = axes.flatMap(({ extent, from, to }) => [extent, from >>> 0, to, 0]);
  while (table.length < 4 * AXIS_ROWS) table.push(0);
  return table;
}

/** output[i, j, ...] = input[i, j, ...], each with strides and an element type of its own */
export const copy: OperationEntry<"copy", Problem> = {
  operation: "copy",
  supports: [{ dtype: dtypes, outputDtype: true }],
  run,
  segments: () => copySegments,
};
