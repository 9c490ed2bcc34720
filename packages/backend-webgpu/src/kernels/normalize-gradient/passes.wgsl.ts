import type { FloatType, NormalizeKind } from "@backplane/core";
import {
  floatLayouts,
  input,
  linearBuiltins,
  lines,
  output,
  type ParameterType,
  type Program,
  program,
  type Storage,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import {
  across,
  guardedLoads,
  type LaneCount,
  placeInGroup,
  placeInSegment,
  plus,
  sharedResult,
  sharing,
  storageOf,
  storeFunction,
  storeWord,
  tree,
  typeOf,
  wordsOf,
} from "../rows/index.js";
import {
  type Data,
  dataBindings,
  dataReads,
  type GradientTile,
  nameOf,
  normalizedOf,
  resultOf,
  storeSums,
} from "./text.wgsl.js";

/** facts[row] = (m, 0, r, 0), from given statistics. Those that are computed come from normalize, in this form. */
export function factsProgram(kind: NormalizeKind): Program<"mean" | "inverse" | "facts", "rows"> {
  const isLayer = kind === "layer";
  const bindings: Record<string, Storage> = {
    ...(isLayer ? { mean: input("f32") } : {}),
    ...{ inverse: input("f32"), facts: output("vec4f") },
  };
  return program({
    name: `normalize_gradient_facts_${kind}`,
    bindings: bindings as Record<"mean" | "inverse" | "facts", Storage>,
    parameters: { rows: "u32" },
    body: wgsl`
${workgroupIndex}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let row = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (row >= parameters.rows) { return; }
  let center = ${isLayer ? "mean[parameters.mean_offset + row]" : "0.0"};
  facts[parameters.facts_offset + row] = vec4<f32>(center, 0.0, inverse[parameters.inverse_offset + row], 0.0);
}
`,
  });
}

/** A kernel that adds up g and g h of rows, or such sums. */
export interface MeansTile {
  /** Sums are joined alike, whatever they are of. */
  readonly source: GradientTile | "sums";
  readonly vector: 1 | 4;
  readonly lanes: LaneCount;
}

type MeansBinding = Data | "facts" | "parts" | "means";
type MeansParameter = "rows" | "length" | "size" | "segment_length" | "row_blocks" | "finish";

/**
 * means[segment * rows + row] = the sums of g and of g h of the elements of the row that lie in the segment; `finish`: divided
 * by the size of rows. A workgroup does one segment of `SLOTS` rows.
 */
export function meansProgram({ source, vector, lanes }: MeansTile): Program<MeansBinding, MeansParameter> {
  const isJoin = source === "sums";
  const data: readonly Data[] = isJoin ? [] : source.weight ? ["x", "dy", "weight"] : ["x", "dy"];
  const bindings: Record<string, Storage> = isJoin
    ? { parts: input("vec2f") }
    : { ...dataBindings(source, data), facts: input("vec4f") };
  bindings.means = output("vec2f");
  const along = isJoin ? "inner" : "length";
  const name = isJoin ? "joined" : `${source.kind}_${source.dtype}${nameOf(source)}`;
  return program({
    name: `normalize_gradient_means_${name}_${vector}_${lanes}`,
    bindings: bindings as Record<MeansBinding, Storage>,
    parameters: {
      ...{ rows: "u32", length: "u32", size: "u32", segment_length: "u32", row_blocks: "u32", finish: "u32" },
    } satisfies Record<MeansParameter, ParameterType>,
    body: wgsl`
${isJoin ? workgroupIndex : dataReads(source, data, vector)}
${sharing(along, lanes)}
${sharedResult("sums_of", plus, typeOf(2), lanes)}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  ${placeInSegment(along)}
  var own = vec2<f32>(0.0);
${isJoin ? joinLoop : meansLoop(source, vector)}
  var total = sums_of(slot, reducer, own);
  if (reducer == 0u && row < parameters.rows && start < parameters.length) {
    if (parameters.finish != 0u) { total /= f32(parameters.size); }
    means[parameters.means_offset + segment * parameters.rows + row] = total;
  }
}
`,
  });
}

/** Sums of the same row are as far apart as there are rows. */
const joinLoop = wgsl`
  for (var next = start + reducer; next < end; next += LANES) {
    own += parts[parameters.parts_offset + next * parameters.rows + row];
  }`;

function meansLoop({ kind, dtype, weight }: GradientTile, vector: 1 | 4): string {
  const type = typeOf(vector);
  /** Loads of each input under way together. */
  const count = vector === 4 ? 4 : 8;
  const place = (i: number) => `next + ${i}u * LANES`;
  const isThere = (i: number) => `${place(i)} < end`;
  const loaded = { count, words: wordsOf(dtype, type), isThere };
  const total = (term: (i: number) => string) =>
    across(
      type,
      tree(
        Array.from({ length: count }, (_, i) => term(i)),
        plus,
      ),
      plus,
    );
  return wgsl`
  let first = row * parameters.length;
  var fact = vec4<f32>(0.0);
  if (start < end) { fact = facts[parameters.facts_offset + row]; }
  for (var next = start + reducer; next < end; next += ${count}u * LANES) {
${guardedLoads({ ...loaded, names: ["x", "dy"], at: (i) => `first + ${place(i)}` })}
${weight ? guardedLoads({ ...loaded, names: ["weight"], at: place }) : ""}
${lines(count, (i) => `    let g_${i} = ${weight ? `dy_${i} * weight_${i}` : `dy_${i}`};`)}
${lines(count, (i) => `    let h_${i} = select(${type.f}(0.0), ${normalizedOf(kind, `x_${i}`, "fact")}, ${isThere(i)});`)}
    own += vec2<f32>(${total((i) => `g_${i}`)}, ${total((i) => `(g_${i} * h_${i})`)});
  }`;
}

/** A kernel of columns: an invocation goes along a block of rows of one vector of columns. */
export interface ColumnsTile extends GradientTile {
  /** Whether it writes results. */
  readonly result: boolean;
  /** The sums of columns that it makes: those of dy h and dy, of dy alone, or none. */
  readonly sums: "both" | "bias" | "none";
}

type ColumnsBinding = Data | "facts" | "means" | "output" | "weight_sums" | "bias_sums";

/** Rows whose loads are under way together. */
const ROWS_AHEAD = 4;

/** `columns` counts vectors. */
export function columnsProgram(
  tile: ColumnsTile,
): Program<ColumnsBinding, "rows" | "columns" | "size" | "lines"> {
  const { kind, dtype, vector, weight, result, sums } = tile;
  const type = typeOf(vector);
  const words = wordsOf(dtype, type);
  const needsInput = result || sums === "both";
  const data: readonly Data[] = [
    ...((needsInput ? ["x"] : []) as Data[]),
    "dy",
    ...((result && weight ? ["weight"] : []) as Data[]),
  ];
  const bindings = dataBindings(tile, data);
  if (needsInput) bindings.facts = input("vec4f");
  if (result) bindings.means = input("vec2f");
  if (result) bindings.output = output(storageOf(dtype, vector));
  if (sums === "both") bindings.weight_sums = output("f32");
  if (sums !== "none") bindings.bias_sums = output("f32");
  const isThere = (i: number) => `row + ${i}u < end`;
  const at = (i: number) => `(row + ${i}u) * parameters.columns + column`;
  const g = (i: number) => (weight ? `(dy_${i} * factor)` : `dy_${i}`);
  const own = (i: number) => resultOf(kind, g(i), `h_${i}`, `mean_${i}.x`, `mean_${i}.y`, `fact_${i}.z`);
  const zero = `${type.f}(0.0)`;
  const sum = (term: (i: number) => string) =>
    tree(
      Array.from({ length: ROWS_AHEAD }, (_, i) => term(i)),
      plus,
    );
  const forms = `${result ? "_result" : ""}_${sums}${nameOf(tile)}`;
  return program({
    name: `normalize_gradient_${kind}_columns_${dtype}_${vector}${forms}`,
    bindings: bindings as Record<ColumnsBinding, Storage>,
    parameters: { rows: "u32", columns: "u32", size: "u32", lines: "u32" },
    body: wgsl`
${dataReads(tile, data)}
${result ? storeFunction(dtype, type) : ""}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let block = index / parameters.columns;
  let column = index - block * parameters.columns;
  let begin = block * parameters.lines;
  if (begin >= parameters.rows) { return; }
  let end = min(begin + parameters.lines, parameters.rows);
${result && weight ? `  let factor = ${words.values("read_weight(column)")};` : ""}
${sums === "both" ? `  var weight_sum = ${zero};` : ""}
${sums === "none" ? "" : `  var bias_sum = ${zero};`}
  for (var row = begin; row < end; row += ${ROWS_AHEAD}u) {
${guardedLoads({ names: needsInput ? ["x", "dy"] : ["dy"], count: ROWS_AHEAD, words, isThere, at })}
${
  needsInput
    ? wgsl`
${lines(ROWS_AHEAD, (i) => `    var fact_${i} = vec4<f32>(0.0);`)}
${lines(ROWS_AHEAD, (i) => `    if (${isThere(i)}) { fact_${i} = facts[parameters.facts_offset + row + ${i}u]; }`)}
${lines(ROWS_AHEAD, (i) => `    let h_${i} = select(${zero}, ${normalizedOf(kind, `x_${i}`, `fact_${i}`)}, ${isThere(i)});`)}`
    : ""
}
${
  result
    ? lines(
        ROWS_AHEAD,
        (i) => `    if (${isThere(i)}) {
      let mean_${i} = means[parameters.means_offset + row + ${i}u];
      store(${at(i)}, ${own(i)});
    }`,
      )
    : ""
}
${sums === "both" ? `    weight_sum += ${sum((i) => `(dy_${i} * h_${i})`)};` : ""}
${sums === "none" ? "" : `    bias_sum += ${sum((i) => `dy_${i}`)};`}
  }
${sums === "both" ? `  ${storeSums("weight_sums", type, "block", "column", "weight_sum")}` : ""}
${sums === "none" ? "" : `  ${storeSums("bias_sums", type, "block", "column", "bias_sum")}`}
}
`,
  });
}

/**
 * Results word by word, for elements of which several share one: an invocation writes one word, some elements of which may lie
 * outside the output.
 */
export function wordsProgram(
  tile: GradientTile,
): Program<Data | "facts" | "means" | "output", "count" | "size"> {
  const { kind, dtype, weight } = tile;
  const data: readonly Data[] = weight ? ["x", "dy", "weight"] : ["x", "dy"];
  const bindings = {
    ...dataBindings(tile, data),
    ...{ facts: input("vec4f"), means: input("vec2f"), output: output(storageOf(dtype, 1)) },
  };
  const g = weight ? "(read_dy(place) * read_weight(place - row * parameters.size))" : "read_dy(place)";
  return program({
    name: `normalize_gradient_${kind}_words_${dtype}${nameOf(tile)}`,
    bindings: bindings as Record<Data | "facts" | "means" | "output", Storage>,
    parameters: { count: "u32", size: "u32" },
    body: wgsl`
${dataReads(tile, data, 1)}

fn result_of(place: u32) -> f32 {
  let row = place / parameters.size;
  let fact = facts[parameters.facts_offset + row];
  let mean = means[parameters.means_offset + row];
  let h = ${normalizedOf(kind, "read_x(place)", "fact")};
  return ${resultOf(kind, g, "h", "mean.x", "mean.y", "fact.z")};
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;${storeWord("parameters.count", "result_of(element)")}
}
`,
  });
}

/** A kernel that joins the sums of blocks. */
export interface TotalsTile {
  readonly lanes: LaneCount;
  /** What the total is added to: nothing, what the output holds, or elements of a type elsewhere. */
  readonly old: "none" | "output" | FloatType;
}

/** output[column] = the sum of sums[block * size + column] over all blocks, in f32 */
export function totalsProgram({
  lanes,
  old,
}: TotalsTile): Program<"sums" | "old" | "output", "size" | "blocks"> {
  const elsewhere = old === "none" || old === "output" ? undefined : floatLayouts[old];
  const bindings: Record<string, Storage> = {
    sums: input("f32"),
    ...(elsewhere === undefined ? {} : { old: input(elsewhere.single) }),
    output: output("f32"),
  };
  /** Loads under way together. */
  const count = 8;
  const place = (i: number) => `next + ${i}u * LANES`;
  const before = {
    none: undefined,
    output: "output[parameters.output_offset + column]",
    other: elsewhere?.load("old", "(parameters.old_offset + column)"),
  }[old === "none" || old === "output" ? old : "other"];
  return program({
    name: `normalize_gradient_totals_${lanes}${old === "none" ? "" : `_onto_${old}`}`,
    bindings: bindings as Record<"sums" | "old" | "output", Storage>,
    parameters: { size: "u32", blocks: "u32" },
    body: wgsl`
${workgroupIndex}
${elsewhere?.functions ?? ""}
${sharing("inner", lanes)}
${sharedResult("sum_of", plus, typeOf(1), lanes)}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  ${placeInGroup("inner")}
  let column = workgroup_index(workgroup, workgroups) * SLOTS + slot;
  let blocks = select(0u, parameters.blocks, column < parameters.size);
  let first = parameters.sums_offset + column;
  var own = 0.0;
  for (var next = reducer; next < blocks; next += ${count}u * LANES) {
${lines(count, (i) => `    var sum_${i} = 0.0;\n    if (${place(i)} < blocks) { sum_${i} = sums[first + (${place(i)}) * parameters.size]; }`)}
    own += ${tree(
      Array.from({ length: count }, (_, i) => `sum_${i}`),
      plus,
    )};
  }
  let total = sum_of(slot, reducer, own);
  if (reducer == 0u && column < parameters.size) {
    output[parameters.output_offset + column] = total${before === undefined ? "" : ` + ${before}`};
  }
}
`,
  });
}
