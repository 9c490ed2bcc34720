import { dtypeBytes, type FloatType } from "@backplane/core";
import { floatLayouts } from "../../program/index.js";
import { workgroupsFor } from "../elementwise/index.js";
import {
  type Extents,
  groupsFor,
  planRegisters as planRowRegisters,
  type RegisterPlan,
  sharesWords,
  vectorFor,
} from "../rows/index.js";
import { type ApplyTile, LINES_APPLIED } from "./rows.wgsl.js";

/** The facts on which plans depend. */
export interface SoftmaxShape extends Extents {
  readonly dtype: FloatType;
  /** Where the regions begin. */
  readonly inputOffset: number;
  readonly outputOffset: number;
}

/** A pass that makes results of elements and pairs. */
export interface ApplyPlan extends Pick<ApplyTile, "form" | "vector"> {
  readonly inner: number;
  readonly workgroups: number;
}

/** The least columns that are worth a pass line by line. */
const MIN_COLUMNS = 16;

/** As for rows of any kind; see there. */
export function planRegisters(shape: SoftmaxShape): RegisterPlan | undefined {
  return planRowRegisters(shape.dtype, shape, [shape.inputOffset, shape.outputOffset]);
}

export function planApply(shape: SoftmaxShape): ApplyPlan {
  const { dtype, outer, length, inner, inputOffset, outputOffset } = shape;
  const offsets = [inputOffset, outputOffset];
  const vector = vectorFor(dtype, inner, offsets);
  if (inner >= MIN_COLUMNS && !sharesWords(dtype, vector)) {
    const invocations = outer * Math.ceil(length / LINES_APPLIED) * (inner / vector);
    return { form: "lines", vector, inner: inner / vector, workgroups: groupsFor(invocations, 1) };
  }
  const count = outer * length * inner;
  // Elements that fill a word may end between two vectors.
  const wide = vectorFor(dtype, floatLayouts[dtype].perWord === 1 ? 4 : count, offsets) === 4;
  const region = { byteOffset: outputOffset, byteLength: count * dtypeBytes[dtype] };
  const workgroups = wide ? groupsFor(Math.ceil(count / 4), 1) : workgroupsFor(false, region);
  return { form: "flat", vector: wide ? 4 : 1, inner, workgroups };
}
