import { type AttentionProblem, contiguousSteps, dtypeBytes } from "@backplane/core";
import type { Program } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext, Workgroups } from "../../runtime/index.js";
import { copy } from "../copy/index.js";
import { storeRounded } from "../halves.js";
import { attentionProgram } from "./attention.wgsl.js";
import { decodeProgram } from "./decode.wgsl.js";
import { columnsFor, THIN_ROWS } from "./few-rows.wgsl.js";
import { type Hiding, hidingOf, hidingValues } from "./hiding.wgsl.js";
import { attentionMatrixProgram, ROUGH_KEYS } from "./matrices.wgsl.js";
import type { AttentionMatrixForm } from "./matrix-tile.js";
import { FEW_PARTS, type MergeForm, mergeGroups, mergeProgram } from "./merge.wgsl.js";
import { type AttentionChoice, selectAttention } from "./select.js";
import { thinProgram } from "./thin.wgsl.js";
import type { AttentionShape } from "./variants.js";

type Problem = AttentionProblem<DeviceMemory>;

/** attention; `forced` names a variant to take wherever it fits (see `attentionVariants`). */
export function runAttention(context: KernelContext, problem: Problem, forced?: string): void {
  if (problem.rows !== undefined) {
    const { before, attention, after } = contiguousSteps(problem, (bytes) => context.scratch(bytes));
    for (const part of before) copy.run(context, part);
    runAttention(context, attention, forced);
    if (after !== undefined) copy.run(context, after);
    return;
  }
  const shape = attentionShape(problem);
  const choice = selectAttention(shape, context.features, forced);
  enqueueAttention(context, problem, shape, choice);
}

export function attentionShape(problem: Problem): AttentionShape {
  const { dtype, batch, heads, kvHeads, queryLength, keyLength, headSize } = problem;
  return {
    dtype,
    matrices: batch * kvHeads,
    rows: (heads / kvHeads) * queryLength,
    keyLength,
    headSize,
    wholeEights: isVector(problem, 8),
  };
}

/** Whether everything can be read and written four elements at a time, or eight: 16 bytes at most. */
function isVector({ dtype, headSize, q, k, v, out }: Problem, elements: 4 | 8): boolean {
  const unit = Math.min(16, elements * dtypeBytes[dtype]);
  const isAligned = ({ byteOffset }: BufferRegion) => byteOffset % unit === 0;
  return headSize % elements === 0 && isAligned(q) && isAligned(k) && isAligned(v) && isAligned(out);
}

/** Enqueues the choice made for a problem of the shape. */
export function enqueueAttention(
  context: KernelContext,
  problem: Problem,
  shape: AttentionShape,
  choice: AttentionChoice,
): void {
  const { dtype, out, logSumExp } = problem;
  // No buffer may be bound twice to be written.
  if (logSumExp !== undefined && logSumExp.memory === out.memory) {
    const logs = context.scratch(logSumExp.byteLength);
    enqueueAttention(context, { ...problem, logSumExp: logs }, shape, choice);
    context.copy(logSumExp, logs);
    return;
  }
  const vector = isVector(problem, 4);
  // Halves are written one quad at a time, or not by the kernel itself: two share a word.
  const store = vector ? undefined : storeRounded[dtype];
  if (store === undefined) {
    enqueue(context, problem, shape, choice, vector, out);
    return;
  }
  // f32 results in scratch are rounded into the output.
  const columns = out.byteLength / dtypeBytes[dtype];
  const results = context.scratch(4 * columns);
  enqueue(context, problem, shape, choice, vector, results);
  store(context, results, out, { batch: 1, rows: 1, columns });
}

/** Enqueues commands that leave results, in the order of the output, in `results`: the output, or scratch for f32. */
function enqueue(
  context: KernelContext,
  problem: Problem,
  shape: AttentionShape,
  choice: AttentionChoice,
  vector: boolean,
  results: BufferRegion,
): void {
  const { dtype, keyLength, headSize, q, k, v, logSumExp } = problem;
  const parts = Math.ceil(keyLength / choice.partKeys);
  const rows = shape.matrices * shape.rows;
  // Written out, and not put together from others: this runs for every token that is decoded.
  const parameters = {
    matrices: shape.matrices,
    rows: shape.rows,
    query_length: problem.queryLength,
    key_length: keyLength,
    key_pitch: problem.keyPitch,
    head_size: headSize,
    part_keys: choice.partKeys,
    scale: problem.scale * Math.LOG2E,
    visible: problem.visible,
  };
  const hasFewRows = choice.kind === "thin" || choice.kind === "decode";
  const isWhole = choice.kind === "decode" && parts === 1 && logSumExp === undefined;
  const isSplit = (hasFewRows && !isWhole) || parts > 1;
  const hiding = hidingOf(problem);
  const program = programFor(problem, choice, vector, isSplit, hiding);
  const groups: Workgroups = hasFewRows
    ? [Math.ceil(shape.rows / THIN_ROWS), shape.matrices, parts]
    : parts * choice.groups;
  const dispatch = (bindings: Readonly<Record<string, BufferRegion>>) =>
    hiding === undefined
      ? context.dispatch(program, bindings, parameters, groups)
      : context.dispatch(
          program,
          maskedBy(problem, bindings),
          { ...parameters, ...hidingValues(problem) },
          groups,
        );
  if (!isSplit) {
    dispatch(logSumExp === undefined ? { q, k, v, results } : { q, k, v, results, logs: logSumExp });
    return;
  }
  const sums = context.scratch(4 * parts * rows * headSize);
  const statistics = context.scratch(8 * parts * rows);
  dispatch({ q, k, v, results: sums, statistics });
  const form: MergeForm = {
    vector,
    stored: vector ? dtype : "f32",
    few: parts <= FEW_PARTS,
    logs: logSumExp !== undefined,
  };
  context.dispatch(
    mergeProgram(form),
    logSumExp === undefined ? { sums, statistics, results } : { sums, statistics, results, logs: logSumExp },
    { parts, rows, head_size: headSize },
    mergeGroups(rows * headSize, form),
  );
}

/** With the mask, if there is one. */
function maskedBy(
  { mask }: Problem,
  bindings: Readonly<Record<string, BufferRegion>>,
): Readonly<Record<string, BufferRegion>> {
  return mask === undefined ? bindings : { ...bindings, mask: mask.region };
}

function programFor(
  { dtype, keyLength, headSize, visible, logSumExp }: Problem,
  choice: AttentionChoice,
  vector: boolean,
  isSplit: boolean,
  hiding: Hiding | undefined,
): Program {
  if (choice.kind === "thin" || choice.kind === "decode") {
    const form = { dtype, columns: columnsFor(headSize), hiding };
    return choice.kind === "thin"
      ? thinProgram(choice.variant.tile, form)
      : decodeProgram(choice.variant.tile, isSplit ? form : { ...form, whole: true });
  }
  const logs = logSumExp !== undefined && !isSplit;
  if (choice.kind === "tiled")
    return attentionProgram(choice.variant.tile, {
      dtype,
      vector,
      columns: choice.columns,
      results: isSplit ? "parts" : vector ? "quads" : "elements",
      ...{ logs, hiding },
    });
  let weights: AttentionMatrixForm["weights"] = "mixed";
  // Nobody knows how many keys a mask or a window leaves a row.
  if (keyLength < ROUGH_KEYS || hiding !== undefined) weights = "fine";
  else if (visible >= keyLength - 1) weights = "rough";
  return attentionMatrixProgram(choice.variant.tile, {
    columns: choice.columns,
    whole: headSize === choice.columns,
    weights,
    results: isSplit ? "parts" : "halves",
    ...{ logs, hiding },
  });
}
