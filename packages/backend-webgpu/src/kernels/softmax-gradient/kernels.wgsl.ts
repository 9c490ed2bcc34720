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
  type ApplyForm,
  across,
  applyMain,
  bindingOf,
  components,
  firstOfRow,
  guardedLoads,
  placeInGroup,
  placeInRow,
  placeInSegment,
  plus,
  readFunction,
  resultType,
  sharedResult,
  sharing,
  storageOf,
  storeFunction,
  tree,
  typeOf,
  wordsOf,
} from "../rows/index.js";
import {
  inputBindings,
  nameOf,
  needsOutput,
  type RegisterTile,
  type ResultTile,
  resultFunctions,
  resultOf,
  type SumsTile,
  termOf,
} from "./text.wgsl.js";

const inputs = ["y", "dy"] as const;

export type RowBinding = "y" | "dy" | "output";

/** One pass: rows are read into registers, and results written. */
export function registerProgram(tile: RegisterTile): Program<RowBinding, "rows" | "length" | "inner"> {
  const { dtype, kind, along, vector, lanes, values, over } = tile;
  const type = typeOf(vector);
  const shared = along === "length" ? typeOf(1) : type;
  const bindings = { ...inputBindings(tile), output: output(storageOf(dtype, vector)) };
  const place = (i: number) => `reducer + ${i}u * LANES`;
  const isThere = (i: number) => `${place(i)} < length`;
  const at = (i: number) => placeInRow(along, place(i));
  const terms = Array.from({ length: values }, (_, i) => termOf(kind, `y_${i}`, `dy_${i}`));
  const sum = tree(terms, plus);
  return program({
    name: `${kind}_gradient_rows_${dtype}_${along}_${vector}_${lanes}x${values}${nameOf(over)}`,
    bindings: bindings as Record<RowBinding, Storage>,
    parameters: { rows: "u32", length: "u32", inner: "u32" },
    body: wgsl`
${resultFunctions(kind, type)}
${floatLayouts[dtype].functions}
${inputs.map((name) => readFunction(name, dtype, type, bindingOf(over, name))).join("\n")}
${storeFunction(dtype, type)}
${sharing(along, lanes)}
${sharedResult("sum_of", plus, shared, lanes)}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  ${placeInGroup(along)}
  let row = workgroup_index(workgroup, workgroups) * SLOTS + slot;
  let length = select(0u, parameters.length, row < parameters.rows);
  let first = ${firstOfRow[along]};
${guardedLoads({ names: inputs, count: values, words: wordsOf(dtype, type), isThere, at })}
  let own = ${sum};
  let sum = ${type.f}(sum_of(slot, reducer, ${along === "length" ? across(type, "own", plus) : "own"}));
${lines(values, (i) => `  if (${isThere(i)}) { store(${at(i)}, ${resultOf(kind, `y_${i}`, `dy_${i}`, "sum")}); }`)}
}
`,
  });
}

export type SumsBinding = "y" | "dy" | "sums";
type SumsParameter = "rows" | "length" | "inner" | "segment_length" | "row_blocks";

/**
 * sums[segment * rows + row] = the sum of the terms of the row that lie in the segment. A workgroup does one segment of
 * `SLOTS` neighbouring rows (or vectors of rows). Sums as source are bound as dy.
 */
export function sumsProgram(tile: SumsTile): Program<SumsBinding, SumsParameter> {
  const { source, kind, along, vector, lanes } = tile;
  const type = typeOf(vector);
  const shared = along === "length" ? typeOf(1) : type;
  const dtype = source === "sums" ? "f32" : source;
  const withOutput = kind !== undefined && needsOutput[kind];
  const storage = storageOf(dtype, vector);
  // Loads of each input that are under way together.
  const count = along === "length" && vector === 4 ? 4 : 8;
  const place = (i: number) => `next + ${i}u * LANES`;
  const at = (i: number) => placeInRow(along, place(i));
  const terms = Array.from({ length: count }, (_, i) =>
    withOutput ? termOf("softmax", `y_${i}`, `dy_${i}`) : `dy_${i}`,
  );
  const names = withOutput ? inputs : ["dy"];
  const bindings = {
    ...Object.fromEntries(names.map((name) => [name, input(storage)])),
    sums: output("f32"),
  };
  return program({
    name: `softmax_gradient_sums_${kind ?? "joined"}_${source}_${along}_${vector}_${lanes}`,
    bindings: bindings as Record<SumsBinding, Storage>,
    parameters: {
      ...{ rows: "u32", length: "u32", inner: "u32", segment_length: "u32", row_blocks: "u32" },
    } satisfies Record<SumsParameter, ParameterType>,
    body: wgsl`
${workgroupIndex}
${floatLayouts[dtype].functions}
${names.map((name) => readFunction(name, dtype, type)).join("\n")}
${sharing(along, lanes)}
${sharedResult("sum_of", plus, shared, lanes)}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  ${placeInSegment(along)}
  let first = ${firstOfRow[along]};
  var own = ${type.f}(0.0);
  for (var next = start + reducer; next < end; next += ${count}u * LANES) {
${guardedLoads({ names, count, words: wordsOf(dtype, type), isThere: (i) => `${place(i)} < end`, at })}
    own += ${tree(terms, plus)};
  }
  let total = sum_of(slot, reducer, ${along === "length" ? across(type, "own", plus) : "own"});
  if (reducer == 0u && row < parameters.rows && start < parameters.length) {
    let at = parameters.sums_offset + (segment * parameters.rows + row) * ${shared.size}u;
${lines(shared.size, (i) => `    sums[at + ${i}u] = total${shared.size === 1 ? "" : `.${components[i]}`};`)}
  }
}
`,
  });
}

/** A kernel that makes results of elements and sums. */
export interface ApplyTile extends ResultTile {
  readonly form: ApplyForm;
}

/** Results from the sums of rows. */
export function applyProgram(
  tile: ApplyTile,
): Program<RowBinding | "statistics", "outer" | "length" | "inner"> {
  const { dtype, kind, form, vector, over } = tile;
  const bindings = {
    ...inputBindings(tile),
    statistics: input("f32"),
    output: output(storageOf(dtype, vector)),
  };
  return program({
    name: `${kind}_gradient_apply_${form}_${dtype}_${vector}${nameOf(over)}`,
    bindings: bindings as Record<RowBinding | "statistics", Storage>,
    parameters: { outer: "u32", length: "u32", inner: "u32" },
    body: wgsl`
${resultFunctions(kind, resultType(tile))}
${floatLayouts[dtype].functions}
${applyMain({
  ...{ dtype, form, vector },
  streams: inputs.map((name) => ({ name, binding: bindingOf(over, name) })),
  facts: { sum: "" },
  result: (_type, [y, dy]) => resultOf(kind, y!, dy!, "sum"),
})}
`,
  });
}
