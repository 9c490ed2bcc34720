import type { NormalizeKind } from "@backplane/core";
import {
  input,
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  type Storage,
  WORKGROUP_SIZE,
  wgsl,
} from "../../program/index.js";
import {
  across,
  guardedLoads,
  type LaneCount,
  placeInGroup,
  plus,
  sharedResult,
  sharing,
  storageOf,
  storeFunction,
  tree,
  typeOf,
  type Vector,
  type Words,
  wordsOf,
} from "../rows/index.js";
import {
  type Data,
  dataBindings,
  dataReads,
  nameOf,
  type RegisterTile,
  resultOf,
  storeSums,
} from "./text.wgsl.js";

export type RegisterBinding = Data | "mean" | "inverse" | "output" | "weight_sums" | "bias_sums";
export type RegisterParameter = "rows" | "length" | "size" | "epsilon" | "turns";

/**
 * One pass: rows are read into registers, and results written. A workgroup does `turns` times `SLOTS` rows, one after the
 * other, and leaves the sums of their columns.
 */
export function registerProgram(tile: RegisterTile): Program<RegisterBinding, RegisterParameter> {
  const { kind, dtype, vector, lanes, values, weight, given, sums } = tile;
  const isLayer = kind === "layer";
  const type = typeOf(vector);
  const words = wordsOf(dtype, type);
  const data: readonly Data[] = weight ? ["x", "dy", "weight"] : ["x", "dy"];
  const bindings = dataBindings(tile, data);
  if (given && isLayer) bindings.mean = input("f32");
  if (given) bindings.inverse = input("f32");
  bindings.output = output(storageOf(dtype, vector));
  if (sums) Object.assign(bindings, { weight_sums: output("f32"), bias_sums: output("f32") });
  const place = (i: number) => `reducer + ${i}u * LANES`;
  const at = (i: number) => `first + ${place(i)}`;
  const loaded = { count: values, words };
  const text: RowText = {
    values,
    vector,
    words,
    isThere: (i) => `${place(i)} < length`,
    total: (term) =>
      across(
        type,
        tree(
          Array.from({ length: values }, (_, i) => term(i)),
          plus,
        ),
        plus,
      ),
  };
  const { isThere, total } = text;
  const g = (i: number) => (weight ? `(dy_${i} * weight_${i})` : `dy_${i}`);
  const result = (i: number) => resultOf(kind, g(i), `h_${i}`, "means.x", "means.y", "scale");
  const zero = `${type.f}(0.0)`;
  const forms = `${given ? "_given" : ""}${sums ? "_sums" : ""}${nameOf(tile)}`;
  return program({
    name: `normalize_gradient_${kind}_rows_${dtype}_${vector}_${lanes}x${values}${forms}`,
    bindings: bindings as Record<RegisterBinding, Storage>,
    parameters: { rows: "u32", length: "u32", size: "u32", epsilon: "f32", turns: "u32" },
    body: wgsl`
${dataReads(tile, data)}
${storeFunction(dtype, type)}
${sharing("length", lanes)}
${given ? "" : meetings[kind](lanes)}
${sharedResult("sums_of", plus, typeOf(2), lanes)}
${sums ? acrossSlots(type.f) : ""}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  ${placeInGroup("length")}
  let group = workgroup_index(workgroup, workgroups);
  let count = f32(parameters.size);
${weight ? guardedLoads({ ...loaded, names: ["weight"], isThere: (i) => `${place(i)} < parameters.length`, at: place }) : ""}
${sums ? lines(values, (i) => `  var weight_sum_${i} = ${zero};\n  var bias_sum_${i} = ${zero};`) : ""}
  for (var turn = 0u; turn < parameters.turns; turn++) {
    let row = (group * parameters.turns + turn) * SLOTS + slot;
    let length = select(0u, parameters.length, row < parameters.rows);
    let first = row * parameters.length;
${guardedLoads({ ...loaded, names: ["x", "dy"], isThere, at })}
${lines(values, (i) => `    var h_${i} = x_${i};`)}
${given ? givenStatistics(kind, text) : computedStatistics[kind](text)}
    let shares = vec2<f32>(${total(g)}, ${total((i) => `(${g(i)} * h_${i})`)});
    let means = sums_of(slot, reducer, shares) / count;
${lines(values, (i) => `    if (${isThere(i)}) { store(${at(i)}, ${result(i)}); }`)}
${sums ? lines(values, (i) => `    weight_sum_${i} += dy_${i} * h_${i};\n    bias_sum_${i} += dy_${i};`) : ""}
${lanes > 1 ? "    workgroupBarrier(); // before the next row meets where this one did" : ""}
  }
${
  sums
    ? lines(
        values,
        (i) => `  let weight_total_${i} = across_slots(slot, reducer, weight_sum_${i});
  let bias_total_${i} = across_slots(slot, reducer, bias_sum_${i});
  if (slot == 0u && ${place(i)} < parameters.length) {
    ${storeSums("weight_sums", type, "group", place(i), `weight_total_${i}`)}
    ${storeSums("bias_sums", type, "group", place(i), `bias_total_${i}`)}
  }`,
      )
    : ""
}
}
`,
  });
}

/** Joins what the rows of a workgroup have in the same column, as a tree; the first of them gets the result. */
function acrossSlots(type: string): string {
  return wgsl`
var<workgroup> columns: array<${type}, ${WORKGROUP_SIZE}>;

fn across_slots(slot: u32, reducer: u32, own: ${type}) -> ${type} {
  if (SLOTS == 1u) { return own; }
  let at = slot * LANES + reducer;
  columns[at] = own;
  for (var half = SLOTS / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (slot < half) { columns[at] += columns[at + half * LANES]; }
  }
  let result = columns[at];
  workgroupBarrier();
  return result;
}`;
}

/** What the texts of statistics need, which make h_i of the x that it holds, and r as `scale`. */
interface RowText {
  readonly values: number;
  readonly vector: Vector;
  readonly words: Words;
  isThere(i: number): string;
  /** The sum of a term of all loads of an invocation, as one number. */
  total(term: (i: number) => string): string;
}

/** h_i, and 0 where there is no element: whatever the statistics of no row are, they must not spoil sums. */
function set({ values, vector, isThere }: RowText, value: (h: string) => string): string {
  const { f } = typeOf(vector);
  return lines(values, (i) => `    h_${i} = select(${f}(0.0), ${value(`h_${i}`)}, ${isThere(i)});`);
}

function givenStatistics(kind: NormalizeKind, text: RowText): string {
  return wgsl`
    let own = min(row, parameters.rows - 1u);
    let scale = inverse[parameters.inverse_offset + own];
${kind === "layer" ? "    let center = mean[parameters.mean_offset + own];" : ""}
${set(text, (h) => `${kind === "layer" ? `(${h} - center)` : h} * scale`)}`;
}

/** The functions of `computedStatistics`. Those of a row meet in memory of their own, which no barrier need free. */
const meetings: Readonly<Record<NormalizeKind, (lanes: LaneCount) => string>> = {
  layer: (lanes) => wgsl`
${sharedResult("sum_of", plus, typeOf(1), lanes)}
${sharedResult("moments_of", plus, typeOf(2), lanes)}`,
  rms: (lanes) => sharedResult("sum_of", plus, typeOf(1), lanes),
};

/** As the forward operation computes them; see there. */
const computedStatistics: Readonly<Record<NormalizeKind, (text: RowText) => string>> = {
  layer: (text) => wgsl`
    var pivot = 0.0;
    if (length > 0u) {
      let words = read_x(first);
      pivot = ${text.words.values("words")}${text.vector === 1 ? "" : ".x"};
    }
${set(text, (h) => `${h} - pivot`)}
    let middle = sum_of(slot, reducer, ${text.total((i) => `h_${i}`)}) / count;
${set(text, (h) => `${h} - middle`)}
    let own = vec2<f32>(${text.total((i) => `h_${i}`)}, ${text.total((i) => `(h_${i} * h_${i})`)});
    let moments = moments_of(slot, reducer, own) / count;
    let variance = moments.y - moments.x * moments.x;
    let scale = inverseSqrt(select(variance, 0.0, variance < 0.0) + parameters.epsilon);
${set(text, (h) => `(${h} - moments.x) * scale`)}`,

  rms: (text) => wgsl`
    let square = sum_of(slot, reducer, ${text.total((i) => `(h_${i} * h_${i})`)}) / count;
    let scale = inverseSqrt(square + parameters.epsilon);
${set(text, (h) => `${h} * scale`)}`,
};
