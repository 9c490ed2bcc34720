import type { MapElementType } from "@backplane/core";
import {
  type ElementType,
  input,
  linearBuiltins,
  output,
  type ParameterType,
  type Program,
  program,
  type Storage,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { countedAxes, type ExpressionTile, expressionText, valueTypes } from "./expression.wgsl.js";

/**
 * The source of the values of one input:
 * - `contiguous`: element i of its own region;
 * - a number: element i of that output, which is then overwritten;
 * - `strided`: an element found from i by the table of axes;
 * - `repeated`: as `strided`, in wide kernels, for an input that repeats along the innermost axis;
 * - `single`: its only element.
 */
export type MapSource = "contiguous" | "strided" | "repeated" | "single" | number;

/** The properties of one generated kernel; everything else is a parameter. */
export interface MapTile extends ExpressionTile {
  readonly inputs: readonly { readonly dtype: MapElementType; readonly source: MapSource }[];
  readonly outputs: readonly MapElementType[];
  readonly parameters: readonly ("f32" | "i32" | "u32")[];
  /**
   * Elements that one invocation of a wide kernel takes: 4, or 8 if all regions that it takes vectors of are f16. They
   * start at a multiple of the bytes of so many, and with a table, so many divide the innermost extent. Narrow kernels
   * (0): one element, or 4 if outputs have several elements to a word; these start `phase` elements before the outputs,
   * where a word does.
   */
  readonly wide: 0 | 4 | 8;
  /** Axes of the table; 0 if places along axes are needed neither by inputs nor by steps, or there is only one axis. */
  readonly axes: number;
}

/** How many neighbours of an output share a word. */
const perWord: Readonly<Record<MapElementType, 1 | 2 | 4>> = { f32: 1, i32: 1, u32: 1, f16: 2, u8: 4 };

/** What bindings show in narrow kernels, and in wide ones of 4 and 8 elements. */
const views: Readonly<Record<MapElementType, Readonly<Record<0 | 4 | 8, ElementType>>>> = {
  f32: { 0: "f32", 4: "vec4f", 8: "vec4f" },
  i32: { 0: "i32", 4: "vec4i", 8: "vec4i" },
  u32: { 0: "u32", 4: "vec4u", 8: "vec4u" },
  f16: { 0: "half", 4: "half4", 8: "half8" },
  u8: { 0: "byte", 4: "byte", 8: "byte" },
};

/** Elements that one invocation takes. */
export function elementsOf({ wide, outputs }: Pick<MapTile, "wide" | "outputs">): number {
  return wide === 0 ? (outputs.some((dtype) => perWord[dtype] > 1) ? 4 : 1) : wide;
}

/** The inputs that have strides in the table. */
function stridedInputs({ inputs }: MapTile): readonly number[] {
  return inputs.flatMap(({ source }, k) => (source === "strided" || source === "repeated" ? [k] : []));
}

/**
 * outputs[j][i] = step results[j] at i, for i < n. The table has, for each axis, its extent and the stride of each strided
 * input, in elements; in wide kernels, the innermost extent counts vectors, and a stride there what a vector moves.
 */
export function mapProgram(name: string, tile: MapTile): Program {
  const { inputs, outputs, steps, axes } = tile;
  const bindings: Record<string, Storage> = {};
  for (const [k, { dtype, source }] of inputs.entries()) {
    if (typeof source === "number") continue;
    const isOne = source === "single" || source === "repeated";
    bindings[`in${k}`] = input(views[dtype][isOne ? 0 : tile.wide]);
  }
  for (const [j, dtype] of outputs.entries()) bindings[`out${j}`] = output(views[dtype][tile.wide]);
  const parameters: Record<string, ParameterType> = { n: "u32" };
  if (tile.wide === 0 && elementsOf(tile) > 1) parameters.phase = "u32";
  for (const [k, type] of tile.parameters.entries()) parameters[`p${k}`] = type;
  for (const axis of countedAxes(steps)) parameters[`start_${axis}`] = "u32";
  if (axes > 0) parameters.axes = { rows: Math.ceil((axes * (1 + stridedInputs(tile).length)) / 4) };
  return program({
    ...{ name, bindings, parameters },
    body: [
      workgroupIndex,
      expressionText(tile),
      axes > 0 ? placesText(tile) : "",
      tile.wide === 0 ? narrowMain(tile) : wideMain(tile, tile.wide),
    ].join("\n"),
  });
}

/** From the number of an element, or of a vector, to its place along each axis and in each strided input. */
function placesText(tile: MapTile): string {
  const { axes } = tile;
  const strided = stridedInputs(tile);
  const row = 1 + strided.length;
  const word = (axis: number, column: number) => {
    const at = axis * row + column;
    return `parameters.axes[${at >> 2}].${"xyzw"[at & 3]}`;
  };
  const down = Array.from({ length: axes - 1 }, (_, i) => axes - 1 - i);
  const members = [
    ...Array.from({ length: axes }, (_, axis) => `c${axis}: u32`),
    ...strided.map((k) => `in${k}: u32`),
  ];
  return wgsl`
struct Places { ${members.join(", ")} }

fn places_of(index: u32) -> Places {
  var places: Places;
  var rest = index;
  var next = 0u;
  ${down.map((axis) => `next = rest / ${word(axis, 0)};\n  places.c${axis} = rest - next * ${word(axis, 0)};\n  rest = next;`).join("\n  ")}
  places.c0 = rest;
  ${strided
    .map((k, column) => {
      const terms = Array.from({ length: axes }, (_, axis) => `places.c${axis} * ${word(axis, column + 1)}`);
      return `places.in${k} = ${terms.join(" + ")};`;
    })
    .join("\n  ")}
  return places;
}
`;
}

const firstLine = wgsl`
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
`;

/** A value of one element at a place that counts elements from the binding's start. */
function loadOne(dtype: MapElementType, binding: string, place: string): string {
  if (dtype === "f16") return `half_at(${binding}[(${place}) >> 1u], ${place})`;
  if (dtype === "u8") return `((${binding}[(${place}) >> 2u] >> (8u * ((${place}) & 3u))) & 0xffu)`;
  return `${binding}[${place}]`;
}

/** The places along counted axes of an element, `more` elements after the first of its vector. */
function counted(tile: MapTile, element: string, more: string): readonly string[] {
  const { axes, wide, steps } = tile;
  return countedAxes(steps).map((axis) => {
    const vector = Math.max(wide, 1);
    const own =
      axes === 0
        ? element
        : axis === axes - 1 && wide > 0
          ? `${vector}u * places.c${axis} + ${more}`
          : `places.c${axis}`;
    return `i32(${own} + parameters.start_${axis})`;
  });
}

/** One element per invocation, or four where neighbours share a word. */
function narrowMain(tile: MapTile): string {
  const { inputs, outputs, axes } = tile;
  const count = elementsOf(tile);
  const values = inputs.map(({ dtype, source }, k) => {
    if (typeof source === "number")
      return loadOne(dtype, `out${source}`, `parameters.out${source}_offset + element`);
    const place = source === "single" ? "0u" : source === "contiguous" ? "element" : `places.in${k}`;
    return loadOne(dtype, `in${k}`, `parameters.in${k}_offset + ${place}`);
  });
  const evaluated = wgsl`
    ${axes > 0 ? "let places = places_of(element);" : ""}
    let results = expression(${[...values, ...counted(tile, "element", "0u")].join(", ")});`;
  const single = (j: number) => `out${j}[parameters.out${j}_offset + element] = results.r${j};`;
  if (count === 1)
    return wgsl`${firstLine}
  let element = index;
  if (element >= parameters.n) { return; }
  ${evaluated}
  ${outputs.map((_, j) => single(j)).join("\n  ")}
}
`;
  const shared = outputs.flatMap((dtype, j) => (perWord[dtype] > 1 ? [{ dtype, j }] : []));
  const gather = outputs.map((dtype, j) => {
    if (dtype === "u8") return `words${j} |= results.r${j} << (8u * i);`;
    if (dtype !== "f16") return single(j);
    return wgsl`let half${j} = half_bits(results.r${j}) << (16u * (i & 1u));
    words${j} |= select(vec2u(half${j}, 0u), vec2u(0u, half${j}), i >= 2u);`;
  });
  const store = shared.map(({ dtype, j }) =>
    dtype === "u8"
      ? wgsl`{
    let word = (parameters.out${j}_offset >> 2u) + index;
    if (bytes != 0xffffffffu) { words${j} |= out${j}[word] & ~bytes; }
    out${j}[word] = words${j};
  }`
      : wgsl`{
    // The first word may lie before the output, and before its buffer, but then none of its halves is stored.
    let word = (parameters.out${j}_offset + 4u - parameters.phase) / 2u + 2u * index - 2u;
    for (var i = 0u; i < 2u; i++) {
      if (halves[i] != 0u) { out${j}[word + i] = words${j}[i] | (out${j}[word + i] & ~halves[i]); }
    }
  }`,
  );
  return wgsl`${firstLine}
  if (4u * index >= parameters.n + parameters.phase) { return; }
  // The bits of words that belong to outputs.
  var bytes = 0u;
  var halves = vec2u(0u);
  ${shared.map(({ dtype, j }) => `var words${j} = ${dtype === "u8" ? "0u" : "vec2u(0u)"};`).join("\n  ")}
  for (var i = 0u; i < 4u; i++) {
    // Wraps round to a large number in front of the outputs.
    let element = 4u * index + i - parameters.phase;
    if (element >= parameters.n) { continue; }
    bytes |= 0xffu << (8u * i);
    halves |= select(vec2u(0xffffu << (16u * (i & 1u)), 0u), vec2u(0u, 0xffffu << (16u * (i & 1u))), i >= 2u);
    ${evaluated}
    ${gather.join("\n    ")}
  }
  ${store.join("\n  ")}
}
`;
}

/** Stores a word of bytes, of which `left` belong to the output. */
function storeBytes(j: number): string {
  return `{
    let word = (parameters.out${j}_offset >> 2u) + index;
    if (left < 4u) {
      let keep = 0xffffffffu << (8u * left);
      words${j} = (words${j} & ~keep) | (out${j}[word] & keep);
    }
    out${j}[word] = words${j};
  }`;
}

/** Stores a vector of words of halves, of which `left` halves belong to the output. */
function storeHalves(j: number, place: string, words: number): string {
  return `{
    let at = ${place};
    for (var i = 0u; i < ${words}u && 2u * i < left; i++) {
      let keep = select(0u, 0xffff0000u, 2u * i + 1u == left);
      out${j}[at][i] = (words${j}[i] & ~keep) | (out${j}[at][i] & keep);
    }
  }`;
}

/** Vectors of each region. */
function wideMain(tile: MapTile, wide: 4 | 8): string {
  const { inputs, outputs, axes } = tile;
  const count = Array.from({ length: wide }, (_, i) => i);
  const loads = inputs.map(({ dtype, source }, k) => {
    if (source === "single" || source === "repeated") {
      const place = source === "single" ? "0u" : `places.in${k}`;
      return `let value${k} = ${loadOne(dtype, `in${k}`, `parameters.in${k}_offset + ${place}`)};`;
    }
    const name = typeof source === "number" ? `out${source}` : `in${k}`;
    const at = source === "strided" ? `places.in${k} / ${wide}u` : "index";
    const start = dtype === "u8" ? `(parameters.${name}_offset >> 2u)` : `parameters.${name}_offset`;
    const block = `let block${k} = ${name}[${start} + ${at}];`;
    if (dtype !== "f16") return block;
    return wide === 4
      ? `${block}\n  let quad${k} = quad_of(block${k});`
      : `${block}\n  let low${k} = quad_of(block${k}.xy);\n  let high${k} = quad_of(block${k}.zw);`;
  });
  const valueAt = (k: number, i: number): string => {
    const { dtype, source } = inputs[k]!;
    if (source === "single" || source === "repeated") return `value${k}`;
    const component = "xyzw"[i & 3];
    if (dtype === "u8") return `((block${k} >> ${8 * i}u) & 0xffu)`;
    if (dtype !== "f16") return `block${k}.${component}`;
    return wide === 4 ? `quad${k}.${component}` : `${i < 4 ? "low" : "high"}${k}.${component}`;
  };
  const evaluated = count.map((i) => {
    const values = inputs.map((_, k) => valueAt(k, i));
    return `let e${i} = expression(${[...values, ...counted(tile, `first + ${i}u`, `${i}u`)].join(", ")});`;
  });
  const results = outputs.map((dtype, j) => {
    const one = (i: number) => `e${i}.r${j}`;
    if (dtype === "u8") return `var words${j} = ${count.map((i) => `(${one(i)} << ${8 * i}u)`).join(" | ")};`;
    if (dtype !== "f16") return `let result${j} = vec4<${valueTypes[dtype]}>(${count.map(one).join(", ")});`;
    const words = count.filter((i) => i % 2 === 0).map((i) => `pack_halves(${one(i)}, ${one(i + 1)})`);
    return `let words${j} = vec${words.length}u(${words.join(", ")});`;
  });
  const place = (j: number) => `parameters.out${j}_offset + index`;
  const whole = outputs.map((dtype, j) => {
    if (dtype === "u8") return `out${j}[(parameters.out${j}_offset >> 2u) + index] = words${j};`;
    return `out${j}[${place(j)}] = ${dtype === "f16" ? "words" : "result"}${j};`;
  });
  const rest = outputs.map((dtype, j) => {
    if (dtype === "u8") return storeBytes(j);
    if (dtype === "f16") return storeHalves(j, place(j), wide / 2);
    return `for (var i = 0u; i < left; i++) { out${j}[${place(j)}][i] = result${j}[i]; }`;
  });
  return wgsl`${firstLine}
  let first = ${wide}u * index;
  if (first >= parameters.n) { return; }
  ${axes > 0 ? "let places = places_of(index);" : ""}
  ${loads.join("\n  ")}
  ${evaluated.join("\n  ")}
  ${results.join("\n  ")}
  let left = parameters.n - first;
  if (left >= ${wide}u) {
    ${whole.join("\n    ")}
    return;
  }
  ${rest.join("\n  ")}
}
`;
}
