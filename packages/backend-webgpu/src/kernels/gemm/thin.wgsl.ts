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
import { epilogueName, storesInLoops } from "../epilogue.wgsl.js";
import { operandText } from "../tiles/index.js";
import { type ResultForm, resultParameters, resultText } from "./results.wgsl.js";

/**
 * A product with at most a few rows or columns: the other operand is `wide` and read once. A workgroup
 * has `span` invocations along it, with `lanes` neighbours each that share the sum over k and add their
 * parts as a tree, always in the same order.
 */
export interface ThinTile {
  /** Invocations side by side along the wide operand. */
  readonly span: number;
  readonly lanes: number;
  /** Places that one invocation computes if consecutive k are next to each other. */
  readonly places: number;
}

/** Few numbers, because each makes another program to compile. */
const vectorCounts = [1, 2, 4, 8, 16] as const;
export type ThinVectors = (typeof vectorCounts)[number];

/** The vectors that a kernel for at least so many computes. */
export function thinVectors(count: number): ThinVectors {
  return vectorCounts.find((vectors) => vectors >= count)!;
}

export interface ThinForm extends ResultForm {
  /** The operand that is read once; the other has at most `vectors` rows or columns. */
  readonly wide: "a" | "b";
  readonly vectors: ThinVectors;
  /** True: consecutive k lie next to each other in the wide operand. False: consecutive places do. */
  readonly contiguousDepth: boolean;
  /** Every run of four in that direction is whole and aligned to four elements. */
  readonly vector: boolean;
  /** The same of the thin operand, of runs along k. */
  readonly thinVector: boolean;
}

type SpanForm = Pick<ThinForm, "contiguousDepth" | "vector">;

/** Places along the wide operand that one invocation computes. */
function placesEach({ places }: ThinTile, { contiguousDepth, vector }: SpanForm): number {
  if (contiguousDepth) return places;
  return vector ? 4 : 1;
}

/** Places along the wide operand that one workgroup computes. */
export function thinSpan(tile: ThinTile, form: SpanForm): number {
  return tile.span * placesEach(tile, form);
}

/** Bytes of workgroup memory for partial sums; more of them are added one after another. */
export const THIN_BYTES = 16_384;

const QUAD = [0, 1, 2, 3] as const;

export const thinProgram: (tile: ThinTile, form: ThinForm) => Program = memoized(
  (tile: ThinTile, form: ThinForm): Program => {
    const { vectors, contiguousDepth, vector, thinVector } = form;
    const { span, lanes } = tile;
    const wide = operandText("wide", form.dtype, vector); // places x k, or k x places
    const thin = operandText("thin", form.dtype, thinVector); // vectors x k in any order
    const result = resultText(form);
    const each = (line: (t: number) => string) => lines(vectors, line);
    const quadOfPlaces = vector && !contiguousDepth;
    const type = quadOfPlaces ? "vec4f" : "f32";
    const rows = contiguousDepth ? tile.places : 1;
    const sums = Array.from({ length: vectors * rows }, (_, i) => ({
      vector: Math.floor(i / rows),
      row: i % rows,
      name: `sum_${Math.floor(i / rows)}_${i % rows}`,
    }));

    const thinOne = (t: number, depth: string) =>
      `thin_load1(thin_${t} + (${depth}) * parameters.thin_depth)`;
    const thinQuad = (t: number) =>
      thinVector
        ? `thin_load4(thin_${t} + depth)`
        : `vec4f(${QUAD.map((i) => thinOne(t, `depth + ${i}u`)).join(", ")})`;
    const wideOne = (row: number, depth: string) =>
      contiguousDepth
        ? `wide_load1(wide_${row} + ${depth})`
        : `${vector ? "wide_load4" : "wide_load1"}(wide_0 + (${depth}) * parameters.wide_pitch)`;
    const wideQuad = (row: number) =>
      vector
        ? `wide_load4(wide_${row} + depth)`
        : `vec4f(${QUAD.map((i) => wideOne(row, `depth + ${i}u`)).join(", ")})`;
    // Four steps of k: all loads first, so that they are under way together.
    const quad = contiguousDepth
      ? [
          lines(rows, (row) => `    let value_${row} = ${wideQuad(row)};`),
          each((t) => `    let factor_${t} = ${thinQuad(t)};`),
          ...QUAD.map((i) =>
            sums.map((s) => `    ${s.name} += value_${s.row}[${i}] * factor_${s.vector}[${i}];`).join("\n"),
          ),
        ]
      : [
          lines(4, (i) => `    let value_${i} = ${wideOne(0, `depth + ${i}u`)};`),
          each((t) => `    let factor_${t} = ${thinQuad(t)};`),
          ...QUAD.map((i) => each((t) => `    sum_${t}_0 += value_${i} * factor_${t}[${i}];`)),
        ];
    // Whole rows of fours along k leave nothing over.
    const hasRest = !thinVector && !(vector && contiguousDepth);
    const rest = hasRest
      ? wgsl`
  for (var depth = whole + slice; depth < k; depth += LANES) {
${lines(rows, (row) => `    let value_${row} = ${wideOne(row, "depth")};`)}
${each((t) => `    let factor_${t} = ${thinOne(t, "depth")};`)}
${sums.map((s) => `    ${s.name} += value_${s.row} * factor_${s.vector};`).join("\n")}
  }`
      : "";

    const storeAt = (t: number, place: string, sum: string) =>
      form.wide === "b"
        ? `store(result, ${t}u, ${place}, ${sum});`
        : `store(result, ${place}, ${t}u, ${sum});`;
    const storeSum = (i: number, total: string) => {
      const { vector: t, row } = sums[i]!;
      const place = `place + ${row}u`;
      const stores = quadOfPlaces
        ? QUAD.map((j) => storeAt(t, `place + ${j}u`, `${total}[${j}]`))
        : [storeAt(t, place, total)];
      return `    if (${t}u < parameters.vectors && ${place} < parameters.places) {\n      ${stores.join("\n      ")}\n    }`;
    };
    /** The same for all sums of a round. */
    const storeInLoop = (first: number, count: number) => wgsl`    for (var i = 0u; i < ${count}u; i++) {
      let vector = (i + ${first}u) / ${rows}u;
      let at = place + (i + ${first}u) % ${rows}u;
      let total = partial[i * ${span * lanes}u + lane];
      if (vector < parameters.vectors && at < parameters.places) {
        ${quadOfPlaces ? `for (var j = 0u; j < 4u; j++) { ${storeIn("at + j", "total[j]")} }` : storeIn("at", "total")}
      }
    }`;
    const storeIn = (place: string, sum: string) =>
      form.wide === "b"
        ? `store(result, vector, ${place}, ${sum});`
        : `store(result, ${place}, vector, ${sum});`;
    const perRound = Math.min(sums.length, THIN_BYTES / (span * lanes * (quadOfPlaces ? 16 : 4)));
    const round = (first: number) => {
      const count = Math.min(perRound, sums.length - first);
      return wgsl`
${first > 0 ? "  workgroupBarrier();" : ""}
${lines(count, (i) => `  partial[${i * span * lanes}u + lane] = ${sums[first + i]!.name};`)}
  for (var half = LANES / 2u; half > 0u; half >>= 1u) {
    workgroupBarrier();
    if (slice < half) {
      let other = lane + half${contiguousDepth ? "" : " * SPAN"};
${lines(count, (i) => `      partial[${i * span * lanes}u + lane] += partial[${i * span * lanes}u + other];`)}
    }
  }
  if (slice == 0u) {
${storesInLoops(form) ? storeInLoop(first, count) : lines(count, (i) => storeSum(first + i, `partial[${i * span * lanes}u + lane]`))}
  }`;
    };
    const rounds = Array.from({ length: Math.ceil(sums.length / perRound) }, (_, i) => round(i * perRound));

    const order = contiguousDepth ? `k${rows}` : "places";
    const name = `thin_${span}x${lanes}_${form.wide}${vectors}${thinVector ? "v" : ""}_${order}${vector ? "v" : ""}`;
    return program({
      name: `gemm_${name}_${form.dtype}${form.target === "scratch" ? "_scratch" : ""}${form.readsC ? "_c" : ""}${epilogueName(form)}`,
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
${floatLayouts[form.dtype].functions}
${wide.functions}
${thin.functions}
${result.functions}
const SPAN = ${span}u; // invocations side by side
const LANES = ${lanes}u; // invocations that share one sum
const PLACES = ${thinSpan(tile, form)}u; // results along the wide operand, per workgroup and vector

var<workgroup> partial: array<${type}, ${perRound}u * SPAN * LANES>; // sums x SPAN x LANES in some order

// One invocation sums every LANES-th quad of k for ${placesEach(tile, form)} places and all vectors.
@compute @workgroup_size(${span * lanes})
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
  let place = group % spans * PLACES + across * ${placesEach(tile, form)}u;
  let wide_base = parameters.wide_offset * wide_unit + matrix * parameters.wide_step;
${
  contiguousDepth
    ? lines(
        rows,
        (row) =>
          `  let wide_${row} = wide_base + min(place + ${row}u, parameters.places - 1u) * parameters.wide_pitch;`,
      )
    : `  let wide_0 = wide_base + min(place, parameters.places - ${vector ? 4 : 1}u);`
}
  let thin_base = parameters.thin_offset * thin_unit + matrix * parameters.thin_step;
${each((t) => `  let thin_${t} = thin_base + min(${t}u, parameters.vectors - 1u) * parameters.thin_pitch;`)}
${sums.map(({ name }) => `  var ${name} = ${type}();`).join("\n")}
  let whole = k - (k - start) % 4u;
  for (var depth = start + slice * 4u; depth < whole; depth += LANES * 4u) {
${quad.join("\n")}
  }${rest}
${rounds.join("\n")}
}
`,
    });
  },
);
