import { type CopyProblem, dtypes } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { DeviceMemory, KernelContext } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { copySegments } from "./segments.js";
import { type Axis, planCopy } from "./select.js";
import { tilesProgram } from "./tiles.wgsl.js";
import { AXIS_ROWS, unitsProgram } from "./units.wgsl.js";
import { wordsProgram } from "./words.wgsl.js";

type Problem = CopyProblem<DeviceMemory>;

const units = memoized(unitsProgram);
const tiles = memoized(tilesProgram);
const words = memoized(wordsProgram);

function run(context: KernelContext, problem: Problem): void {
  const { dtype, outputDtype, input, output } = problem;
  const plan = planCopy(problem);
  const regions = { source: input, output };
  switch (plan.form) {
    case "bytes":
      context.copy(output, input);
      break;
    case "units": {
      const { unit, count, start, axes, workgroups } = plan;
      const parameters = { count, start, rank: axes.length, axes: tableOf(axes) };
      context.dispatch(units(unit), regions, parameters, workgroups);
      break;
    }
    case "tiles": {
      const { bytes, start, rows, columns, down, across, matrices, axes } = plan;
      const parameters = {
        ...{ start, rows: rows.extent, columns: columns.extent },
        ...{ column_step: columns.from >>> 0, row_step: rows.to },
        ...{ down, across, matrices, rank: axes.length, axes: tableOf(axes) },
      };
      context.dispatch(tiles(bytes), regions, parameters, down * across * matrices);
      break;
    }
    case "words": {
      const { start, blocks, blockWords, blockBytes, outer, axes, workgroups } = plan;
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
