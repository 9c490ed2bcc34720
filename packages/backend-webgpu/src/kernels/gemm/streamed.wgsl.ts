import {
  floatLayouts,
  linearBuiltins,
  lines,
  memoized,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { storesInLoops } from "../epilogue.wgsl.js";
import {
  accumulators,
  leftTile,
  matrixStage,
  operandText,
  outerProduct,
  type ProductTile,
  quadAccess,
  storedResults,
  tileConstants,
  tileName,
  tilePlace,
  tileThreads,
} from "../tiles/index.js";
import { formName, type GemmForm, operandParameters, tilePrologue } from "./gemm.wgsl.js";
import { resultParameters, resultText } from "./results.wgsl.js";

/** A tile whose right operand is not staged; `depth` is that of the left one. */
export interface StreamedTile extends ProductTile {
  /** Rows of B that an invocation reads before it uses the first; divides `depth`, and is at most k. */
  readonly window: number;
}

/**
 * C[i] = alpha * op(A[i]) * B[i] + beta * C[i] for a few rows. The rows of op(A) are staged in workgroup
 * memory as in the tiled product, and B goes straight from memory to the registers of the invocations that
 * have its columns. Each register is filled for the next window as soon as it was used, so that loads are
 * always under way; a step of `depth` is several windows, so that there are few barriers.
 */
export const streamedProgram: (tile: StreamedTile, form: GemmForm) => Program = memoized(
  (tile: StreamedTile, form: GemmForm): Program => {
    const a = operandText("a", form.dtype, form.vectorA); // m x k, or k x m if transA
    const b = operandText("b", form.dtype, true); // k x n
    const result = resultText(form);
    const left = matrixStage(tile, {
      ...{ side: "left", contiguousDepth: !form.transA, vector: form.vectorA },
      ...{ load1: "a_load1", quad: quadAccess("a", form.dtype) },
      ...{ base: "a_base", pitch: "parameters.a_pitch", extent: "parameters.m" },
    });
    const { type, load, unpacked } = quadAccess("b", form.dtype);
    const { window } = tile;
    const quads = tile.threadColumns / 4;
    const { across } = tileThreads(tile);
    const register = (step: number, quad: number) => `streamed_${step}_${quad}`;
    const each = (line: (step: number) => string) => lines(window, line);
    const perQuad = (line: (quad: number) => string) => lines(quads, line);
    const fill = (step: number) =>
      perQuad(
        (quad) =>
          `    ${register(step, quad)} = ${load}(filled + ${step}u * parameters.b_pitch + column_${quad});`,
      );
    const product = (at: string, right: (quad: number) => string) =>
      outerProduct({
        ...{ tile, sum: "sum", step: at, left: leftTile(0), leftPitch: "LEFT_PITCH" },
        ...{ right: (_, quad) => unpacked(right(quad)), rightPitch: "0u" },
      });
    return program({
      name: `gemm_streamed_${tileName(tile)}_${formName(form)}`,
      bindings: { a: a.storage, b: b.storage, ...result.bindings },
      parameters: { ...resultParameters, ...operandParameters },
      uniform: true,
      body: wgsl`
${workgroupIndex}
${floatLayouts[form.dtype].functions}
${a.functions}
${b.functions}
${result.functions}
// One workgroup computes ROWS x COLUMNS results, one invocation ${tile.threadRows} x ${tile.threadColumns} of them.
${tileConstants(tile)}
const WINDOW = ${window}u; // rows of B in registers

var<workgroup> leftTile: array<vec4f, DEPTH * LEFT_PITCH>; // DEPTH rows of ROWS values, padded

@compute @workgroup_size(THREADS)
fn main(${linearBuiltins}) {
${tilePrologue}
${tilePlace(tile)}
${perQuad((quad) => `  let column_${quad} = b_base + min(columnBase + (threadColumn + ${quad * across}u) * 4u, parameters.n - 4u);`)}
${accumulators(tile, "sum")}
${left.prepare}
  var depth = depthStart; // of the window
  var depthBase = depthStart; // of what is staged
  // Where no window is left, rows that exist are read instead, and not used: a condition would hold up the loads.
  var filled = min(depth, k - WINDOW) * parameters.b_pitch;
${each((step) => perQuad((quad) => `  var ${register(step, quad)} = ${type}();`))}
${each(fill)}
${left.load}
  loop {
${left.store(0)}
    workgroupBarrier();
    depthBase += DEPTH;
    if (depthBase + DEPTH <= k) {
${left.loadWhole}
    } else if (depthBase < k) {
${left.load}
    }
    for (var part = 0u; part < DEPTH / WINDOW; part++) {
      if (depth + WINDOW > k) { break; }
      depth += WINDOW;
      filled = min(depth, k - WINDOW) * parameters.b_pitch;
${each((step) => `${product(`part * WINDOW + ${step}u`, (quad) => register(step, quad))}\n${fill(step)}`)}
    }
    if (depthBase >= k) { break; }
    workgroupBarrier();
  }
  // The rows of B after the last whole window, one by one.
  for (let staged = depthBase - DEPTH; depth < k; depth++) {
${perQuad((quad) => `    let rest_${quad} = ${load}(depth * parameters.b_pitch + column_${quad});`)}
${product("depth - staged", (quad) => `rest_${quad}`)}
  }
${storedResults(tile, storesInLoops(form), (row, column, quad) => `store_quad(result, ${row}, ${column}, ${quad});`)}
}
`,
    });
  },
);
