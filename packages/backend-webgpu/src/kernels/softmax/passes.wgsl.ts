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
} from "../../program/index.js";
import { magnitudeFunction } from "../elementwise/index.js";
import {
  across,
  applyMain,
  components,
  firstOfRow,
  larger,
  loadFunction,
  placeInRow,
  placeInSegment,
  plus,
  resultType,
  storageOf,
  tree,
  typeOf,
} from "../rows/index.js";
import {
  type ApplyTile,
  finishes,
  resultOf,
  rowSharing,
  type StatisticsTile,
  sharedFunctions,
  spoiltSum,
  weightFunction,
} from "./rows.wgsl.js";

type StatisticsParameter = "rows" | "length" | "inner" | "segment_length" | "row_blocks" | "finish";

/** Loads under way together: a maximum that grows costs one exponential for all of them. */
function unrolled({ along, vector }: StatisticsTile): number {
  return along === "length" && vector === 4 ? 4 : 8;
}

/**
 * statistics[segment * rows + row] = (m, S) of the elements of the row that lie in the segment. A workgroup does
 * one segment of `SLOTS` neighbouring rows (or vectors of rows). A pair as source counts as its S elements of m.
 */
export function statisticsProgram(tile: StatisticsTile): Program<"data" | "statistics", StatisticsParameter> {
  const { source, along, vector, lanes } = tile;
  const isPairs = source === "pairs";
  const type = typeOf(vector);
  const shared = along === "length" ? typeOf(1) : type;
  const count = unrolled(tile);
  const names = Array.from({ length: count }, (_, i) => `value_${i}`);
  const place = (i: number) => `next + ${i}u * LANES`;
  const weights = names.map((name, i) => {
    const weight = `weight(${name} - largest)`;
    return isPairs ? `max(share_${i}, 0.0) * ${weight}` : weight;
  });
  return program({
    name: `softmax_statistics_${source}_${along}_${vector}_${lanes}`,
    bindings: {
      data: input(isPairs ? "vec2f" : storageOf(source, vector)),
      statistics: output("vec2f"),
    },
    parameters: {
      ...{ rows: "u32", length: "u32", inner: "u32", segment_length: "u32", row_blocks: "u32" },
      finish: "u32",
    } satisfies Record<StatisticsParameter, ParameterType>,
    body: wgsl`
${sharedFunctions}
${source === "pairs" ? "" : `${floatLayouts[source].functions}\n${magnitudeFunction(type.f, type.u)}`}
${isPairs ? "fn load(place: u32) -> vec2<f32> { return data[parameters.data_offset + place]; }" : loadFunction("data", source, type)}
${weightFunction("weight", type, source)}
${vector > 1 && along === "length" ? weightFunction("rescale", shared, source) : ""}
${rowSharing(along, lanes, shared)}

fn finished(sum: f32) -> f32 {
  if (parameters.finish == ${finishes.none}u) { return sum; }
  if (parameters.finish == ${finishes.softmax}u) { return inverse_of(sum); }
  return logarithm_of(sum);
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  ${placeInSegment(along)}
  let first = ${firstOfRow[along]};
  let nothing = ${isPairs ? "vec2<f32>(LOWEST, 0.0)" : `${type.f}(from_bits(0xff800000u))`};
  var largest = ${shared.f}(LOWEST);
  var sum = ${type.f}(0.0);
  var seen = ${type.u}(0u);
  for (var next = start + reducer; next < end; next += ${count}u * LANES) {
    // All loads before their first use, so that they are under way together.
${lines(count, (i) => `    var load_${i} = nothing;`)}
${lines(count, (i) => `    if (${place(i)} < end) { load_${i} = load(${placeInRow(along, place(i))}); }`)}
${lines(count, (i) => `    let value_${i} = load_${i}${isPairs ? ".x" : ""};`)}
${
  isPairs
    ? lines(
        count,
        (i) => `    let share_${i} = load_${i}.y;\n    if (share_${i} < 0.0) { seen = 0x7fc00000u; }`,
      )
    : lines(count, (i) => `    seen = max(seen, magnitude(value_${i}));`)
}
    let before = largest;
    let high = ${tree(names, larger)};
    largest = max(largest, ${along === "length" ? across(type, "high", larger) : "high"});
    sum = sum * ${vector > 1 && along === "length" ? "rescale" : "weight"}(before - largest) + ${tree(weights, plus)};
  }
  let highest = largest_of(slot, reducer, largest);
  sum *= ${vector > 1 && along === "length" ? "rescale" : "weight"}(largest - highest);
  let total = sum_of(slot, reducer, ${spoiltSum(along, type, "sum", "largest", shared)});
  if (reducer == 0u && row < parameters.rows && start < parameters.length) {
    let at = parameters.statistics_offset + (segment * parameters.rows + row) * ${shared.size}u;
${lines(shared.size, (i) => {
  const component = shared.size === 1 ? "" : `.${components[i]}`;
  return `    statistics[at + ${i}u] = vec2<f32>(highest${component}, finished(total${component}));`;
})}
  }
}
`,
  });
}

/** Results from finished pairs (m, 1 / S) or (m, ln S), one for each row. */
export function applyProgram(
  tile: ApplyTile,
): Program<"data" | "statistics" | "output", "outer" | "length" | "inner"> {
  const { dtype, kind, form, vector, inPlace } = tile;
  const storage = storageOf(dtype, vector);
  const bindings: Record<string, Storage> = inPlace ? {} : { data: input(storage) };
  Object.assign(bindings, { statistics: input("vec2f"), output: output(storage) });
  return program({
    name: `${kind}_apply_${form}_${dtype}_${vector}${inPlace ? "_in_place" : ""}`,
    bindings: bindings as Record<"data" | "statistics" | "output", Storage>,
    parameters: { outer: "u32", length: "u32", inner: "u32" },
    body: wgsl`
${sharedFunctions}
${floatLayouts[dtype].functions}
${weightFunction("weight", resultType(tile), dtype)}
${applyMain({
  ...{ dtype, form, vector },
  streams: [{ name: "value", binding: inPlace ? "output" : "data" }],
  facts: { largest: ".x", last: ".y" },
  result(type, [value]) {
    const difference = `(${value} - largest)`;
    return resultOf(kind, type, kind === "softmax" ? `weight${difference}` : difference, "last");
  },
})}
`,
  });
}
