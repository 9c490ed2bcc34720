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
import { STRIP, spotFunction, storeStrip, WIDE_STRIP } from "../images/index.js";
import { axisParameters } from "../resize2d/index.js";
import { resultsFunctions, resultsParameters } from "./results.wgsl.js";

/** The properties of one generated kernel; everything else is a parameter. */
export interface StripsTile {
  readonly kind: Resize2dKind;
  readonly dtype: FloatType;
  /** Of columns: from strip to strip, which are whole steps of it apart, results are the same but for where they begin. */
  readonly axis: ResizedAxis;
  /** What is loaded at once: four results, one, or four channels of one. */
  readonly load: "quad" | "single" | "channels";
  /** See `dividedFunction` of resize2d. */
  readonly byProduct: boolean;
  /** Elements of a strip. Of eight, results are read in fours. */
  readonly width: typeof STRIP | typeof WIDE_STRIP;
}

/** A result that a strip of elements is part of, by its distance from the first result of the strip. */
interface KnownResult {
  readonly result: number;
  /** Of the elements of the strip that it is made of, each with its factor, and whether the next or the one before has a share. */
  readonly shares: readonly {
    readonly element: number;
    readonly factor: number;
    readonly other: "next" | "previous" | undefined;
  }[];
}

/** Results from strip to strip; no whole number if they are not the same for all. */
export function stepOf({ factor, divisor }: ResizedAxis, width: StripsTile["width"]): number {
  return (width * divisor) / factor;
}

/** The results of the first strip, as if images had no edges. */
export function knownResults(
  kind: Resize2dKind,
  { factor, shift, divisor }: ResizedAxis,
  width: StripsTile["width"],
): readonly KnownResult[] {
  const least = kind === "nearest" ? 0 : -divisor + 1;
  const first = Math.ceil((least - shift) / factor);
  const end = Math.ceil((width * divisor - shift) / factor);
  return Array.from({ length: end - first }, (_, k): KnownResult => {
    const n = (first + k) * factor + shift;
    const shares = Array.from({ length: width }, (_, element) => {
      const beyond = n - element * divisor;
      if (kind === "nearest")
        return { element, factor: beyond >= 0 && beyond < divisor ? 1 : 0, other: undefined };
      const other = beyond < 0 ? ("previous" as const) : beyond > 0 ? ("next" as const) : undefined;
      return { element, factor: Math.max(0, 1 - Math.abs(beyond) / divisor), other };
    });
    return { result: first + k, shares: shares.filter((share) => share.factor > 0) };
  });
}

type Parameter = keyof typeof axisParameters | keyof typeof resultsParameters | keyof typeof stripParameters;

const stripParameters = {
  planes: "u32",
  rows: "u32",
  /** Invocations for a row: a strip of each four channels, or of the only one. */
  strips: "u32",
  inner: "u32",
  shift: "u32",
  first_row: "i32",
} as const;

/**
 * Strips of neighbouring elements of the input in a row, of one channel or four. The rows of results that are made of them
 * become one, which is loaded once for all of them. At the edges, the share of an element that is not there belongs to the
 * one at the edge.
 */
export function stripsProgram(tile: StripsTile): Program<"source" | "output", Parameter> {
  const { kind, dtype, axis, load, byProduct, width } = tile;
  const { single, quad, block, functions, unpacked, load: loadSingle } = floatLayouts[dtype];
  const isNearest = kind === "nearest";
  const results = knownResults(kind, axis, width);
  const step = stepOf(axis, width);
  const isQuad = load === "quad";
  const hasChannels = load === "channels";
  const vectors = [...new Set(results.map(({ result }) => Math.floor(result / STRIP)))];
  /** What is loaded together, by its distance from the strip's first. */
  const loads = isQuad ? vectors : results.map(({ result }) => result);
  const nameOf = (result: number) =>
    isQuad
      ? `sum_${loads.indexOf(Math.floor(result / STRIP))}[${((result % STRIP) + STRIP) % STRIP}]`
      : `sum_${loads.indexOf(result)}`;
  const value = load === "single" ? "f32" : "vec4f";
  const { factor, shift, divisor } = axis;
  return program({
    name: `resize_gradient_${kind}_${dtype}_strips_${factor}_${shift}_${divisor}_${load}${byProduct ? "" : "_divided"}${width === WIDE_STRIP ? "_8" : ""}`,
    bindings: {
      source: input(load === "single" ? single : quad),
      output: output(width === WIDE_STRIP ? block : quad),
    },
    parameters: { ...axisParameters, ...resultsParameters, ...stripParameters },
    body: wgsl`
${workgroupIndex}
${spotFunction}
${functions}
${resultsFunctions(kind, byProduct)}

fn load(at: u32) -> ${value} {
  ${load === "single" ? `return ${loadSingle("source", "at")};` : `let block = source[at]; return ${unpacked("block")};`}
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let spot = spot_of(
    workgroup_index(workgroup, workgroups), lane, parameters.shift, parameters.rows, parameters.strips);
  if (spot.plane >= parameters.planes || spot.row >= parameters.rows || spot.strip >= parameters.strips) { return; }
  let y = i32(spot.row) + parameters.first_row;
${hasChannels ? "  let strip = spot.strip / parameters.inner;\n  let channel = spot.strip - strip * parameters.inner;" : "  let strip = spot.strip;"}
  let x = ${width} * i32(strip);
  let base = ${isQuad ? step / STRIP : step} * i32(strip);
  let extent = ${isQuad ? `parameters.result_columns / ${STRIP}` : "parameters.result_columns"};
${loads
  .map((at, k) => `  let place_${k} = clamp(base + (${at}), 0, extent - 1);\n  var sum_${k} = ${value}(0.0);`)
  .join("\n")}
  let over_y = rows_of(y);
  for (var v = over_y.x; v < over_y.y; v++) {
    let line = (i32(spot.plane) * parameters.result_rows + v - parameters.result_row) * extent;
    ${isNearest ? "" : "let factor = row_factor(v, y);"}
${loads
  .map((_, k) => {
    const at = hasChannels ? `u32(line + place_${k}) * parameters.inner + channel` : `u32(line + place_${k})`;
    const loaded = `load(parameters.source_offset + ${at})`;
    return `    sum_${k} += ${isNearest ? loaded : `factor * ${loaded}`};`;
  })
  .join("\n")}
  }
  // Beyond the edges there is nothing.
${loads
  .map((at, k) => `  sum_${k} = select(${value}(0.0), sum_${k}, place_${k} == base + (${at}));`)
  .join("\n")}
  let last = parameters.last_x - x;
${lines(width, (element) => {
  const terms = results.flatMap(({ result, shares }) => {
    const share = shares.find((one) => one.element === element);
    return share === undefined ? [] : [term(nameOf(result), share, width)];
  });
  return `  let value_${element} = ${terms.length === 0 ? `${hasChannels ? "vec4f" : "f32"}(0.0)` : terms.join(" + ")};`;
})}
${storeStrip(dtype, hasChannels, width)}
}
`,
  });
}

/** Strips are whole, so that only their first element may be the first one, and their last element the last one. */
function term(
  sum: string,
  { element, factor, other }: KnownResult["shares"][number],
  width: StripsTile["width"],
): string {
  if (factor === 1) return sum;
  if (other === "previous" && element === 0) return `select(${factor}f, 1.0, x == 0) * ${sum}`;
  if (other === "next" && element === width - 1)
    return `select(${factor}f, 1.0, last == ${width - 1}) * ${sum}`;
  return `${factor}f * ${sum}`;
}
