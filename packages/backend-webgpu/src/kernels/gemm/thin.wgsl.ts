import { memoized, type Program, program } from "../../program.js";
import { halfFunctions, linearBuiltins, wgsl, workgroupIndex } from "../../wgsl.js";
import { lines } from "./lines.js";
import { operandText, type ResultForm, resultParameters, resultText } from "./operands.wgsl.js";

/**
 * A product with at most a few rows or columns: the other operand is `wide` and read once. A workgroup
 * computes `span` places along it, with `lanes` invocations that share the sum over k and add their
 * parts as a tree, always in the same order.
 */
export interface ThinTile {
  /** Invocations side by side along the wide operand. */
  readonly span: number;
  readonly lanes: number;
}

export interface ThinForm extends ResultForm {
  /** The operand that is read once; the other has at most `vectors` rows or columns. */
  readonly wide: "a" | "b";
  readonly vectors: 1 | 2 | 4;
  /** True: consecutive k lie next to each other in the wide operand. False: consecutive places do. */
  readonly contiguousDepth: boolean;
  /** Every run of four in that direction is whole and aligned to four elements. */
  readonly vector: boolean;
}

/** Places along the wide operand that one workgroup computes. */
export function thinSpan(tile: ThinTile, form: ThinForm): number {
  return form.vector && !form.contiguousDepth ? 4 * tile.span : tile.span;
}

export const thinProgram: (tile: ThinTile, form: ThinForm) => Program = memoized(
  (tile: ThinTile, form: ThinForm): Program => {
    const { vectors, contiguousDepth, vector } = form;
    const wide = operandText("wide", form.dtype, vector); // places x k, or k x places
    const thin = operandText("thin", form.dtype, false); // vectors x k in any order
    const result = resultText(form);
    const each = (line: (t: number) => string) => lines(vectors, line);
    const type = vector ? "vec4f" : "f32";
    const load = vector ? "wide_load4" : "wide_load1";
    const quadOfPlaces = vector && !contiguousDepth;
    const perStep = vector && contiguousDepth ? 4 : 1;

    const thinAt = (t: number, offset: number) =>
      `thin_load1(thin_${t} + (depth + ${offset}u) * parameters.thin_depth)`;
    const factor = (t: number) =>
      perStep === 4 ? `vec4f(${[0, 1, 2, 3].map((i) => thinAt(t, i)).join(", ")})` : thinAt(t, 0);
    const storeAt = (t: number, place: string, sum: string) =>
      form.wide === "b"
        ? `store(result, ${t}u, ${place}, ${sum});`
        : `store(result, ${place}, ${t}u, ${sum});`;
    const storeOne = (t: number) => {
      const total = `partial[${t * tile.span * tile.lanes}u + lane]`;
      if (quadOfPlaces)
        return wgsl`    if (${t}u < parameters.vectors) {
      let total = ${total};
      ${["x", "y", "z", "w"].map((c, i) => storeAt(t, `place + ${i}u`, `total.${c}`)).join("\n      ")}
    }`;
      const value = type === "vec4f" ? `dot4(${total})` : total;
      return `    if (${t}u < parameters.vectors) { ${storeAt(t, "place", value)} }`;
    };

    const order = contiguousDepth ? "k" : "places";
    const name = `thin_${tile.span}x${tile.lanes}_${form.wide}${vectors}_${order}${vector ? 4 : ""}`;
    return program({
      name: `gemm_${name}_${form.dtype}${form.target === "scratch" ? "_scratch" : ""}${form.readsC ? "_c" : ""}`,
      bindings: { wide: wide.storage, thin: thin.storage, ...result.bindings },
      parameters: {
        ...resultParameters,
        wide_pitch: "u32",
        wide_step: "u32",
        /** Elements from one vector of the thin operand to the next, and from one k to the next. */
        thin_pitch: "u32",
        thin_depth: "u32",
        thin_step: "u32",
        places: "u32",
        vectors: "u32",
        k: "u32",
        part_depth: "u32",
        batch: "u32",
      },
      body: wgsl`
${workgroupIndex}
${form.dtype === "f16" ? halfFunctions : ""}
${wide.functions}
${thin.functions}
${result.functions}
const SPAN = ${tile.span}u; // invocations side by side
const LANES = ${tile.lanes}u; // invocations that share one sum
const PLACES = ${thinSpan(tile, form)}u; // results along the wide operand, per workgroup and vector

var<workgroup> partial: array<${type}, ${vectors}u * SPAN * LANES>; // vectors x SPAN x LANES in some order

fn dot4(v: vec4f) -> f32 { return (v.x + v.y) + (v.z + v.w); }

// One invocation sums every LANES-th step of k for ${quadOfPlaces ? "four places" : "one place"} and all vectors.
@compute @workgroup_size(${tile.span * tile.lanes})
fn main(${linearBuiltins}) {
  let spans = (parameters.places + PLACES - 1u) / PLACES;
  let parts = (parameters.k + parameters.part_depth - 1u) / parameters.part_depth;
  let group = workgroup_index(workgroup, workgroups);
  if (group >= spans * parts * parameters.batch) { return; }
  let result = group / spans; // part * batch + matrix
  let matrix = result % parameters.batch;
  let start = result / parameters.batch * parameters.part_depth;
  let k = min(parameters.k, start + parameters.part_depth);
  ${
    contiguousDepth
      ? "let slice = lane % LANES; // neighbours read neighbouring k\n  let across = lane / LANES;"
      : "let slice = lane / SPAN;\n  let across = lane % SPAN; // neighbours read neighbouring places"
  }
  let place = group % spans * PLACES + across${quadOfPlaces ? " * 4u" : ""};
  let wide_base = parameters.wide_offset * wide_unit + matrix * parameters.wide_step;
  let wide_at = wide_base + min(place, parameters.places - ${quadOfPlaces ? 4 : 1}u)${contiguousDepth ? " * parameters.wide_pitch" : ""};
  let thin_base = parameters.thin_offset * thin_unit + matrix * parameters.thin_step;
${each((t) => `  let thin_${t} = thin_base + min(${t}u, parameters.vectors - 1u) * parameters.thin_pitch;`)}
${each((t) => `  var sum_${t} = ${type}();`)}
  for (var depth = start + slice * ${perStep}u; depth < k; depth += LANES * ${perStep}u) {
    let value = ${load}(wide_at + depth${contiguousDepth ? "" : " * parameters.wide_pitch"});
${each((t) => `    sum_${t} += value * ${factor(t)};`)}
  }
${each((t) => `  partial[${t * tile.span * tile.lanes}u + lane] = sum_${t};`)}
  for (var half = LANES / 2u; half > 0u; half >>= 1u) {
    workgroupBarrier();
    if (slice < half) {
      let other = lane + half${contiguousDepth ? "" : " * SPAN"};
${each((t) => `      partial[${t * tile.span * tile.lanes}u + lane] += partial[${t * tile.span * tile.lanes}u + other];`)}
    }
  }
  if (slice == 0u && place < parameters.places) {
${each(storeOne)}
  }
}
`,
    });
  },
);
