import { memoized, type Program, program } from "../../program.js";
import { halfFunctions, linearBuiltins, wgsl, workgroupIndex } from "../../wgsl.js";
import { storesInLoops } from "../epilogue.wgsl.js";
import { formName, type GemmForm, operandParameters, tilePrologue } from "./gemm.wgsl.js";
import { lines } from "./lines.js";
import { operandText, quadAccess, resultParameters, resultText } from "./operands.wgsl.js";
import {
  accumulators,
  leftTile,
  outerProduct,
  storedResults,
  tileConstants,
  tilePlace,
} from "./product.wgsl.js";
import { matrixStage } from "./stage.wgsl.js";
import { type ProductTile, tileName } from "./tile.js";

/**
 * C[i] = alpha * op(A[i]) * B[i] + beta * C[i] for a few rows: the rows of op(A) are staged in workgroup
 * memory as in the tiled product, and B goes straight from memory to the registers of the invocations
 * that have its columns, four each. Each register is filled for the next step of `depth` as soon as it was
 * used, so that loads are always under way.
 */
export const streamedProgram: (tile: ProductTile, form: GemmForm) => Program = memoized(
  (tile: ProductTile, form: GemmForm): Program => {
    const half = form.dtype === "f16";
    const a = operandText("a", form.dtype, form.vectorA); // m x k, or k x m if transA
    const b = operandText("b", form.dtype, true); // k x n
    const result = resultText(form);
    const left = matrixStage(tile, {
      ...{ side: "left", contiguousDepth: !form.transA, vector: form.vectorA },
      ...{ load1: "a_load1", quad: quadAccess("a", form.dtype) },
      ...{ base: "a_base", pitch: "parameters.a_pitch", extent: "parameters.m" },
    });
    const { type, load, unpacked } = quadAccess("b", form.dtype);
    const each = (line: (step: number) => string) => lines(tile.depth, line);
    const fill = (step: number) =>
      `streamed_${step} = ${load}(column_at + min(depthBase + ${step}u, k - 1u) * parameters.b_pitch);`;
    const zeroPast = wgsl`  if (depthBase + DEPTH > k) {
${each((step) => `    if (depthBase + ${step}u >= k) { streamed_${step} = ${type}(); }`)}
  }`;
    return program({
      name: `gemm_streamed_${tileName(tile)}_${formName(form)}`,
      bindings: { a: a.storage, b: b.storage, ...result.bindings },
      parameters: { ...resultParameters, ...operandParameters },
      uniform: true,
      body: wgsl`
${workgroupIndex}
${half ? halfFunctions : ""}
${a.functions}
${b.functions}
${result.functions}
// One workgroup computes ROWS x COLUMNS results, one invocation ${tile.threadRows} x 4 of them.
${tileConstants(tile)}

var<workgroup> leftTile: array<vec4f, DEPTH * LEFT_PITCH>; // DEPTH rows of ROWS values, padded

@compute @workgroup_size(THREADS)
fn main(${linearBuiltins}) {
${tilePrologue}
${tilePlace(tile)}
  let column_at = b_base + min(columnBase + threadColumn * 4u, parameters.n - 4u);
${accumulators(tile, "sum")}
${left.prepare}
  var depthBase = depthStart;
${each((step) => `  var ${fill(step)}`)}
${zeroPast}
${left.load}
  loop {
${left.store}
    workgroupBarrier();
    depthBase += DEPTH;
    if (depthBase + DEPTH <= k) {
${left.loadWhole}
    } else if (depthBase < k) {
${left.load}
    }
${each(
  (step) => `${outerProduct({
    ...{ tile, sum: "sum", step: `${step}u`, left: leftTile, leftPitch: "LEFT_PITCH" },
    ...{ right: () => unpacked(`streamed_${step}`), rightPitch: "0u" },
  })}
    ${fill(step)}`,
)}
    if (depthBase >= k) { break; }
${zeroPast}
    workgroupBarrier();
  }
${storedResults(tile, storesInLoops(form), (row, column, quad) => `store_quad(result, ${row}, ${column}, ${quad});`)}
}
`,
    });
  },
);
