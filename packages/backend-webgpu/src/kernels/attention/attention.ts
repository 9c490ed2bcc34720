import {
  type AttentionMask,
  type AttentionProblem,
  contiguousSteps,
  dtypeBytes,
  moveProblem,
  type Rows,
  reachOfMask,
} from "@backplane/core";
import type { Program } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext, Workgroups } from "../../runtime/index.js";
import { copy } from "../copy/index.js";
import { storeRounded } from "../halves.js";
import { matrixUnits } from "../units.js";
import { attentionProgram } from "./attention.wgsl.js";
import { decodeProgram } from "./decode.wgsl.js";
import { columnsFor, THIN_ROWS } from "./few-rows.wgsl.js";
import { type Hiding, hidingOf, hidingValues } from "./hiding.wgsl.js";
import { copiedExtents, copiedMaskBytes, copiedPitch, isMaskAligned } from "./matrix-mask.wgsl.js";
import type { AttentionMatrixForm } from "./matrix-tile.js";
import { FEW_PARTS, type MergeForm, mergeGroups, mergeProgram } from "./merge.wgsl.js";
import { areAligned, followOneAnother, placeValues } from "./places.wgsl.js";
import type { PreparedMask } from "./prepared-mask.wgsl.js";
import { type AttentionChoice, type DirectChoice, selectAttention } from "./select.js";
import { thinProgram } from "./thin.wgsl.js";
import type { AttentionShape } from "./variants.js";

type Problem = AttentionProblem<DeviceMemory>;

/** attention; `forced` names a variant to take wherever it fits (see `attentionVariants`). */
export function runAttention(context: KernelContext, problem: Problem, forced?: string): void {
  const shape = attentionShape(problem);
  runChoice(context, problem, shape, selectAttention(shape, context.features, forced));
}

/** Runs the choice made for a problem of the shape, on operands in any places. */
export function runChoice(
  context: KernelContext,
  problem: Problem,
  shape: AttentionShape,
  choice: AttentionChoice,
): void {
  if (
    choice.kind === "matrices" &&
    problem.mask !== undefined &&
    !isMaskAligned(problem.mask, problem.keyLength)
  ) {
    runChoice(context, { ...problem, mask: copiedMask(context, problem, problem.mask) }, shape, choice);
    return;
  }
  if (problem.rows === undefined) {
    enqueueAttention(context, problem, shape, choice);
    return;
  }
  const { before, attention, after } = contiguousSteps(
    problem,
    (bytes) => context.scratch(bytes),
    (name, rows) => areAligned(problem, name, rows) && takesApart(problem, choice, name, rows),
  );
  for (const part of before) copy.run(context, part);
  enqueueAttention(context, attention, shape, choice);
  if (after !== undefined) copy.run(context, after);
}

/** A mask in scratch, as the kernels on matrix units read it. */
function copiedMask(
  context: KernelContext,
  problem: Problem,
  { dtype, region, strides }: AttentionMask<DeviceMemory>,
): AttentionMask<DeviceMemory> {
  const [batch, heads, queries] = copiedExtents(problem);
  const pitch = copiedPitch(problem.keyLength);
  const steps = [heads * queries * pitch, queries * pitch, pitch, 1] as const;
  const copied = context.scratch(copiedMaskBytes(problem));
  const shape = [batch, heads, queries, problem.keyLength] as const;
  const written = { ...copied, byteLength: reachOfMask(steps, shape) * dtypeBytes[dtype] };
  copy.run(context, moveProblem(dtype, shape, strides, steps, region, written));
  const own = (axis: 0 | 1 | 2) => (strides[axis] === 0 ? 0 : steps[axis]);
  return { dtype, region: copied, strides: [own(0), own(1), own(2), 1] };
}

/** Whether the kernel takes an operand where its rows are, if these are aligned. */
function takesApart(
  problem: Problem,
  choice: AttentionChoice,
  name: "q" | "k" | "v" | "out",
  rows: Rows,
): boolean {
  if (choice.kind === "thin" || choice.kind === "decode" || choice.kind === "split") return false;
  if (name === "k" || name === "v") return true;
  if (name === "out") {
    // Parts are joined, and single halves rounded, by kernels for contiguous rows.
    const isSplit = choice.partKeys < problem.keyLength;
    if (isSplit || (storeRounded[problem.dtype] !== undefined && !isVector(problem, 4))) return false;
  }
  return choice.kind === "matrices" || followOneAnother(problem, rows);
}

/** Bytes of a mask that may be copied for the kernels that read masks in whole units. */
const MOST_COPIED = 2 ** 26;

export function attentionShape(problem: Problem): AttentionShape {
  const { dtype, batch, heads, kvHeads, queryLength, keyLength, headSize } = problem;
  return {
    dtype,
    matrices: batch * kvHeads,
    rows: (heads / kvHeads) * queryLength,
    keyLength,
    headSize,
    wholeEights: isVector(problem, 8) && copiedMaskBytes(problem) <= MOST_COPIED,
    bare: hidingOf(problem) === undefined && problem.logSumExp === undefined,
  };
}

/**
 * Whether everything can be read and written four elements at a time, or eight: 16 bytes at most. Rows that lie apart are
 * copied to where they can, unless they are there.
 */
function isVector(problem: Problem, elements: 4 | 8): boolean {
  const { dtype, headSize, rows } = problem;
  const unit = Math.min(16, elements * dtypeBytes[dtype]);
  const isAligned = (name: "q" | "k" | "v" | "out") =>
    rows?.[name] !== undefined || problem[name].byteOffset % unit === 0;
  return headSize % elements === 0 && isAligned("q") && isAligned("k") && isAligned("v") && isAligned("out");
}

/** Enqueues the choice made for a problem of the shape. */
export function enqueueAttention(
  context: KernelContext,
  problem: Problem,
  shape: AttentionShape,
  choice: AttentionChoice,
): void {
  const { dtype, out, logSumExp } = problem;
  if (choice.kind === "split") {
    matrixUnits.get().enqueueSplitAttention(context, problem, shape, choice.variant);
    return;
  }
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
  choice: DirectChoice,
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
  const prepared = choice.kind === "matrices" ? preparedMask(context, problem, choice.prepares) : undefined;
  const program = programFor(problem, choice, vector, isSplit, hiding, prepared !== undefined);
  const groups: Workgroups = hasFewRows
    ? [Math.ceil(shape.rows / THIN_ROWS), shape.matrices, parts]
    : parts * choice.groups;
  const isPlain = hiding === undefined && problem.rows === undefined;
  const dispatch = (bindings: Readonly<Record<string, BufferRegion>>) =>
    isPlain
      ? context.dispatch(program, bindings, parameters, groups)
      : context.dispatch(
          program,
          maskedBy(problem, prepared, bindings),
          {
            ...parameters,
            ...hidingValues(prepared === undefined ? problem : { ...problem, mask: prepared.mask }),
            ...placeValues(problem),
            ...(prepared === undefined ? {} : matrixUnits.get().attendedValues(prepared)),
          },
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

/** A mask that a pass before the kernel has prepared; `prepares` is whether it shall, by default if that pays. */
function preparedMask(
  context: KernelContext,
  problem: Problem,
  prepares: boolean | undefined,
): PreparedMask | undefined {
  if (problem.mask === undefined) return undefined;
  const units = matrixUnits.get();
  return (prepares ?? units.preparesMask(problem)) ? units.prepareMask(context, problem) : undefined;
}

/** With the mask, if there is one, and what is known of its rows. */
function maskedBy(
  { mask }: Problem,
  prepared: PreparedMask | undefined,
  bindings: Readonly<Record<string, BufferRegion>>,
): Readonly<Record<string, BufferRegion>> {
  if (prepared !== undefined) return { ...bindings, mask: prepared.mask.region, attended: prepared.attended };
  return mask === undefined ? bindings : { ...bindings, mask: mask.region };
}

function programFor(
  { dtype, keyLength, headSize, visible, logSumExp, rows }: Problem,
  choice: DirectChoice,
  vector: boolean,
  isSplit: boolean,
  hiding: Hiding | undefined,
  isPrepared: boolean,
): Program {
  if (choice.kind === "thin" || choice.kind === "decode") {
    const form = { dtype, columns: columnsFor(headSize), hiding };
    return choice.kind === "thin"
      ? thinProgram(choice.variant.tile, form)
      : decodeProgram(choice.variant.tile, isSplit ? form : { ...form, whole: true });
  }
  const logs = logSumExp !== undefined && !isSplit;
  const apart = rows !== undefined;
  if (choice.kind === "tiled")
    return attentionProgram(choice.variant.tile, {
      dtype,
      vector,
      columns: choice.columns,
      results: isSplit ? "parts" : vector ? "quads" : "elements",
      ...{ logs, hiding, apart },
    });
  const { ROUGH_KEYS, attentionMatrixProgram } = matrixUnits.get();
  let weights: AttentionMatrixForm["weights"] = "mixed";
  // How many keys a mask leaves a row is known if a pass before has counted them.
  if (!isPrepared && (keyLength < ROUGH_KEYS || hiding?.mask !== undefined)) weights = "fine";
  else if (visible >= keyLength - 1 && hiding === undefined) weights = "rough";
  return attentionMatrixProgram(choice.variant.tile, {
    columns: choice.columns,
    whole: headSize === choice.columns,
    weights,
    results: isSplit ? "parts" : "halves",
    ...{ logs, hiding, apart },
  });
}
