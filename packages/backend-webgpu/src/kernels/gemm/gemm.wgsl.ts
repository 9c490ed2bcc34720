import { floatLayouts, memoized, type Program, program, wgsl, workgroupIndex } from "../../program/index.js";
import { epilogueName, storesInLoops } from "../epilogue.wgsl.js";
import {
  matrixStage,
  operandText,
  type ProductTile,
  productSource,
  quadAccess,
  tileInBands,
  tileName,
} from "../tiles/index.js";
import { type ResultForm, resultParameters, resultText } from "./results.wgsl.js";
import { type Block, wideBinding, wideParameters, wideText } from "./split/wide.wgsl.js";

/** The properties that a tiled kernel is generated for, besides its tile; sizes are parameters. */
export interface GemmForm extends ResultForm {
  readonly transA: boolean;
  readonly transB: boolean;
  /** Every run of four along the rows of the stored A (or B) is whole and aligned to four elements. */
  readonly vectorA: boolean;
  readonly vectorB: boolean;
  /** Computes only the results in wide blocks of this size: those that `enqueueSplit` leaves. */
  readonly onlyWide?: Block;
}

export const operandParameters = {
  a_pitch: "u32",
  a_step: "u32",
  b_pitch: "u32",
  b_step: "u32",
  k: "u32",
  /** The sum over k is cut into parts of this length, each to a result of its own. */
  part_depth: "u32",
  batch: "u32",
} as const;

/**
 * Finds the tile of a workgroup: `result`, which counts parts of k and matrices, `rowBase` and `columnBase`,
 * the part of k from `depthStart` to `k`, and the start of each matrix. Workgroups without a tile end.
 */
export const tilePrologue: string = wgsl`
  let tiles_across = (parameters.n + COLUMNS - 1u) / COLUMNS;
  let tiles = tiles_across * ((parameters.m + ROWS - 1u) / ROWS);
  let parts = (parameters.k + parameters.part_depth - 1u) / parameters.part_depth;
  let group = workgroup_index(workgroup, workgroups);
  if (group >= tiles * parts * parameters.batch) { return; }
  let result = group / tiles; // part * batch + matrix
  let matrix = result % parameters.batch;
  let depthStart = result / parameters.batch * parameters.part_depth;
  let k = min(parameters.k, depthStart + parameters.part_depth);
${tileInBands}
  let a_base = parameters.a_offset * a_unit + matrix * parameters.a_step;
  let b_base = parameters.b_offset * b_unit + matrix * parameters.b_step;`;

export function formName(form: GemmForm): string {
  const operand = (name: string, trans: boolean, vector: boolean) =>
    `${name}${trans ? "t" : ""}${vector ? "4" : ""}`;
  return [
    form.dtype,
    operand("a", form.transA, form.vectorA) + operand("b", form.transB, form.vectorB),
    ...(form.target === "scratch" ? [form.readsC ? "scratch_c" : "scratch"] : []),
    ...(form.vectorC ? ["c4"] : []),
    ...(form.sumsOnly ? ["sums"] : []),
    ...(form.onlyWide ? ["wide"] : []),
  ]
    .join("_")
    .concat(epilogueName(form));
}

/** C[i] = alpha * op(A[i]) * op(B[i]) + beta * C[i], one workgroup per tile of a C. Workgroups: `tiledGroups`. */
export const tiledProgram: (tile: ProductTile, form: GemmForm) => Program = memoized(
  (tile: ProductTile, form: GemmForm): Program => {
    const a = operandText("a", form.dtype, form.vectorA); // m x k, or k x m if transA
    const b = operandText("b", form.dtype, form.vectorB); // k x n, or n x k if transB
    const result = resultText(form);
    const { onlyWide } = form;
    const stage = (name: "a" | "b", trans: boolean, vector: boolean) =>
      matrixStage(tile, {
        side: name === "a" ? "left" : "right",
        contiguousDepth: name === "a" ? !trans : trans,
        vector,
        load1: `${name}_load1`,
        quad: quadAccess(name, form.dtype),
        base: `${name}_base`,
        pitch: `parameters.${name}_pitch`,
        extent: name === "a" ? "parameters.m" : "parameters.n",
      });
    return program({
      name: `gemm_${tileName(tile)}_${formName(form)}`,
      bindings: { a: a.storage, b: b.storage, ...result.bindings, ...(onlyWide ? wideBinding : {}) },
      parameters: { ...resultParameters, ...operandParameters, ...(onlyWide ? wideParameters : {}) },
      uniform: true,
      body: productSource({
        tile,
        declarations: [workgroupIndex, floatLayouts[form.dtype].functions, a.functions, b.functions]
          .concat(result.functions, onlyWide ? wideText(onlyWide) : "")
          .join(""),
        prologue: `${tilePrologue}${onlyWide ? "\n  if (!is_wide(matrix, rowBase, columnBase)) { return; }" : ""}`,
        left: stage("a", form.transA, form.vectorA),
        right: stage("b", form.transB, form.vectorB),
        store: (row, column, quad) => `store_quad(result, ${row}, ${column}, ${quad});`,
        storesInLoop: storesInLoops(form),
      }),
    });
  },
);
