import type { GemmProblem } from "@backplane/core";
import { WORKGROUP_SIZE } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import { UNIT } from "../tiles/index.js";
import { packProgram } from "./pack.wgsl.js";
import type { AlignedShape } from "./shape.js";
import { type StoredOperand, storedOperand } from "./stored.js";
import { TURN_SIDE, turnProgram } from "./turn.wgsl.js";

type Problem = GemmProblem<DeviceMemory>;

/**
 * An f16 operand with rows of whole, aligned units: itself if it has them, or a copy in scratch. If it `turns`, the
 * copy has rows and columns exchanged. That lies in `room`, if given.
 */
export function inUnits(
  context: KernelContext,
  problem: Problem,
  { eightsA, eightsB }: AlignedShape,
  name: "a" | "b",
  turns: boolean,
  room?: BufferRegion,
): StoredOperand {
  const stored = storedOperand(problem, name);
  if (turns) return turned(context, stored, problem.batch, room);
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

function turned(
  context: KernelContext,
  { region, rows, columns, ld, step }: StoredOperand,
  batch: number,
  room: BufferRegion | undefined,
): StoredOperand {
  const matrices = step === 0 ? 1 : batch;
  const units = Math.ceil(rows / UNIT);
  const packed = room ?? context.scratch(16 * matrices * columns * units);
  context.dispatch(
    turnProgram,
    { source: region, packed },
    { rows, columns, pitch: ld, step, matrices, units },
    matrices * Math.ceil(rows / TURN_SIDE) * Math.ceil(columns / TURN_SIDE),
  );
  const pitch = units * UNIT;
  return { region: packed, rows: columns, columns: rows, ld: pitch, step: step === 0 ? 0 : columns * pitch };
}
