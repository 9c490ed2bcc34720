import type { GemmProblem } from "@backplane/core";
import { WORKGROUP_SIZE } from "../../program/index.js";
import type { DeviceMemory, KernelContext } from "../../runtime/index.js";
import { UNIT } from "../tiles/index.js";
import { packProgram } from "./pack.wgsl.js";
import type { AlignedShape } from "./shape.js";
import { type StoredOperand, storedOperand } from "./stored.js";

type Problem = GemmProblem<DeviceMemory>;

/** An f16 operand with rows of whole, aligned units: itself if it has them, or a copy in scratch. */
export function inUnits(
  context: KernelContext,
  problem: Problem,
  { eightsA, eightsB }: AlignedShape,
  name: "a" | "b",
): StoredOperand {
  const stored = storedOperand(problem, name);
  if (name === "a" ? eightsA : eightsB) return stored;
  const { region, rows, columns, ld, step } = stored;
  const batch = step === 0 ? 1 : problem.batch;
  const perRow = Math.ceil(columns / UNIT);
  const units = batch * rows * perRow;
  const packed = context.scratch(16 * units);
  context.dispatch(
    packProgram,
    { source: region, packed },
    { rows, columns, pitch: ld, step, batch },
    Math.ceil(units / WORKGROUP_SIZE),
  );
  const packedLd = perRow * UNIT;
  return { region: packed, rows, columns, ld: packedLd, step: step === 0 ? 0 : rows * packedLd };
}
