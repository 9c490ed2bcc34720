import type { FloatType, Resize2dKind, ResizedAxis } from "@backplane/core";
import {
  floatLayouts,
  input,
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { spotFunction } from "../images/index.js";
import { axisParameters, blendFunction, placeFunctions } from "./places.wgsl.js";

/** Results of an invocation, all in one row. */
export const STRIP = 4;

/** The properties of one generated kernel; everything else is a parameter. */
export interface StripsTile {
  readonly kind: Resize2dKind;
  /** Nearest elements are of as many bytes, whatever they are. */
  readonly dtype: FloatType | "u8";
  /**
   * `near`: four neighbouring results are made of four neighbouring columns. `known`: which columns these are, and their
   * weights, is the same for every strip, but for where it begins.
   */
  readonly reach: "near" | "far" | "known";
  /** If it is known. */
  readonly axis?: ResizedAxis;
  /** The same of rows, four of which an invocation has then: they share the lines that they are made of. */
  readonly down?: ResizedAxis;
  /** All four are stored at once; otherwise one by one. */
  readonly store: "vector" | "single";
  /** See `placeFunctions`. */
  readonly byProduct: boolean;
}

type Parameter = keyof typeof axisParameters | "planes" | "out_height" | "out_width" | "shift";

/** Strips of four neighbouring results of planes without channels. */
export function stripsProgram(tile: StripsTile): Program<"source" | "output", Parameter> {
  const { kind, dtype, reach, store, byProduct, axis, down } = tile;
  const isCopy = kind === "nearest";
  const { single, quad } = isCopy ? copied[dtype] : floatLayouts[dtype as FloatType];
  const type = isCopy ? "u32" : "f32";
  return program({
    name: `resize_${kind}_${dtype}_strips_${axis === undefined ? reach : nameOf(axis)}${down === undefined ? "" : `_down_${nameOf(down)}`}_${store}${byProduct ? "" : "_divided"}`,
    bindings: { source: input(single), output: output(store === "vector" ? quad : single) },
    parameters: {
      ...axisParameters,
      ...{ planes: "u32", out_height: "u32", out_width: "u32", shift: "u32" },
    },
    body: wgsl`
${workgroupIndex}
${spotFunction}
${isCopy ? "" : floatLayouts[dtype as FloatType].functions}
${placeFunctions(byProduct)}
${isCopy ? "" : blendFunction("f32")}
${reach === "near" ? blendFunction("vec4f").replace("fn blend", "fn blend_quad") : ""}

fn load(line: i32, column: i32) -> ${type} {
  let at = parameters.source_offset + u32(line + column);
  ${loadText(kind, dtype)}
}
${reach === "near" ? pickFunction : ""}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let strips = (parameters.out_width + ${STRIP - 1}u) / ${STRIP}u;
  let spot = spot_of(
    workgroup_index(workgroup, workgroups), lane, parameters.shift, ${down === undefined ? "parameters.out_height" : `parameters.out_height / ${STRIP}u`}, strips);
  let y = ${down === undefined ? "spot.row" : `${STRIP}u * spot.row`};
  let x = ${STRIP}u * spot.strip;
  if (spot.plane >= parameters.planes || y >= parameters.out_height || x >= parameters.out_width) { return; }
${axis !== undefined && down !== undefined ? blockText(tile, axis, down) : stripText(tile)}
}
`,
  });
}

/** Four results of a row. */
function stripText({ kind, dtype, reach, store, axis }: StripsTile): string {
  const isCopy = kind === "nearest";
  const others = reach === "near" ? nearText : farText;
  return wgsl`
  let width = parameters.last_x + 1;
  let row = row_of(i32(y));
  let line = (i32(spot.plane) * (parameters.last_y + 1) + row.lower) * width;
${axis !== undefined ? knownText(kind, axis) : isCopy ? nearestText() : others()}
  let at = (spot.plane * parameters.out_height + y) * parameters.out_width + x;
${store === "vector" ? vectorStore(kind, dtype) : singleStore()}`;
}

/** Four results of four rows each, whose lines and columns are known. Beyond the edges results are as in `knownText`. */
function blockText({ kind, dtype, store }: StripsTile, across: ResizedAxis, down: ResizedAxis): string {
  const isCopy = kind === "nearest";
  const [columns, rows] = [knownColumns(kind, across)!, knownColumns(kind, down)!];
  const blend = (first: string, second: string, weight: number, place: string, last: string) =>
    isCopy || weight === 0
      ? first
      : `select(${first} * ${1 - weight}f + ${second} * ${weight}f, ${first}, u32(${place}) >= u32(${last}))`;
  const element = (r: number, column: number) => `element_${r}_${columns.indexOf(column)}`;
  const ofRow = (row: number, j: number) => `across_${rows.indexOf(row)}_${j}`;
  return wgsl`
  let width = parameters.last_x + 1;
  let base = i32(spot.strip) * ${(STRIP * across.factor) / across.divisor};
  let base_y = i32(spot.row) * ${(STRIP * down.factor) / down.divisor};
${columns.map((column, k) => `  let place_${k} = clamp(base + (${column}), 0, parameters.last_x);`).join("\n")}
${rows
  .map(
    (row, r) => wgsl`
  let line_${r} = (i32(spot.plane) * (parameters.last_y + 1) + clamp(base_y + (${row}), 0, parameters.last_y)) * width;
${lines(columns.length, (k) => `  let element_${r}_${k} = load(line_${r}, place_${k});`)}`,
  )
  .join("\n")}
${lines(rows.length, (r) =>
  columnsOf(across)
    .map(
      ({ lower, weight }, j) =>
        `  let across_${r}_${j} = ${blend(element(r, lower), element(r, lower + 1), weight, `base + (${lower})`, "parameters.last_x")};`,
    )
    .join("\n"),
)}
${columnsOf(down)
  .map(
    ({ lower, weight }, i) => wgsl`
  {
${lines(STRIP, (j) => `    let value_${j} = ${blend(ofRow(lower, j), ofRow(lower + 1, j), weight, `base_y + (${lower})`, "parameters.last_y")};`)}
    let at = (spot.plane * parameters.out_height + y + ${i}u) * parameters.out_width + x;
${store === "vector" ? vectorStore(kind, dtype) : singleStore()}
  }`,
  )
  .join("\n")}`;
}

/** Bindings that show one element, and four. */
const copied = {
  f32: { single: "u32", quad: "vec4u" },
  f16: { single: "half", quad: "half4" },
  u8: { single: "byte", quad: "u32" },
} as const;

function loadText(kind: Resize2dKind, dtype: StripsTile["dtype"]): string {
  if (kind === "bilinear") return `return ${floatLayouts[dtype as FloatType].load("source", "at")};`;
  if (dtype === "f32") return "return source[at];";
  if (dtype === "f16") return "return (source[at >> 1u] >> (16u * (at & 1u))) & 0xffffu;";
  return "return (source[at >> 2u] >> (8u * (at & 3u))) & 0xffu;";
}

function nearestText(): string {
  return wgsl`
${lines(STRIP, (j) => `  let value_${j} = load(line, column_of(i32(x) + ${j}).lower);`)}`;
}

function farText(): string {
  return wgsl`
  let next = line + select(0, width, row.weight > 0.0);
${lines(
  STRIP,
  (j) => wgsl`
  let column_${j} = column_of(i32(x) + ${j});
  let beside_${j} = column_${j}.lower + select(0, 1, column_${j}.weight > 0.0);
  let top_${j} = blend(load(line, column_${j}.lower), load(line, beside_${j}), column_${j}.weight);
  let bottom_${j} = blend(load(next, column_${j}.lower), load(next, beside_${j}), column_${j}.weight);
  let value_${j} = blend(top_${j}, bottom_${j}, row.weight);`,
)}`;
}

/** The columns are found by steps from the first, of which each leads to the same element or to the next. */
function nearText(): string {
  const columns = (line: string) =>
    `vec4f(${Array.from({ length: STRIP }, (_, j) => `load(${line}, place_${j})`).join(", ")})`;
  return wgsl`
  let next = line + select(0, width, row.weight > 0.0);
  var quotient = quotient_of(i32(x));
  let base = clamp(quotient.x, 0, parameters.last_x);
${lines(STRIP, (j) => `  let place_${j} = min(base + ${j}, parameters.last_x);`)}
  let top = ${columns("line")};
  let bottom = ${columns("next")};
  let columns = blend_quad(top, bottom, row.weight);
${lines(
  STRIP,
  (j) => wgsl`
${j === 0 ? "" : "  quotient = stepped(quotient);"}
  let column_${j} = place_of(quotient, parameters.unit_x, parameters.last_x);
  let index_${j} = column_${j}.lower - base;
  let value_${j} = blend(pick(columns, index_${j}), pick(columns, index_${j} + 1), column_${j}.weight);`,
)}`;
}

function nameOf({ factor, shift, divisor }: ResizedAxis): string {
  return `${factor}_${shift}_${divisor}`;
}

/** The columns of the first strip: the lower one of each result, and the weight of the next. */
function columnsOf({ factor, shift, divisor }: ResizedAxis) {
  return Array.from({ length: STRIP }, (_, j) => {
    const lower = Math.floor((j * factor + shift) / divisor);
    return { lower, weight: (j * factor + shift - lower * divisor) / divisor };
  });
}

/** All columns that a strip is made of, which are only known if strips are whole steps of the axis apart. */
export function knownColumns(kind: Resize2dKind, axis: ResizedAxis): readonly number[] | undefined {
  if ((STRIP * axis.factor) % axis.divisor !== 0) return undefined;
  const all = columnsOf(axis).flatMap(({ lower, weight }) =>
    kind === "bilinear" && weight > 0 ? [lower, lower + 1] : [lower],
  );
  return [...new Set(all)].sort((a, b) => a - b);
}

/** Beyond the first and the last column, which take the place of others there, results are these alone. */
function knownText(kind: Resize2dKind, axis: ResizedAxis): string {
  const columns = knownColumns(kind, axis)!;
  const isCopy = kind === "nearest";
  const nameOfColumn = (column: number) => `column_${columns.indexOf(column)}`;
  return wgsl`
  let base = i32(spot.strip) * ${(STRIP * axis.factor) / axis.divisor};
  ${isCopy ? "" : "let next = line + select(0, width, row.weight > 0.0);"}
${columns
  .map((column, k) => {
    const place = `  let place_${k} = clamp(base + (${column}), 0, parameters.last_x);`;
    const value = isCopy
      ? `load(line, place_${k})`
      : `blend(load(line, place_${k}), load(next, place_${k}), row.weight)`;
    return `${place}\n  let column_${k} = ${value};`;
  })
  .join("\n")}
${columnsOf(axis)
  .map(({ lower, weight }, j) => {
    const first = nameOfColumn(lower);
    if (isCopy || weight === 0) return `  let value_${j} = ${first};`;
    const blend = `${first} * ${1 - weight}f + ${nameOfColumn(lower + 1)} * ${weight}f`;
    // Numbers below zero are large ones without a sign.
    return `  let value_${j} = select(${blend}, ${first}, u32(base + (${lower})) >= u32(parameters.last_x));`;
  })
  .join("\n")}`;
}

const pickFunction = wgsl`
fn pick(columns: vec4f, index: i32) -> f32 {
  let odd = (index & 1) == 1;
  return select(select(columns.x, columns.y, odd), select(columns.z, columns.w, odd), index >= 2);
}

/// The place of the next column: its factor is less than the divisor.
fn stepped(quotient: vec2<i32>) -> vec2<i32> {
  let rest = quotient.y + parameters.factor_x;
  let more = rest >= parameters.divisor_x;
  return vec2<i32>(quotient.x + select(0, 1, more), rest - select(0, parameters.divisor_x, more));
}
`;

function vectorStore(kind: Resize2dKind, dtype: StripsTile["dtype"]): string {
  const place = `output[parameters.output_offset + at / ${STRIP}u]`;
  const list = Array.from({ length: STRIP }, (_, j) => `value_${j}`).join(", ");
  if (kind === "nearest") return `  ${place} = ${copiedQuads[dtype](list)};`;
  return wgsl`
  let values = vec4f(${list});
  ${place} = ${floatLayouts[dtype as FloatType].packed("values")};`;
}

const copiedQuads: Readonly<Record<StripsTile["dtype"], (list: string) => string>> = {
  f32: (list) => `vec4<u32>(${list})`,
  f16: () => "vec2<u32>(value_0 | (value_1 << 16u), value_2 | (value_3 << 16u))",
  u8: () => "value_0 | (value_1 << 8u) | (value_2 << 16u) | (value_3 << 24u)",
};

function singleStore(): string {
  return lines(
    STRIP,
    (j) =>
      `  if (x + ${j}u < parameters.out_width) { output[parameters.output_offset + at + ${j}u] = value_${j}; }`,
  );
}
