/** How much of an operand is turned at once (see `inUnits`). */
import type { GemmProblem } from "@backplane/core";
import type { DeviceFeatures } from "../../device/index.js";
import type { DeviceMemory } from "../../runtime/index.js";
import { PARTIAL_SUM_BYTES, scratchBytes } from "../segments/index.js";
import { partOf } from "./segments.js";
import { storedOperand } from "./stored.js";

type Problem = GemmProblem<DeviceMemory>;

const stored = { a: "f16", b: "f16", c: "f16" } as const;

/** Most bytes of a copy that is made for speed alone: what sums of parts may take in any product. */
export function mostTurned(features: DeviceFeatures): number {
  return Math.min(PARTIAL_SUM_BYTES, scratchBytes(features));
}

/**
 * Cuts a product so that a copy of each piece's part of an operand takes about `most` bytes at most; the first needs as
 * much as any. Pieces of matrices have whole runs of `side` rows or columns, if there are as many.
 */
export function turnedPieces(
  problem: Problem,
  name: "a" | "b",
  side: number,
  most: number,
): readonly Problem[] {
  const { rows, columns, step } = storedOperand(problem, name);
  const matrices = step === 0 ? 1 : problem.batch;
  const excess = (2 * matrices * rows * columns) / most;
  if (excess <= 1) return [problem];
  const axis = matrices > 1 ? "batch" : name === "a" ? "m" : "n";
  const run = axis === "batch" ? 1 : side;
  const runs = Math.ceil(problem[axis] / run);
  const longest = Math.max(Math.floor(runs / excess), 1);
  const length = run * Math.ceil(runs / Math.ceil(runs / longest));
  if (length >= problem[axis]) return [problem];
  const pieces: Problem[] = [];
  for (let first = 0; first < problem[axis]; first += length) {
    const part = partOf(problem, stored, axis, first, Math.min(first + length, problem[axis]));
    pieces.push(...turnedPieces(part, name, side, most));
  }
  return pieces;
}
